//! Finds the files of its own crate that a file names.
//!
//! A path that begins with `crate`, `self`, `super`, the crate's own name, a child module, or an
//! imported module refers to a file of the crate: the file of the deepest module that the path
//! names *as written*. A re-exported name refers to the module that re-exports it.

use std::collections::{BTreeMap, BTreeSet};

use crate::references::{Contents, Reference, contents};
use crate::source::Source;

/// A module as its path from the crate root.
type Module = Vec<String>;

/// The files of one crate, and their references.
pub(crate) struct Crate<'a> {
    /// The name of the crate, such as `capstan_core`.
    name: &'a str,
    files: Vec<(&'a Source, Contents)>,
    /// The file of each module that has one.
    by_module: BTreeMap<&'a [String], &'a str>,
}

/// A reference of one file to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    /// The file with the reference.
    pub(crate) from: String,
    /// The file that it refers to.
    pub(crate) to: String,
    /// The line in `from`.
    pub(crate) line: usize,
    /// The path as written.
    pub(crate) written: String,
}

/// A reference to a path.
pub(crate) struct Named<'a> {
    /// The file with the reference.
    pub(crate) source: &'a Source,
    /// The reference.
    pub(crate) reference: &'a Reference,
    /// The segments from the root of this crate; none if the path is not in this crate.
    pub(crate) within: Option<Module>,
}

impl<'a> Crate<'a> {
    /// Reads the sources of a crate.
    pub(crate) fn new(name: &'a str, sources: &'a [Source]) -> Self {
        Self {
            name,
            files: sources.iter().map(|source| (source, contents(source))).collect(),
            by_module: sources
                .iter()
                .map(|source| (source.module.as_slice(), source.path.as_str()))
                .collect(),
        }
    }

    /// All references of the files, including code for tests.
    pub(crate) fn named(&self) -> Vec<Named<'_>> {
        let mut named = Vec::new();
        for (source, contents) in &self.files {
            let imports = Imports::of(self, &contents.references);
            named.extend(contents.references.iter().map(|reference| Named {
                source,
                reference,
                within: imports.resolve(reference),
            }));
        }
        named
    }

    /// The references between files outside code for tests, one for each pair of files. A reference
    /// to an ancestor or a descendant of the own module is not an edge.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        let for_tests = self.test_modules();
        let mut edges = BTreeMap::new();
        for Named {
            source,
            reference,
            within,
        } in self.named()
        {
            let is_test = (0..=source.module.len()).any(|depth| for_tests.contains(&source.module[..depth]));
            let target = within.and_then(|path| self.file_of(&path));
            let Some((module, file)) = target.filter(|_| !is_test && !reference.for_tests) else {
                continue;
            };
            if is_related(&source.module, module) {
                continue;
            }
            edges.entry((source.path.clone(), file)).or_insert_with(|| Edge {
                from: source.path.clone(),
                to: file.to_owned(),
                line: reference.line,
                written: reference.segments.join("::"),
            });
        }
        edges.into_values().collect()
    }

    /// The modules that are compiled for tests only.
    fn test_modules(&self) -> BTreeSet<&[String]> {
        self.files
            .iter()
            .flat_map(|(_, contents)| contents.test_modules.iter().map(Vec::as_slice))
            .collect()
    }

    /// The deepest module that a path names, and its file.
    fn file_of(&self, path: &[String]) -> Option<(&'a [String], &'a str)> {
        (0..=path.len())
            .rev()
            .find_map(|depth| self.by_module.get_key_value(&path[..depth]))
            .map(|(module, file)| (*module, *file))
    }
}

/// Whether one module is the other, or an ancestor of it.
fn is_related(a: &[String], b: &[String]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

fn parent(module: &[String]) -> Option<Module> {
    module.split_last().map(|(_, parent)| parent.to_vec())
}

/// The imported modules of each file.
struct Imports<'c> {
    of: &'c Crate<'c>,
    /// By the importing module and the name.
    modules: BTreeMap<(Module, String), Module>,
    /// The importing module, and the module that it imports everything from.
    globs: Vec<(Module, Module)>,
}

impl<'c> Imports<'c> {
    fn of(of: &'c Crate<'_>, references: &[Reference]) -> Self {
        let mut imports = Self {
            of,
            modules: BTreeMap::new(),
            globs: Vec::new(),
        };
        for reference in references {
            let Some(name) = &reference.imported_as else { continue };
            let target = imports.resolve(reference);
            let Some(target) = target.filter(|target| of.by_module.contains_key(target.as_slice())) else {
                continue;
            };
            let scope = reference.scope.clone();
            if name == "*" {
                imports.globs.push((scope, target));
            } else {
                imports.modules.insert((scope, name.clone()), target);
            }
        }
        imports
    }

    /// The path from the crate root of a reference; none if it is not in this crate.
    fn resolve(&self, reference: &Reference) -> Option<Module> {
        let (first, rest) = reference.segments.split_first()?;
        let mut path = match first.as_str() {
            "crate" => Vec::new(),
            "self" => reference.scope.clone(),
            "super" => parent(&reference.scope)?,
            name if name == self.of.name => Vec::new(),
            name => self.module_named(&reference.scope, name)?,
        };
        for segment in rest {
            match segment.as_str() {
                "super" => path = parent(&path)?,
                "self" => {}
                name => path.push(name.to_owned()),
            }
        }
        Some(path)
    }

    /// The module of a plain name: an imported module, or a child.
    fn module_named(&self, scope: &[String], name: &str) -> Option<Module> {
        if let Some(target) = self.modules.get(&(scope.to_vec(), name.to_owned())) {
            return Some(target.clone());
        }
        let globs = self.globs.iter().filter(|(at, _)| at == scope);
        globs
            .map(|(_, target)| target.as_slice())
            .chain([scope])
            .map(|module| [module, &[name.to_owned()]].concat())
            .find(|child| self.of.by_module.contains_key(child.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Crate, Edge};
    use crate::source::Source;

    fn source(path: &str, module: &[&str], text: &str) -> Source {
        Source {
            path: path.to_owned(),
            module: module.iter().map(|part| (*part).to_owned()).collect(),
            text: text.to_owned(),
        }
    }

    /// A crate with the modules `a`, `a::b`, `c`, `c::d` and `e`, in which `a::b` has this text.
    fn found(text: &str) -> Vec<String> {
        let sources = [
            source("lib.rs", &[], "pub mod a; pub mod c; pub mod e;"),
            source("a.rs", &["a"], "pub mod b;"),
            source("a/b.rs", &["a", "b"], text),
            source("c.rs", &["c"], "pub mod d; pub use d::Thing;"),
            source("c/d.rs", &["c", "d"], "pub struct Thing;"),
            source("e.rs", &["e"], ""),
        ];
        Crate::new("own", &sources)
            .edges()
            .into_iter()
            .map(
                |Edge {
                     from,
                     to,
                     line,
                     written,
                 }| format!("{from}:{line} {to} {written}"),
            )
            .collect()
    }

    #[test]
    fn every_form_of_a_path_refers_to_the_file_of_its_module() {
        for (text, expected) in [
            ("use crate::c;", "a/b.rs:1 c.rs crate::c"),
            ("use crate::{a, c::{d::Thing}};", "a/b.rs:1 c/d.rs crate::c::d::Thing"),
            ("use own::c::d;", "a/b.rs:1 c/d.rs own::c::d"),
            (
                "\nfn f() { super::super::c::d::g() }",
                "a/b.rs:2 c/d.rs super::super::c::d::g",
            ),
            (
                "mod inner { use super::super::super::e::X; }",
                "a/b.rs:1 e.rs super::super::super::e::X",
            ),
            ("fn f() { format!(\"{}\", crate::e::X) }", "a/b.rs:1 e.rs crate::e::X"),
            ("macro_rules! m { () => { $crate::e::X } }", "a/b.rs:1 e.rs crate::e::X"),
            ("pub(crate) use crate::e as f;", "a/b.rs:1 e.rs crate::e"),
        ] {
            assert_eq!(found(text), [expected], "{text}");
        }
    }

    #[test]
    fn a_re_exported_name_refers_to_the_file_that_re_exports_it() {
        assert_eq!(found("use crate::c::Thing;"), ["a/b.rs:1 c.rs crate::c::Thing"]);
    }

    #[test]
    fn a_path_through_an_imported_module_refers_to_the_file_that_it_names() {
        assert_eq!(
            found("use crate::c;\nfn f() { c::d::g() }"),
            ["a/b.rs:1 c.rs crate::c", "a/b.rs:2 c/d.rs c::d::g"]
        );
        assert_eq!(
            found("use crate::c::{self as k};\nfn f() { k::d::g() }"),
            ["a/b.rs:1 c.rs crate::c::self", "a/b.rs:2 c/d.rs k::d::g"]
        );
        assert_eq!(
            found("use crate::c::*;\nfn f() { d::g() }"),
            ["a/b.rs:1 c.rs crate::c", "a/b.rs:2 c/d.rs d::g"]
        );
    }

    #[test]
    fn ancestors_text_tests_and_other_crates_give_no_edge() {
        for text in [
            "use super::X; use crate::a::Y; use crate::Z;",
            "//! crate::c\n/// [`crate::c`]\nconst A: &str = \"crate::c::d\"; const B: &str = r#\"crate::e\"#;",
            "#[cfg(test)] mod tests { use crate::c; }",
            "#[cfg(test)] use crate::c::{Thing};",
            "#[test] fn f() { crate::e::x() }",
            "use ::c::X; use c::Y; use other::c;",
            "fn f() { x.c::<T>() }",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn code_after_an_item_for_tests_is_read() {
        assert_eq!(
            found("#[cfg(test)] use crate::c::{Thing};\nuse crate::e;"),
            ["a/b.rs:2 e.rs crate::e"]
        );
    }

    #[test]
    fn a_file_that_is_compiled_for_tests_only_gives_no_edge() {
        let sources = [
            source("lib.rs", &[], "mod a; mod b;"),
            source("a.rs", &["a"], "#[cfg(test)]\nmod tests;"),
            source("a/tests.rs", &["a", "tests"], "use crate::b;"),
            source("b.rs", &["b"], ""),
        ];
        assert_eq!(Crate::new("own", &sources).edges(), []);
    }
}
