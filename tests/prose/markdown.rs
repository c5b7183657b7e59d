//! The prose of a Markdown page: everything except code.

use super::words::{self, Word};

/// The lines of a page that are not code, with their numbers. An empty text stands for code.
fn prose(page: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (at, line) in page.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let code = fence || fenced || line.starts_with("    ");
        found.push((at + 1, if code { "" } else { line }));
    }
    found
}

/// The words of a page, without code.
pub(crate) fn words(page: &str) -> Vec<Word> {
    let lines: Vec<&str> = prose(page).into_iter().map(|(_, line)| line).collect();
    words::of(&lines.join("\n"), 1)
}

/// The lines of prose that have too many columns. Rows of tables do not count, and neither do lines
/// that are a single link or picture.
pub(crate) fn long_lines(page: &str, columns: usize) -> Vec<(usize, &str)> {
    let is_long =
        |(_, line): &(usize, &str)| line.chars().count() > columns && !line.starts_with('|') && !is_link(line.trim());
    prose(page).into_iter().filter(is_long).collect()
}

/// Whether a line is a single link or picture, with or without punctuation after it.
fn is_link(line: &str) -> bool {
    let line = line.trim_end_matches(['.', ',', ';', ':']);
    let one = line.matches("](").count() == 1;
    let whole = (line.starts_with('[') || line.starts_with("![")) && line.ends_with(')');
    one && whole
}

#[cfg(test)]
mod tests {
    use super::super::words::find;
    use super::*;

    const PAGE: &str = "# Title\n\nIt is\nnone here.\n\n    is none\n\n```\nis none\n```\n| is none | x |\n";

    #[test]
    fn phrases_are_found_in_prose_and_tables_and_not_in_code() {
        assert_eq!(find(&words(PAGE), "is none"), [3, 11]);
    }

    #[test]
    fn long_lines_of_prose_are_found() {
        assert_eq!(
            long_lines("a b c d\n| a b c d |\n    a b c d\nshort\n", 6),
            [(1, "a b c d")]
        );
        assert_eq!(long_lines("ä b c\n", 5), []);
    }

    #[test]
    fn a_line_that_is_a_single_link_may_be_long() {
        assert_eq!(long_lines("[a page](https://example.com/a/b).\n![a](b/c.svg)\n", 6), []);
        assert_eq!(long_lines("see [a](b/c)\n", 6).len(), 1);
        assert_eq!(long_lines("[a](b) and [c](d)\n", 6).len(), 1);
    }
}
