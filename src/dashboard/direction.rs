//! Characters that change the direction of the text after them.
//!
//! A name or a message may contain them. In the page, they would turn text around that Capstan
//! wrote, so each one is shown as the replacement character. Right-to-left letters stay as they
//! are: every text of a cluster is isolated by its element.

use maud::{Markup, PreEscaped};

/// What is shown in the place of a character that changes the direction.
pub(super) const REPLACEMENT: char = '\u{fffd}';

/// Whether the character is an embedding, an override, an isolate, or their end.
pub(super) fn changes_direction(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The markup without characters that change the direction.
pub(super) fn neutral(markup: Markup) -> Markup {
    let PreEscaped(text) = markup;
    if !text.contains(changes_direction) {
        return PreEscaped(text);
    }
    PreEscaped(text.replace(changes_direction, &REPLACEMENT.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w47_an_override_is_shown_and_letters_stay() {
        let markup = PreEscaped(String::from("<bdi>מ\u{202e}b\u{2066}c</bdi>"));
        assert_eq!(neutral(markup).into_string(), "<bdi>מ\u{fffd}b\u{fffd}c</bdi>");
    }
}
