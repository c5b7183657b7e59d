//! Finds circles among references between files, and describes them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::imports::Edge;

/// A circle: each edge ends where the next one begins, and the last ends where the first begins.
pub(crate) type Circle<'e> = Vec<&'e Edge>;

/// For each edge that is part of a circle, a shortest circle through it. A circle is listed once.
pub(crate) fn circles(edges: &[Edge]) -> Vec<Circle<'_>> {
    let mut from: BTreeMap<&str, Vec<&Edge>> = BTreeMap::new();
    for edge in edges {
        from.entry(&edge.from).or_default().push(edge);
    }
    let mut listed = BTreeSet::new();
    let mut circles = Vec::new();
    for edge in edges {
        let Some(way_back) = shortest(&from, &edge.to, &edge.from) else {
            continue;
        };
        let circle: Circle<'_> = [vec![edge], way_back].concat();
        let members: BTreeSet<(&str, &str)> = circle.iter().map(|edge| (&*edge.from, &*edge.to)).collect();
        if listed.insert(members) {
            circles.push(circle);
        }
    }
    circles.sort_by_key(Vec::len);
    circles
}

/// A shortest path from one file to another; none if there is no path.
fn shortest<'e>(from: &BTreeMap<&str, Vec<&'e Edge>>, start: &str, end: &str) -> Option<Vec<&'e Edge>> {
    let mut reached_by: BTreeMap<&str, &Edge> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        if file == end {
            return Some(path_to(&reached_by, start, end));
        }
        for edge in from.get(file).into_iter().flatten() {
            if edge.to != start && !reached_by.contains_key(&*edge.to) {
                reached_by.insert(&edge.to, edge);
                queue.push_back(&edge.to);
            }
        }
    }
    None
}

fn path_to<'e>(reached_by: &BTreeMap<&str, &'e Edge>, start: &str, end: &str) -> Vec<&'e Edge> {
    let mut path = Vec::new();
    let mut file = end;
    while file != start {
        let edge = reached_by[file];
        path.push(edge);
        file = &edge.from;
    }
    path.reverse();
    path
}

/// A circle as text: one line for each edge, and the file with which it closes.
pub(crate) fn describe(circle: &[&Edge]) -> String {
    let mut text = String::new();
    for edge in circle {
        text.push_str(&format!("    {}:{} names {}\n", edge.from, edge.line, edge.written));
    }
    if let Some(first) = circle.first() {
        text.push_str(&format!("    {}\n", first.from));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{circles, describe};
    use crate::imports::Edge;

    fn edge(from: &str, to: &str) -> Edge {
        Edge {
            from: from.to_owned(),
            to: to.to_owned(),
            line: 7,
            written: format!("crate::{to}"),
        }
    }

    #[test]
    fn references_in_one_direction_are_no_circle() {
        assert!(circles(&[edge("a", "b"), edge("b", "c"), edge("a", "c")]).is_empty());
    }

    #[test]
    fn every_edge_of_a_component_is_in_a_listed_circle() {
        let edges = [
            edge("a", "b"),
            edge("b", "c"),
            edge("c", "a"),
            edge("b", "a"),
            edge("c", "elsewhere"),
        ];
        let circles = circles(&edges);
        let texts: Vec<String> = circles.iter().map(|circle| describe(circle)).collect();
        assert_eq!(
            texts,
            [
                "    a:7 names crate::b\n    b:7 names crate::a\n    a\n",
                "    b:7 names crate::c\n    c:7 names crate::a\n    a:7 names crate::b\n    b\n",
            ]
        );
    }
}
