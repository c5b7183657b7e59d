//! Prose as a sequence of words, so that a phrase is found across the ends of lines.

/// A word in lower case, without `'s`. The end of a sentence is the word `.`, and other punctuation is
/// the word `,`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The line of the word; the first line of a file is 1.
    pub(crate) line: usize,
    /// The word.
    pub(crate) text: String,
}

/// The words of a text that begins at a line. Text between backticks is code and counts as
/// punctuation.
pub(crate) fn of(text: &str, first_line: usize) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    let mut line = first_line;
    let mut word = String::new();
    let mut in_code = false;
    let mut blank = false;
    for letter in text.chars().chain(['\n']) {
        if !in_code && (letter.is_alphanumeric() || matches!(letter, '\'' | '’' | '-' | '_')) {
            word.push(if letter == '’' { '\'' } else { letter });
            blank = false;
            continue;
        }
        if !word.is_empty() {
            found.push(Word {
                line,
                text: normal(&word),
            });
            word.clear();
        }
        if letter == '`' {
            in_code = !in_code;
        }
        // An unmatched backtick ends with its paragraph.
        in_code &= !(letter == '\n' && blank);
        let text = match letter {
            '.' | ';' | ':' | '!' | '?' | '|' | '#' => ".",
            '\n' if blank => ".",
            _ if letter.is_whitespace() => "",
            _ => ",",
        };
        if !text.is_empty() {
            found.push(Word {
                line,
                text: text.to_owned(),
            });
        }
        blank = letter == '\n' || (blank && letter.is_whitespace());
        line += usize::from(letter == '\n');
    }
    found
}

/// A word in lower case, without quotes around it and without `'s`.
fn normal(word: &str) -> String {
    let word = word.trim_matches(['\'', '-']).to_lowercase();
    word.strip_suffix("'s").unwrap_or(&word).to_owned()
}

/// The lines on which a phrase begins. The phrase is in lower case, with single spaces. A phrase
/// that begins with `.` is found at the beginning of a sentence only.
pub(crate) fn find(words: &[Word], phrase: &str) -> Vec<usize> {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    let fits = |window: &&[Word]| window.iter().zip(&phrase).all(|(word, wanted)| word.text == *wanted);
    let windows = words.windows(phrase.len());
    windows.filter(fits).map(|window| window[0].line).collect()
}

/// The words of the comments of a file whose comments begin with `#`.
pub(crate) fn of_hash_comments(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let content = line.trim_start().strip_prefix('#').unwrap_or(".");
        found.extend(of(content, at + 1));
    }
    found
}

/// Whether the line of a comment has too many columns. A line that is a single word, such as an
/// address, and the row of a table cannot be divided.
pub(crate) fn is_comment_too_long(line: &str, columns: usize) -> bool {
    let content = line.trim_start().trim_start_matches(['/', '!', '#', '*']).trim();
    let divisible = content.contains(' ') && !content.starts_with('|');
    line.chars().count() > columns && divisible
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, phrase: &str) -> Vec<usize> {
        find(&of(text, 1), phrase)
    }

    #[test]
    fn a_phrase_is_found_across_lines_and_in_any_case() {
        assert_eq!(lines("One.\nThe value Is\nnone of them.", "is none"), [2]);
        assert_eq!(lines("Somebody's and nobody’s", "nobody"), [1]);
        assert_eq!(lines("is none is none", "is none"), [1, 1]);
    }

    #[test]
    fn a_phrase_is_not_found_across_punctuation() {
        assert!(lines("as it is. None of them", "is none").is_empty());
        assert!(lines("as it is\n\nnone", "is none").is_empty());
        assert!(lines("who (may) not", "who may not").is_empty());
    }

    #[test]
    fn a_phrase_can_be_limited_to_the_beginning_of_a_sentence() {
        assert_eq!(lines("A user who asks. Who asks again?", ". who"), [1]);
        assert_eq!(lines("A user, who asks\n\nwho asks", ". who"), [2]);
        assert_eq!(lines("# Who asks", ". who"), [1]);
    }

    #[test]
    fn a_phrase_is_found_as_whole_words_only() {
        assert!(lines("this nonetheless", "is none").is_empty());
        assert!(lines("latest blest", "lest").is_empty());
        assert!(lines("nobody-else", "nobody").is_empty());
    }

    #[test]
    fn code_is_not_prose() {
        assert!(lines("the `is none` of `nobody`", "is none").is_empty());
        assert_eq!(lines("a ` is open\n\nand nobody reads it", "nobody"), [3]);
    }

    #[test]
    fn comments_with_a_hash_are_prose_and_other_lines_are_not() {
        let words = of_hash_comments("# is told\nkey: is none\n  # and nobody\n  # is none\n");
        assert_eq!(find(&words, "is told"), [1]);
        assert_eq!(find(&words, "nobody is none"), [3]);
        assert_eq!(find(&words, "is none"), [4]);
    }

    #[test]
    fn a_line_that_can_be_divided_is_too_long() {
        assert!(is_comment_too_long("/// one two three", 10));
        assert!(!is_comment_too_long("/// one two three", 17));
        assert!(!is_comment_too_long("/// https://example.com/a/b", 10));
        assert!(!is_comment_too_long("//! | one | two |", 10));
    }
}
