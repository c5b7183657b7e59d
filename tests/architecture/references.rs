//! Collects the paths that a file names in its `use` items and in its code.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::source::{Source, ident, is_path_separator, is_punct, is_test_attribute, line};

/// A path of two or more segments, or an import.
#[derive(Debug)]
pub(crate) struct Reference {
    /// The module that contains it, with inline modules.
    pub(crate) scope: Vec<String>,
    /// The segments; those of `use a::{b, c}` are `a`, `b` and `a`, `c`.
    pub(crate) segments: Vec<String>,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// For a `use`: the imported name; `*` for a glob.
    pub(crate) imported_as: Option<String>,
    /// Whether the code is compiled for tests only.
    pub(crate) for_tests: bool,
}

/// The references of a file.
#[derive(Default)]
pub(crate) struct Contents {
    /// The paths, in the order of the file.
    pub(crate) references: Vec<Reference>,
    /// The modules that the file declares for tests only, as module paths.
    pub(crate) test_modules: Vec<Vec<String>>,
}

/// Reads a file.
pub(crate) fn contents(source: &Source) -> Contents {
    let mut walk = Walk {
        scope: source.module.clone(),
        for_tests: false,
        contents: Contents::default(),
    };
    walk.tokens(source.tokens());
    walk.contents
}

/// The state of reading one file.
struct Walk {
    scope: Vec<String>,
    for_tests: bool,
    contents: Contents,
}

impl Walk {
    /// Reads the tokens of a module, a block, or the arguments of a macro.
    fn tokens(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let outer = self.for_tests;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            if let Some((attribute, next)) = attribute(&tokens, at) {
                self.for_tests |= is_test_attribute(&attribute);
                at = next;
                continue;
            }
            let is_use = ident(&tokens, at).is_some_and(|word| word == "use") && !is_punct(&tokens, at + 1, '<');
            let mut ends_item = is_use;
            if is_use {
                at = self.import(&tokens, at + 1);
            } else if let Some((name, body)) = module(&tokens, at) {
                self.module(name, body);
                ends_item = true;
                at += 3;
            } else if let TokenTree::Ident(_) = token {
                at = self.path(&tokens, at);
            } else {
                if let TokenTree::Group(group) = token {
                    self.tokens(group.stream());
                    ends_item = group.delimiter() == Delimiter::Brace;
                }
                ends_item |= is_punct(&tokens, at, ';');
                at += 1;
            }
            if ends_item {
                self.for_tests = outer;
            }
        }
        self.for_tests = outer;
    }

    /// Reads a module: its body if it is inline.
    fn module(&mut self, name: String, body: Option<TokenStream>) {
        self.scope.push(name);
        match body {
            Some(body) => self.tokens(body),
            None if self.for_tests => self.contents.test_modules.push(self.scope.clone()),
            None => {}
        }
        self.scope.pop();
    }

    /// Reads the imports of a `use`, and returns the position after its semicolon.
    fn import(&mut self, tokens: &[TokenTree], start: usize) -> usize {
        let end = (start..tokens.len())
            .find(|at| is_punct(tokens, *at, ';'))
            .unwrap_or(tokens.len());
        self.use_tree(&tokens[start..end], &[]);
        end + 1
    }

    /// Reads one tree of a `use`: `a::b`, `a::b as c`, `a::*`, `a::{b, c::d}`.
    fn use_tree(&mut self, tokens: &[TokenTree], prefix: &[String]) {
        let mut segments = prefix.to_vec();
        let mut at = 0;
        loop {
            if is_path_separator(tokens, at) {
                at += 2;
            }
            match tokens.get(at) {
                Some(TokenTree::Ident(word)) if word != "as" => {
                    segments.push(word.to_string());
                    at += 1;
                }
                Some(TokenTree::Group(group)) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for tree in inner.split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','))
                    {
                        self.use_tree(tree, &segments);
                    }
                    return;
                }
                _ => break,
            }
        }
        let (Some(first), Some(last)) = (tokens.first(), segments.last()) else {
            return;
        };
        let imported_as = if is_punct(tokens, at, '*') {
            "*".to_owned()
        } else if ident(tokens, at).is_some_and(|word| word == "as") {
            ident(tokens, at + 1).unwrap_or_default()
        } else if last == "self" {
            segments.iter().rev().nth(1).cloned().unwrap_or_default()
        } else {
            last.clone()
        };
        self.contents.references.push(Reference {
            scope: self.scope.clone(),
            line: line(first),
            segments,
            imported_as: Some(imported_as),
            for_tests: self.for_tests,
        });
    }

    /// Reads the path at a position, and returns the position after it.
    fn path(&mut self, tokens: &[TokenTree], start: usize) -> usize {
        let mut segments = Vec::new();
        let mut at = start;
        while let Some(word) = ident(tokens, at) {
            segments.push(word);
            at += 1;
            if !is_path_separator(tokens, at) {
                break;
            }
            at += 2;
        }
        // `a.b::<C>()` is a call of a method, and `::a::b` names another crate.
        let is_method = start > 0 && is_punct(tokens, start - 1, '.');
        let is_absolute = start > 1 && is_path_separator(tokens, start - 2);
        if segments.len() > 1 && !is_method && !is_absolute {
            self.contents.references.push(Reference {
                scope: self.scope.clone(),
                line: line(&tokens[start]),
                segments,
                imported_as: None,
                for_tests: self.for_tests,
            });
        }
        at
    }
}

/// The tokens inside the attribute at a position, and the position after it.
fn attribute(tokens: &[TokenTree], at: usize) -> Option<(TokenStream, usize)> {
    if !is_punct(tokens, at, '#') {
        return None;
    }
    let brackets = at + 1 + usize::from(is_punct(tokens, at + 1, '!'));
    match tokens.get(brackets) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            Some((group.stream(), brackets + 1))
        }
        _ => None,
    }
}

/// The name of the module at a position and, for an inline module, its body.
fn module(tokens: &[TokenTree], at: usize) -> Option<(String, Option<TokenStream>)> {
    if ident(tokens, at)? != "mod" {
        return None;
    }
    let body = match tokens.get(at + 2) {
        Some(TokenTree::Group(body)) => Some(body.stream()),
        _ => None,
    };
    Some((ident(tokens, at + 1)?, body))
}
