//! The output of the tour, with colours on a terminal only.

use std::io::{IsTerminal as _, Write};

use crate::control_plane::Output;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const END: &str = "\x1b[0m";

/// Writes the lines of the tour. Write errors are ignored, because the tour must still stop and
/// delete what it started.
pub struct Screen {
    out: Box<dyn Write + Send>,
    colour: bool,
}

impl Screen {
    /// A screen on standard output.
    pub fn stdout() -> Self {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self {
            out: Box::new(std::io::stdout()),
            colour,
        }
    }

    /// A screen on any writer, without colours.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        Self {
            out: Box::new(out),
            colour: false,
        }
    }

    /// Writes a line.
    pub fn plain(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}");
        let _ = self.out.flush();
    }

    /// Writes an empty line.
    pub fn blank(&mut self) {
        self.plain("");
    }

    /// Writes a line of progress.
    pub fn step(&mut self, text: &str) {
        let line = self.paint(DIM, &format!("… {text}"));
        self.plain(&line);
    }

    /// Writes the title of a scene, and its command as a user would type it.
    pub(super) fn scene(&mut self, title: &str, editor: Option<&str>, flags: &[String], command: &[&str]) {
        self.blank();
        let title = self.paint(BOLD, &format!("── {title}"));
        self.plain(&title);
        let editor = editor.map_or_else(String::new, |editor| format!("EDITOR={} ", quote(editor)));
        let words = flags.iter().map(String::as_str).chain(command.iter().copied());
        let words: Vec<String> = words.map(quote).collect();
        let line = self.paint(BOLD, &format!("$ {editor}kubectl {}", words.join(" ")));
        self.plain(&line);
    }

    /// Writes a title and a command line.
    pub(super) fn command(&mut self, title: &str, line: &str) {
        self.blank();
        let title = self.paint(BOLD, &format!("── {title}"));
        self.plain(&title);
        let line = self.paint(BOLD, &format!("$ {line}"));
        self.plain(&line);
    }

    /// Writes the output of kubectl. Warnings come before the answer, as on a terminal.
    pub(super) fn answer(&mut self, output: &Output) {
        let colour = if output.success() { YELLOW } else { RED };
        for line in output.stderr.lines() {
            let line = self.paint(colour, line);
            self.plain(&line);
        }
        if !output.stdout.is_empty() {
            self.plain(output.stdout.trim_end());
        }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("{colour}{text}{END}")
        } else {
            text.to_owned()
        }
    }
}

/// Quotes a word for a shell.
fn quote(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=,./:@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_command_can_be_pasted_into_a_shell() {
        assert_eq!(quote("--replicas=5"), "--replicas=5");
        assert_eq!(quote(r#"{"a": "it's"}"#), r#"'{"a": "it'\''s"}'"#);
    }
}
