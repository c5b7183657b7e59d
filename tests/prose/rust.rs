//! A Rust source as comments, string literals, and code.

use super::words::{self, Word};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// A part of a source that has one kind.
#[derive(Debug)]
struct Part<'a> {
    kind: Kind,
    line: usize,
    text: &'a str,
}

/// A word or a sign of the code, with its line.
pub(crate) type Token<'a> = (usize, &'a str);

/// Divides a source into its parts. A literal is the text between its quotes.
fn parts(source: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, 0);
    let mut line = 1;
    while at < source.len() {
        let Some((kind, begin, end, next)) = special(source, at) else {
            at += source[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        let mut push = |kind: Kind, begin: usize, end: usize, next: usize| {
            let text = &source[begin..end];
            parts.push(Part { kind, line, text });
            line += source[begin..next].matches('\n').count();
        };
        push(Kind::Code, from, at, at);
        push(kind, begin, end, next);
        (from, at) = (next, next);
    }
    let text = &source[from..];
    parts.push(Part {
        kind: Kind::Code,
        line,
        text,
    });
    parts
}

/// The comment, string literal, or character literal that begins at a position: its kind, where its
/// text begins and ends, and where the source continues.
fn special(source: &str, at: usize) -> Option<(Kind, usize, usize, usize)> {
    let rest = &source[at..];
    if rest.starts_with("//") {
        let end = rest.find('\n').map_or(source.len(), |end| at + end);
        return Some((Kind::Comment, at, end, end));
    }
    if rest.starts_with("/*") {
        let end = at + length_of_block(rest);
        return Some((Kind::Comment, at, end, end));
    }
    if rest.starts_with('\'') {
        let length = length_of_character(rest)?;
        return Some((Kind::Code, at, at, at + length));
    }
    if let Some(hashes) = hashes_of_raw(source, at) {
        let begin = at + hashes + 2;
        let quote = format!("\"{}", "#".repeat(hashes));
        let end = source[begin..].find(&quote).map_or(source.len(), |end| begin + end);
        return Some((Kind::Literal, begin, end, (end + quote.len()).min(source.len())));
    }
    if rest.starts_with('"') {
        let begin = at + 1;
        let end = begin + length_of_string(&source[begin..]);
        return Some((Kind::Literal, begin, end, (end + 1).min(source.len())));
    }
    None
}

/// The length of a block comment, which may contain others.
fn length_of_block(text: &str) -> usize {
    let mut depth = 0;
    for (at, pair) in text.as_bytes().windows(2).enumerate() {
        match pair {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return at + 2;
        }
    }
    text.len()
}

/// The length of a character literal; `None` for a lifetime.
fn length_of_character(text: &str) -> Option<usize> {
    let mut letters = text.char_indices().skip(1);
    let (_, first) = letters.next()?;
    if first == '\\' {
        letters.next()?;
        return letters.find(|(_, letter)| *letter == '\'').map(|(at, _)| at + 1);
    }
    let (at, second) = letters.next()?;
    (second == '\'').then_some(at + 1)
}

/// The number of hashes of the raw string that begins at a position.
fn hashes_of_raw(source: &str, at: usize) -> Option<usize> {
    let after = source[at..].strip_prefix('r')?;
    let before = source[..at].trim_end_matches('b');
    if before.ends_with(is_word) {
        return None;
    }
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// The length of the text of a string literal.
fn length_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !escaped => return at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The lines that contain only a comment, with their numbers. Code blocks in comments do not count.
pub(crate) fn comment_lines(source: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut found = Vec::new();
    let lines: Vec<&str> = source.lines().collect();
    for part in parts(source).iter().filter(|part| part.kind == Kind::Comment) {
        for (number, line) in lines
            .iter()
            .enumerate()
            .skip(part.line - 1)
            .take(part.text.lines().count())
        {
            let text = line.trim_start();
            fenced ^= text.trim_start_matches(['/', '!', ' ']).starts_with("```");
            if !fenced && text.starts_with(['/', '*']) {
                found.push((number + 1, *line));
            }
        }
    }
    found
}

/// The words of all comments. Code between two comments is punctuation.
pub(crate) fn words_of_comments(source: &str) -> Vec<Word> {
    let mut found = Vec::new();
    for part in parts(source) {
        match part.kind {
            Kind::Comment => {
                for (at, line) in part.text.lines().enumerate() {
                    let text = line.trim_start().trim_start_matches(['/', '!', '*']);
                    let text = if text.trim().is_empty() { "." } else { text };
                    found.extend(words::of(text, part.line + at));
                }
            }
            Kind::Code if part.text.trim().is_empty() => {}
            Kind::Code | Kind::Literal => found.extend(words::of(".", part.line)),
        }
    }
    found
}

/// The words of all string literals. A backslash at the end of a line joins two lines.
pub(crate) fn words_of_strings(source: &str) -> Vec<Word> {
    let mut found = Vec::new();
    for part in parts(source).iter().filter(|part| part.kind == Kind::Literal) {
        let text = part
            .text
            .replace("\\\n", " \n")
            .replace("\\n", "; ")
            .replace("\\\"", "\"");
        found.extend(words::of(&text, part.line));
        found.extend(words::of(".", part.line));
    }
    found
}

/// The tokens of the code: words and single signs.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    for part in parts(source).iter().filter(|part| part.kind == Kind::Code) {
        let mut line = part.line;
        let mut rest = part.text;
        while let Some(letter) = rest.chars().next() {
            let length = if is_word(letter) {
                rest.find(|letter| !is_word(letter)).unwrap_or(rest.len())
            } else {
                letter.len_utf8()
            };
            let (token, after) = rest.split_at(length);
            rest = after;
            if !letter.is_whitespace() {
                found.push((line, token));
            }
            line += usize::from(letter == '\n');
        }
    }
    found
}

/// The lines on which a sequence of tokens begins, such as `fn look` or `. look (`.
pub(crate) fn find(tokens: &[Token<'_>], sequence: &str) -> Vec<usize> {
    let sequence: Vec<&str> = sequence.split(' ').collect();
    let fits = |window: &&[Token<'_>]| window.iter().zip(&sequence).all(|((_, token), wanted)| token == wanted);
    let windows = tokens.windows(sequence.len());
    windows.filter(fits).map(|window| window[0].0).collect()
}

/// The names that have a word as a part, such as `ledger` in `WriteLedger` and `the_ledger`.
pub(crate) fn find_part<'a>(tokens: &[Token<'a>], word: &str) -> Vec<Token<'a>> {
    let has = |(_, token): &&Token<'a>| {
        // Most names are shorter, and need not be divided.
        token.len() >= word.len() && parts_of_name(token).iter().any(|part| part == word)
    };
    tokens.iter().filter(has).copied().collect()
}

/// The parts of a name in lower case: `WriteTracker` and `write_tracker` both give `write` and
/// `tracker`.
fn parts_of_name(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = vec![String::new()];
    let mut lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && lower) {
            parts.push(String::new());
        }
        lower = letter.is_lowercase() || letter.is_ascii_digit();
        if let Some(part) = parts.last_mut().filter(|_| letter != '_') {
            part.extend(letter.to_lowercase());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::words::find as find_phrase;
    use super::*;

    const SOURCE: &str = r##"//! It is
//! none.
fn look<'a>(text: &'a str) -> char { // nobody
    let raw = r#"// is "none" \"#;
    let plain = "who \" may \
        not // x";
    let quote = '"'; let tick = '\''; let letter = 'x';
    /* is /* told */ whoever */
    self.look(raw, plain)
}
"##;

    fn in_comments(phrase: &str) -> Vec<usize> {
        find_phrase(&words_of_comments(SOURCE), phrase)
    }

    fn in_strings(phrase: &str) -> Vec<usize> {
        find_phrase(&words_of_strings(SOURCE), phrase)
    }

    fn in_code(sequence: &str) -> Vec<usize> {
        find(&tokens(SOURCE), sequence)
    }

    #[test]
    fn comments_are_found_across_lines_and_strings_are_not_comments() {
        assert_eq!(in_comments("is none"), [1]);
        assert_eq!(in_comments("nobody"), [3]);
        assert_eq!(in_comments("whoever"), [8]);
        assert!(in_comments("may not").is_empty());
    }

    #[test]
    fn strings_are_found_across_continued_lines() {
        assert_eq!(in_strings("may not"), [5]);
        assert_eq!(in_strings("none"), [4]);
        assert!(in_strings("who may").is_empty(), "a quote is punctuation");
        assert!(in_strings("nobody").is_empty());
    }

    #[test]
    fn code_is_found_without_comments_and_strings() {
        assert_eq!(in_code("fn look"), [3]);
        assert_eq!(in_code(". look ("), [9]);
        assert_eq!(in_code("let letter ="), [7]);
        assert!(in_code("none").is_empty());
        assert!(in_code("x").is_empty(), "a character literal is not code");
    }

    #[test]
    fn a_former_name_is_found_as_a_whole_name_only() {
        let tokens = tokens("struct Rest; let restore = rest; overlook(); Rests");
        assert_eq!(find(&tokens, "Rest"), [1]);
        assert!(find(&tokens, "look").is_empty());
    }

    #[test]
    fn a_former_word_is_found_as_a_part_of_a_name() {
        let tokens = tokens("WriteLedger the_ledger LEDGER ledgers acknowledge");
        let names: Vec<&str> = find_part(&tokens, "ledger").iter().map(|(_, name)| *name).collect();
        assert_eq!(names, ["WriteLedger", "the_ledger", "LEDGER"]);
    }

    #[test]
    fn lines_with_only_a_comment_are_comment_lines() {
        let source = "/// one\nlet x = 1; // two\n    // three\n/// ```\n/// code\n/// ```\n/// four\n";
        let found: Vec<usize> = comment_lines(source).iter().map(|(line, _)| *line).collect();
        // The closing fence counts; it is never long.
        assert_eq!(found, [1, 3, 6, 7]);
    }
}
