//! The configuration of CoreDNS: server blocks with plugins, and plugins with options.
//!
//! Only the structure is read. A configuration with deeper blocks is not read, because writing it
//! back would lose them. Comments are lost when a configuration is written back.

use std::fmt::Write as _;

/// A configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Corefile {
    pub(super) servers: Vec<Server>,
}

/// A server block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    /// The zones, with their ports.
    pub(super) zones: Vec<String>,
    pub(super) plugins: Vec<Plugin>,
}

/// A plugin of a server block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plugin {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) options: Vec<Line>,
}

/// An option of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
}

impl Server {
    pub(super) fn has(&self, plugin: &str) -> bool {
        self.plugins.iter().any(|one| one.name == plugin)
    }
}

impl Plugin {
    /// A plugin without options.
    pub(super) fn new(name: &str, arguments: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            options: Vec::new(),
        }
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|one| one.name == option)
    }
}

impl Line {
    pub(super) fn new(name: &str, arguments: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        }
    }
}

impl Corefile {
    /// Reads a configuration.
    ///
    /// # Errors
    /// What must be true of the text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut file = Self::default();
        let mut depth = 0;
        for line in lines(text)? {
            let mut words = line.as_slice();
            while let Some((first, rest)) = words.split_first() {
                if first.is_brace("}") {
                    depth = usize::checked_sub(depth, 1).ok_or("must open each block before it is closed")?;
                    words = rest;
                    continue;
                }
                let end = words.iter().position(|word| word.is_brace("{") || word.is_brace("}"));
                let (own, rest) = words.split_at(end.unwrap_or(words.len()));
                if !own.is_empty() {
                    file.add(depth, own)?;
                }
                words = rest;
                if let Some((brace, rest)) = words.split_first()
                    && brace.is_brace("{")
                {
                    depth += 1;
                    words = rest;
                }
            }
        }
        match depth {
            0 => Ok(file),
            _ => Err(String::from("must close each block")),
        }
    }

    fn add(&mut self, depth: usize, words: &[Word]) -> Result<(), String> {
        let texts: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
        let Some((name, arguments)) = texts.split_first() else {
            return Ok(());
        };
        let (name, arguments) = (name.clone(), arguments.to_vec());
        match depth {
            0 => self.servers.push(Server {
                zones: texts,
                plugins: Vec::new(),
            }),
            1 => {
                let server = self.servers.last_mut().ok_or("must name the zones of each block")?;
                server.plugins.push(Plugin {
                    name,
                    arguments,
                    options: Vec::new(),
                });
            }
            2 => {
                let plugin = self.servers.last_mut().and_then(|server| server.plugins.last_mut());
                let plugin = plugin.ok_or("must name the plugin of each block")?;
                plugin.options.push(Line { name, arguments });
            }
            _ => return Err(String::from("must have no block inside of the options of a plugin")),
        }
        Ok(())
    }

    /// The configuration as text.
    pub(super) fn text(&self) -> String {
        let servers: Vec<String> = self.servers.iter().map(server_text).collect();
        servers.join("\n")
    }
}

fn server_text(server: &Server) -> String {
    let mut text = joined(&server.zones);
    if server.plugins.is_empty() {
        return text;
    }
    text.push_str(" {\n");
    for plugin in &server.plugins {
        // Writing to a text cannot fail.
        let _written = write!(text, "    {}{}", plugin.name, after(&plugin.arguments));
        if !plugin.options.is_empty() {
            text.push_str(" {\n");
            for option in &plugin.options {
                let _written = writeln!(text, "        {}{}", option.name, after(&option.arguments));
            }
            text.push_str("    }");
        }
        text.push('\n');
    }
    text.push_str("}\n");
    text
}

fn after(arguments: &[String]) -> String {
    match arguments {
        [] => String::new(),
        arguments => format!(" {}", joined(arguments)),
    }
}

fn joined(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let needs_quotes = word.is_empty() || word.contains(char::is_whitespace);
        if needs_quotes {
            format!("\"{}\"", word.replace('"', "\\\""))
        } else {
            word.clone()
        }
    });
    quoted.collect::<Vec<String>>().join(" ")
}

/// A word, and whether it was in quotes: a brace in quotes opens no block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Word {
    text: String,
    is_quoted: bool,
}

impl Word {
    fn is_brace(&self, brace: &str) -> bool {
        !self.is_quoted && self.text == brace
    }
}

/// The words of each line. A comment begins with `#` at the beginning of a word. A quoted word may
/// have several lines.
fn lines(text: &str) -> Result<Vec<Vec<Word>>, String> {
    let (mut lines, mut line, mut word) = (Vec::new(), Vec::new(), None::<Word>);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, &mut word) {
            ('"', None) => {
                line.push(quoted(&mut letters)?);
            }
            ('#', None) => while letters.next_if(|next| *next != '\n').is_some() {},
            (letter, _) if letter.is_whitespace() => {
                line.extend(word.take());
                if letter == '\n' {
                    lines.push(std::mem::take(&mut line));
                }
            }
            (letter, Some(word)) => word.text.push(letter),
            (letter, None) => {
                word = Some(Word {
                    text: letter.to_string(),
                    is_quoted: false,
                });
            }
        }
    }
    line.extend(word);
    lines.push(line);
    Ok(lines)
}

fn quoted(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Word, String> {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                return Ok(Word { text, is_quoted: true });
            }
            '\\' if letters.next_if_eq(&'"').is_some() => text.push('"'),
            letter => text.push(letter),
        }
    }
    Err(String::from("must close each quotation mark"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: &str = ".:53 {
    errors
    health {
        lameduck 5s
    }
    kubernetes cluster.local in-addr.arpa {
        pods insecure
    }
    rewrite name \"a b\" c
}

example.org {
    forward . 10.0.0.1
}
";

    #[test]
    fn a_configuration_is_written_as_it_was_read() {
        let file = Corefile::parse(DEFAULT).unwrap();
        assert_eq!(file.text(), DEFAULT);
        let commented = DEFAULT.replace("    errors\n", "    # a comment {\n\n    errors # why\n");
        assert_eq!(Corefile::parse(&commented).unwrap(), file);
        assert_eq!(Corefile::parse("a {\n  log\n}").unwrap().text(), "a {\n    log\n}\n");
        assert_eq!(Corefile::parse("").unwrap().text(), "");
    }

    #[test]
    fn a_brace_in_quotes_opens_no_block() {
        let file = Corefile::parse("a {\n  log \"{\" \"}\"\n}").unwrap();
        assert_eq!(file.servers[0].plugins[0].arguments, ["{", "}"]);
    }

    #[test]
    fn what_cannot_be_written_back_is_refused() {
        for text in ["a {", "}", "a {\n b {\n c {\n d\n }\n }\n}", "a \"b", "{\n a\n}"] {
            assert!(Corefile::parse(text).is_err(), "{text:?}");
        }
    }
}
