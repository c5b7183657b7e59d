//! The points of a source file: conditions, comparisons, terms, arms, and statements, and the text
//! that makes each of them depend on the selected mutant.
//!
//! Only what has the same type with and without the mutant is a point, so that one build contains
//! all mutants. The module knows the syntax of a file and no types. It must not change what the
//! file does while no mutant is selected.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::{Context as _, Result};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Arm, BinOp, Block, Expr, ExprBinary, ExprClosure, ExprIf, ExprMatch, ExprMethodCall, ExprWhile, Pat, Stmt};

/// Methods whose argument is a condition of one item: the mutant negates it.
const PREDICATES: [&str; 7] = [
    "any",
    "all",
    "is_some_and",
    "is_none_or",
    "position",
    "take_while",
    "skip_while",
];
/// Methods whose argument chooses items: one mutant chooses all, another one chooses none.
const FILTERS: [&str; 4] = ["filter", "find", "retain", "partition"];
/// Methods that a statement calls for its effect: the mutant does not call it.
const EFFECTS: [&str; 11] = [
    "push",
    "extend",
    "insert",
    "remove",
    "retain",
    "append",
    "clear",
    "truncate",
    "sort",
    "sort_by_key",
    "dedup",
];
/// Methods with a number as argument: the mutant passes one more.
const COUNTS: [&str; 6] = [
    "saturating_sub",
    "saturating_add",
    "checked_sub",
    "checked_add",
    "take",
    "skip",
];

/// A point of a source file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// The function.
    pub function: String,
    /// What the mutant changes.
    pub change: String,
}

/// An instrumented file.
#[derive(Clone, Debug)]
pub struct Instrumented {
    /// The text.
    pub text: String,
    /// The points, in the order of their numbers.
    pub points: Vec<Point>,
}

/// Instruments a file. Its points have numbers from `first` on.
///
/// # Errors
/// When the file is not Rust.
pub fn instrument(source: &str, first: usize) -> Result<Instrumented> {
    let file = syn::parse_file(source).context("parsing a source file")?;
    let mut points = Points {
        source,
        first,
        functions: Vec::new(),
        points: Vec::new(),
        negated: BTreeSet::new(),
        opens: Vec::new(),
        closes: Vec::new(),
        replaced: Vec::new(),
    };
    points.visit_file(&file);
    points.disambiguate();
    Ok(Instrumented {
        text: points.text(),
        points: points.points,
    })
}

struct Points<'s> {
    source: &'s str,
    first: usize,
    functions: Vec<String>,
    points: Vec<Point>,
    /// The expressions that a mutant negates, by their range.
    negated: BTreeSet<(usize, usize)>,
    /// Texts before an expression: the outer one first.
    opens: Vec<(usize, String)>,
    /// Texts after an expression: the inner one first.
    closes: Vec<(usize, String)>,
    replaced: Vec<(Range<usize>, String)>,
}

impl Points<'_> {
    /// The text with all points.
    fn text(&self) -> String {
        let mut edits: Vec<(usize, u8, usize, usize, &str)> = Vec::new();
        for (order, (at, text)) in self.closes.iter().rev().enumerate() {
            edits.push((*at, 0, order, *at, text));
        }
        for (order, (range, text)) in self.replaced.iter().enumerate() {
            edits.push((range.start, 1, order, range.end, text));
        }
        for (order, (at, text)) in self.opens.iter().enumerate() {
            edits.push((*at, 2, order, *at, text));
        }
        edits.sort_unstable();
        let (mut text, mut at) = (String::new(), 0);
        for (start, _, _, end, new) in edits {
            text.push_str(self.source.get(at..start).unwrap_or_default());
            text.push_str(new);
            at = end;
        }
        text.push_str(self.source.get(at..).unwrap_or_default());
        text
    }

    /// The text of a piece of the file, in one line.
    fn shown(&self, range: &Range<usize>) -> String {
        let text = self.source.get(range.clone()).unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(80) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }

    /// Adds a point. Returns its number.
    fn add(&mut self, change: String) -> usize {
        let function = self.functions.last().cloned().unwrap_or_default();
        self.points.push(Point { function, change });
        self.first + self.points.len() - 1
    }

    /// Numbers changes of a function that read alike.
    fn disambiguate(&mut self) {
        let mut seen: BTreeSet<Point> = BTreeSet::new();
        for point in &mut self.points {
            let change = point.change.clone();
            let mut number = 1;
            while !seen.insert(point.clone()) {
                number += 1;
                point.change = format!("{change} ({number})");
            }
        }
    }

    /// Wraps an expression in a call of a function of the points.
    fn wrap(&mut self, call: &str, range: &Range<usize>, change: String) {
        let number = self.add(change);
        self.open(range.start, format!("capstan_core::points::{call}({number}, "));
        self.closes.push((range.end, ")".to_owned()));
    }

    fn open(&mut self, at: usize, text: String) {
        self.opens.push((at, text));
    }

    fn negate(&mut self, expr: &Expr) {
        let range = expr.span().byte_range();
        if self.negated.insert((range.start, range.end)) {
            let change = format!("negated: `{}`", self.shown(&range));
            self.wrap("is", &range, change);
        }
    }

    fn always(&mut self, expr: &Expr) {
        let range = expr.span().byte_range();
        let change = format!("true: `{}`", self.shown(&range));
        self.wrap("always", &range, change);
    }

    fn never(&mut self, expr: &Expr) {
        let range = expr.span().byte_range();
        let change = format!("false: `{}`", self.shown(&range));
        self.wrap("never", &range, change);
    }

    /// A condition: negated as a whole, unless it binds names.
    fn condition(&mut self, cond: &Expr) {
        if !has_let(cond) {
            self.negate(cond);
        }
    }

    /// The terms of `&&` or `||`: each is dropped.
    fn terms(&mut self, binary: &ExprBinary) {
        let is_and = matches!(binary.op, BinOp::And(_));
        for term in [&*binary.left, &*binary.right] {
            let nested = matches!(term, Expr::Binary(inner) if matches!((&inner.op, is_and),
                (BinOp::And(_), true) | (BinOp::Or(_), false)));
            if nested || has_let(term) {
                continue;
            }
            if is_and {
                self.always(term);
            } else {
                self.never(term);
            }
        }
    }

    /// A comparison: its boundary moves, or it is negated.
    fn comparison(&mut self, binary: &ExprBinary, whole: &Expr) {
        let (call, moved) = match binary.op {
            BinOp::Lt(_) => ("lt", "<="),
            BinOp::Le(_) => ("le", "<"),
            BinOp::Gt(_) => ("gt", ">="),
            BinOp::Ge(_) => ("ge", ">"),
            _ => return self.negate(whole),
        };
        let range = whole.span().byte_range();
        let change = format!("`{moved}` in `{}`", self.shown(&range));
        let number = self.add(change);
        self.open(range.start, format!("capstan_core::points::{call}({number}, &("));
        self.replaced.push((binary.op.span().byte_range(), "), &(".to_owned()));
        self.closes.push((range.end, "))".to_owned()));
    }

    /// What a pattern `Some` matches: the mutant finds nothing.
    fn optional(&mut self, pattern: &Pat, value: &Expr) {
        let is_some = matches!(pattern, Pat::TupleStruct(there) if there.path.is_ident("Some"));
        let is_simple = match value {
            Expr::Call(_) | Expr::MethodCall(_) => true,
            Expr::Reference(reference) => {
                reference.mutability.is_none() && matches!(*reference.expr, Expr::Path(_) | Expr::Field(_))
            }
            _ => false,
        };
        if is_some && is_simple {
            let range = value.span().byte_range();
            let change = format!("None: `{}`", self.shown(&range));
            self.wrap("some", &range, change);
        }
    }

    fn closure_of_filter(&mut self, closure: &ExprClosure) {
        self.always(&closure.body);
        self.never(&closure.body);
    }

    fn statement(&mut self, expr: &Expr, end: usize) {
        let has_effect = match expr {
            Expr::MethodCall(call) => EFFECTS.iter().any(|name| call.method == name),
            Expr::Assign(_) => true,
            Expr::Binary(binary) => matches!(
                binary.op,
                BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::BitOrAssign(_) | BinOp::BitAndAssign(_)
            ),
            _ => false,
        };
        if has_effect {
            let range = expr.span().byte_range();
            let change = format!("dropped: `{}`", self.shown(&range));
            let number = self.add(change);
            self.open(range.start, format!("if capstan_core::points::keeps({number}) {{ "));
            self.closes.push((end, " }".to_owned()));
        }
    }
}

/// Whether a condition binds names.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Whether an arm takes everything that the arms before it left.
fn takes_the_rest(arm: &Arm) -> bool {
    match &arm.pat {
        Pat::Wild(_) => true,
        Pat::Ident(name) => {
            let text = name.ident.to_string();
            name.subpat.is_none() && text.starts_with(|first: char| first.is_lowercase() || first == '_')
        }
        _ => false,
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let name = attribute.path();
        let is_cfg_test = name.is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|argument| argument.is_ident("test"));
        is_cfg_test || name.is_ident("test")
    })
}

fn returns_bool(output: &syn::ReturnType) -> bool {
    match output {
        syn::ReturnType::Type(_, returned) => {
            matches!(&**returned, syn::Type::Path(name) if name.path.is_ident("bool"))
        }
        syn::ReturnType::Default => false,
    }
}

impl Points<'_> {
    fn function(&mut self, signature: &syn::Signature, block: &Block) {
        if signature.constness.is_some() {
            return;
        }
        self.functions.push(signature.ident.to_string());
        if returns_bool(&signature.output)
            && let Some(Stmt::Expr(tail, None)) = block.stmts.last()
        {
            self.negate(tail);
        }
        self.visit_block(block);
        self.functions.pop();
    }
}

impl<'ast> Visit<'ast> for Points<'_> {
    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        if !is_for_tests(&node.attrs) {
            visit::visit_item_mod(self, node);
        }
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        if !is_for_tests(&node.attrs) {
            self.function(&node.sig, &node.block);
        }
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.function(&node.sig, &node.block);
    }

    fn visit_item_const(&mut self, _node: &'ast syn::ItemConst) {}

    fn visit_item_static(&mut self, _node: &'ast syn::ItemStatic) {}

    fn visit_impl_item_const(&mut self, _node: &'ast syn::ImplItemConst) {}

    fn visit_expr_if(&mut self, node: &'ast ExprIf) {
        self.condition(&node.cond);
        visit::visit_expr_if(self, node);
    }

    fn visit_expr_while(&mut self, node: &'ast ExprWhile) {
        // A loop whose condition is negated may never end.
        visit::visit_expr_while(self, node);
    }

    fn visit_expr_let(&mut self, node: &'ast syn::ExprLet) {
        self.optional(&node.pat, &node.expr);
        visit::visit_expr_let(self, node);
    }

    fn visit_local(&mut self, node: &'ast syn::Local) {
        if let Some(init) = node.init.as_ref().filter(|init| init.diverge.is_some()) {
            self.optional(&node.pat, &init.expr);
        }
        visit::visit_local(self, node);
    }

    fn visit_expr(&mut self, node: &'ast Expr) {
        if let Expr::Binary(binary) = node {
            match binary.op {
                BinOp::And(_) | BinOp::Or(_) => self.terms(binary),
                BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) | BinOp::Eq(_) | BinOp::Ne(_) => {
                    self.comparison(binary, node);
                }
                _ => {}
            }
        }
        visit::visit_expr(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast ExprMatch) {
        let has_rest = node.arms.last().is_some_and(takes_the_rest);
        let others = node.arms.len().saturating_sub(1);
        for (position, arm) in node.arms.iter().enumerate() {
            if let Pat::Guard(guarded) = &arm.pat {
                if !has_let(&guarded.guard) {
                    self.negate(&guarded.guard);
                }
            } else if has_rest && position < others {
                let range = arm.pat.span().byte_range();
                let change = format!("no arm: `{}`", self.shown(&range));
                let number = self.add(change);
                self.closes
                    .push((range.end, format!(" if capstan_core::points::keeps({number})")));
            }
        }
        visit::visit_expr_match(self, node);
    }

    fn visit_expr_method_call(&mut self, node: &'ast ExprMethodCall) {
        let name = node.method.to_string();
        let argument = node.args.first().filter(|_| node.args.len() == 1);
        match argument {
            Some(Expr::Closure(closure)) if PREDICATES.contains(&name.as_str()) && !has_let(&closure.body) => {
                self.negate(&closure.body);
            }
            Some(Expr::Closure(closure)) if FILTERS.contains(&name.as_str()) && !has_let(&closure.body) => {
                self.closure_of_filter(closure);
            }
            Some(Expr::Lit(literal)) if COUNTS.contains(&name.as_str()) => {
                let range = literal.span().byte_range();
                let change = format!("one more: `{}`", self.shown(&node.span().byte_range()));
                self.wrap("one_more", &range, change);
            }
            Some(other) if name == "or" => {
                let range = other.span().byte_range();
                let change = format!("None: `{}`", self.shown(&range));
                self.wrap("some", &range, change);
            }
            Some(other) if name == "chain" => {
                let range = other.span().byte_range();
                let change = format!("not chained: `{}`", self.shown(&range));
                let number = self.add(change);
                self.open(range.start, "(".to_owned());
                let text = format!(").into_iter().filter(|_| capstan_core::points::keeps({number}))");
                self.closes.push((range.end, text));
            }
            _ => {}
        }
        visit::visit_expr_method_call(self, node);
    }

    fn visit_stmt(&mut self, node: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(semicolon)) = node {
            self.statement(expr, semicolon.span.byte_range().end);
        }
        visit::visit_stmt(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instrumented(body: &str) -> (String, Vec<String>) {
        let source = format!("fn f(a: bool, b: u32) -> u32 {{ {body} }}");
        let there = instrument(&source, 7).unwrap();
        let body = there.text.strip_prefix("fn f(a: bool, b: u32) -> u32 { ").unwrap();
        let changes = there.points.into_iter().map(|point| point.change).collect();
        (
            body.strip_suffix(" }").unwrap().replace("capstan_core::points::", ""),
            changes,
        )
    }

    #[test]
    fn conditions_comparisons_and_terms_depend_on_the_mutant() {
        let (text, changes) = instrumented("if a && b < 2 { 1 } else { 2 }");
        assert_eq!(
            text,
            "if is(7, always(8, a) && always(9, lt(10, &(b ), &( 2)))) { 1 } else { 2 }"
        );
        assert_eq!(
            changes,
            ["negated: `a && b < 2`", "true: `a`", "true: `b < 2`", "`<=` in `b < 2`"]
        );
    }

    #[test]
    fn arms_statements_and_optional_values_depend_on_the_mutant() {
        let (text, _) = instrumented("match b { 1 => 2, _ => 3 }");
        assert_eq!(text, "match b { 1 if keeps(7) => 2, _ => 3 }");
        let (text, _) = instrumented("list.push(1); list.len()");
        assert_eq!(text, "if keeps(7) { list.push(1); } list.len()");
        let (text, _) = instrumented("let Some(c) = find(b) else { return 0 }; c");
        assert_eq!(text, "let Some(c) = some(7, find(b)) else { return 0 }; c");
        let (text, _) = instrumented("list.iter().filter(|item| item.is_new()).count()");
        assert_eq!(
            text,
            "list.iter().filter(|item| always(7, never(8, item.is_new()))).count()"
        );
    }

    #[test]
    fn changes_that_read_alike_have_numbers() {
        let (_, changes) = instrumented("if a { 1 } else if a { 2 } else { 3 }");
        assert_eq!(changes, ["negated: `a`", "negated: `a` (2)"]);
    }

    #[test]
    fn tests_and_constants_have_no_points() {
        let source =
            "const A: bool = 1 < 2; #[cfg(test)] mod tests { fn f() -> bool { true } } const fn g() -> bool { true }";
        let there = instrument(source, 0).unwrap();
        assert_eq!((there.text.as_str(), there.points.len()), (source, 0));
    }
}
