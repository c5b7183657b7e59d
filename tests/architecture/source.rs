//! Reads the Rust sources of the repository and parses them into tokens.
//!
//! Tokens contain neither comments nor formatting, and a string literal is one token. A check of
//! tokens therefore does not mistake text for code.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

/// One Rust file.
pub(crate) struct Source {
    /// The path from the root of the repository, such as `core/src/cpms/plan.rs`.
    pub(crate) path: String,
    /// The path of the module within its crate: `core/src/cpms/plan.rs` is `["cpms", "plan"]`. It
    /// is empty for `lib.rs`.
    pub(crate) module: Vec<String>,
    /// The whole text.
    pub(crate) text: String,
}

impl Source {
    /// The tokens of the file. A doc comment is an attribute with a string literal.
    pub(crate) fn tokens(&self) -> TokenStream {
        tokens(&self.path, &self.text)
    }
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a folder of the repository, ordered by path.
pub(crate) fn sources(folder: &str) -> Vec<Source> {
    let base = root().join(folder);
    let mut sources = Vec::new();
    let mut folders = vec![base.clone()];
    while let Some(folder_path) = folders.pop() {
        for entry in fs::read_dir(&folder_path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(read(folder, &base, &path));
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!sources.is_empty(), "{folder} must contain a Rust file");
    sources
}

fn read(folder: &str, base: &Path, path: &Path) -> Source {
    let within: PathBuf = path.strip_prefix(base).unwrap().to_path_buf();
    Source {
        path: format!("{folder}/{}", within.display()),
        module: module(&within),
        text: fs::read_to_string(path).unwrap(),
    }
}

/// The module path of a file, given its path from the folder of the crate root.
fn module(within: &Path) -> Vec<String> {
    within
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .filter(|part| part != "lib" && part != "mod")
        .collect()
}

/// Parses Rust code into tokens. A failure message contains `name`.
pub(crate) fn tokens(name: &str, text: &str) -> TokenStream {
    text.parse()
        .unwrap_or_else(|error| panic!("{name} must be valid Rust: {error}"))
}

/// The line on which a token begins, counted from 1.
pub(crate) fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

/// The identifier at a position, if the token there is one.
pub(crate) fn ident(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// All identifiers and keywords in the code.
pub(crate) fn idents(stream: TokenStream) -> Vec<String> {
    let mut idents = Vec::new();
    for token in stream {
        match token {
            TokenTree::Ident(ident) => idents.push(ident.to_string()),
            TokenTree::Group(group) => idents.extend(self::idents(group.stream())),
            _ => {}
        }
    }
    idents
}

/// Whether the token at a position is this punctuation character.
pub(crate) fn is_punct(tokens: &[TokenTree], at: usize, wanted: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

/// Whether `::` begins at a position.
pub(crate) fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens, at, ':') && is_punct(tokens, at + 1, ':')
}

/// Whether an attribute compiles its item only for tests: `#[test]`, `#[tokio::test]`,
/// `#[cfg(test)]`. `tokens` are those inside the brackets.
pub(crate) fn is_test_attribute(tokens: &TokenStream) -> bool {
    let words: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let condition = match words.get(1) {
        Some(TokenTree::Group(group)) => group.stream().to_string(),
        _ => String::new(),
    };
    let path: Vec<String> = (0..words.len())
        .map_while(|at| match &words[at] {
            TokenTree::Group(_) => None,
            token => Some(token.to_string()),
        })
        .collect();
    path.last().is_some_and(|word| word == "test") || (path == ["cfg"] && condition == "test")
}

#[test]
fn a_test_attribute_is_recognised() {
    for yes in ["test", "tokio::test", "tokio::test(start_paused = true)", "cfg(test)"] {
        assert!(is_test_attribute(&tokens(yes, yes)), "{yes}");
    }
    for no in ["cfg(not(test))", "cfg(unix)", "doc = \"test\"", "must_use"] {
        assert!(!is_test_attribute(&tokens(no, no)), "{no}");
    }
}

#[test]
fn the_module_path_of_a_file_follows_its_path() {
    let of = |path: &str| module(Path::new(path));
    assert_eq!(of("lib.rs"), Vec::<String>::new());
    assert_eq!(of("cpms/plan.rs"), ["cpms", "plan"]);
    assert_eq!(of("cpms/mod.rs"), ["cpms"]);
}
