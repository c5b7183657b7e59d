//! Measures functions: how many lines each takes, from `fn` to its closing brace.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::source::{Source, ident, is_punct, is_test_attribute, line};

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// The line of `fn`.
    pub(crate) line: usize,
    /// Lines from `fn` to the closing brace, both counted.
    pub(crate) lines: usize,
}

/// The functions of a file that are not compiled for tests only. A function within another one is
/// listed too.
pub(crate) fn functions(source: &Source) -> Vec<Function> {
    let mut functions = Vec::new();
    walk(source.tokens(), &mut functions);
    functions
}

fn walk(stream: TokenStream, functions: &mut Vec<Function>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut for_tests = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket && is_attribute(&tokens, at) => {
                for_tests |= is_test_attribute(&group.stream());
            }
            TokenTree::Group(group) => {
                if !for_tests {
                    walk(group.stream(), functions);
                }
                // The braces of an item end it; its parentheses do not.
                for_tests &= group.delimiter() != Delimiter::Brace;
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => for_tests = false,
            TokenTree::Ident(word) if word == "fn" && !for_tests => functions.extend(function(&tokens, at)),
            _ => {}
        }
    }
}

fn is_attribute(tokens: &[TokenTree], brackets: usize) -> bool {
    brackets > 0
        && (is_punct(tokens, brackets - 1, '#')
            || (brackets > 1 && is_punct(tokens, brackets - 1, '!') && is_punct(tokens, brackets - 2, '#')))
}

/// The function whose `fn` is at a position; none for a type such as `fn() -> bool`, and for a
/// function without a body.
fn function(tokens: &[TokenTree], at: usize) -> Option<Function> {
    let name = ident(tokens, at + 1)?;
    let body = tokens[at..].iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(Some(group)),
        TokenTree::Punct(punct) if punct.as_char() == ';' => Some(None),
        _ => None,
    })??;
    let first = line(&tokens[at]);
    Some(Function {
        name,
        line: first,
        lines: body.span_close().end().line - first + 1,
    })
}

#[test]
fn a_function_is_measured_from_its_keyword_to_its_closing_brace() {
    let text = "
        pub fn a(
            x: fn(u8) -> bool,
        ) {
            fn inner() {}
        }
        trait T { fn without_body(&self); fn default(&self) {
        } }
        #[cfg(test)]
        mod tests { fn long() {} }
        #[test]
        fn test() {}
        fn last() {}
    ";
    let source = Source {
        path: "a.rs".to_owned(),
        module: Vec::new(),
        text: text.to_owned(),
    };
    let found: Vec<(String, usize)> = functions(&source)
        .into_iter()
        .map(|one| (one.name, one.lines))
        .collect();
    let expected = [("a", 5), ("inner", 1), ("default", 2), ("last", 1)];
    assert_eq!(found, expected.map(|(name, lines)| (name.to_owned(), lines)));
}
