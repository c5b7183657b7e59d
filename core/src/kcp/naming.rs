//! Names of machines from a template.
//!
//! The template is a Go template. Capstan evaluates text, comments, and references to fields; it
//! refuses functions, pipelines and control structures, which Cluster API accepts.

use crate::model::is_subdomain;

/// What a template must contain.
pub(super) const RANDOM: &str = "{{ .random }}";
const LONGEST: usize = 63;
const RANDOM_LENGTH: usize = 5;

/// The values that a template may use.
pub(super) struct Names<'a> {
    /// `.cluster.name`.
    pub(super) cluster: &'a str,
    /// `.kubeadmControlPlane.name`.
    pub(super) control_plane: &'a str,
    /// `.random`: five characters.
    pub(super) random: &'a str,
}

/// The characters that Go's templates treat as blank.
const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];

/// Evaluates a template. A name of more than 63 bytes is cut to 58, and `random` is appended.
///
/// # Errors
/// Says what the template must look like.
pub(super) fn evaluate(template: &str, names: &Names<'_>) -> Result<String, String> {
    let (mut name, mut rest, mut trim) = (String::new(), template, false);
    while let Some((text, after)) = rest.split_once("{{") {
        let (trims_before, inside) = match after.strip_prefix('-') {
            Some(inside) if inside.starts_with(BLANK) => (true, inside),
            _ => (false, after),
        };
        let text = if trim { text.trim_start_matches(BLANK) } else { text };
        let text = if trims_before {
            text.trim_end_matches(BLANK)
        } else {
            text
        };
        name.push_str(text);
        // After a trim marker, a comment begins after exactly one blank.
        let comment = if trims_before { inside.get(1..) } else { Some(inside) };
        let value;
        (value, trim, rest) = match comment.and_then(|comment| comment.strip_prefix("/*")) {
            Some(comment) => end_of_comment(comment)?,
            None => reference(inside, names)?,
        };
        name.push_str(value);
    }
    name.push_str(if trim { rest.trim_start_matches(BLANK) } else { rest });
    if name.len() > LONGEST {
        let mut end = LONGEST - RANDOM_LENGTH;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        name.push_str(names.random);
    }
    Ok(name)
}

/// A value, whether the blanks after its action are removed, and the text after the action.
type Evaluated<'t> = (&'t str, bool, &'t str);

/// The closing braces at the beginning of a text, perhaps with a trim marker before them: whether
/// there is a marker, and the text after the braces.
fn closing(text: &str) -> Option<(bool, &str)> {
    let trimming = text.strip_prefix(BLANK).and_then(|text| text.strip_prefix("-}}"));
    let closed = trimming.map(|after| (true, after));
    closed.or_else(|| text.strip_prefix("}}").map(|after| (false, after)))
}

/// A comment, which ends with its first `*/` and has no value. The braces must follow at once.
fn end_of_comment(comment: &str) -> Result<Evaluated<'_>, String> {
    let (_, after) = comment.split_once("*/").ok_or("must close each /* with */")?;
    let (trims_after, rest) = closing(after).ok_or("must have }} directly after each */")?;
    Ok(("", trims_after, rest))
}

/// The value of a reference to a field, which is everything before the closing braces.
fn reference<'t>(inside: &'t str, names: &Names<'t>) -> Result<Evaluated<'t>, String> {
    let ends = inside.char_indices().map(|(at, _)| at);
    let mut actions = ends.filter_map(|at| Some((inside.get(..at)?, closing(inside.get(at..)?)?)));
    let (action, (trims_after, rest)) = actions.next().ok_or("must close each {{ with }}")?;
    let value = match action.trim_matches(BLANK) {
        ".cluster.name" => names.cluster,
        ".kubeadmControlPlane.name" => names.control_plane,
        ".random" => names.random,
        other => {
            return Err(format!(
                "must refer only to .cluster.name, .kubeadmControlPlane.name and .random, not to {other:?}"
            ));
        }
    };
    Ok((value, trims_after, rest))
}

/// What is wrong with a template; `None` for a valid template.
pub(super) fn problem(template: &str) -> Option<String> {
    if !template.contains(RANDOM) {
        return Some(format!("must contain {RANDOM}, with one blank on each side"));
    }
    let names = Names {
        cluster: "cluster",
        control_plane: "kubeadmcontrolplane",
        random: "x7k2p",
    };
    match evaluate(template, &names) {
        Err(problem) => Some(problem),
        Ok(name) if !is_subdomain(&name) => Some(format!(
            "must result in a name of lower-case letters, digits, '-' and '.', not in {name:?}"
        )),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_refers_to_three_names() {
        let names = Names {
            cluster: "c",
            control_plane: "k",
            random: "abcde",
        };
        for (template, name) in [
            ("{{ .cluster.name }}-{{ .random }}", "c-abcde"),
            ("{{.kubeadmControlPlane.name}}-{{ .random }}", "k-abcde"),
            ("a {{- .random -}} b{{/* comment */}}", "aabcdeb"),
        ] {
            assert_eq!(evaluate(template, &names).unwrap(), name, "{template}");
        }
    }

    #[test]
    fn v43_blanks_and_comments_are_those_of_go() {
        for template in [
            "{{/* }} */}}{{ .random }}",
            "{{/*{{ .random }}*/}}a{{ .random }}",
            "{{- /* a */ -}}{{ .random }}",
            "{{\t.cluster.name\n}}{{ .random }}",
        ] {
            assert_eq!(problem(template), None, "{template:?}");
        }
        for template in [
            "{{\u{a0}.cluster.name }}{{ .random }}",
            "{{ .cluster.name\u{2003}}}{{ .random }}",
            "{{ /* a */}}{{ .random }}",
            "{{/* a */ }}{{ .random }}",
            "{{/* a }}{{ .random }}",
            "{{-  /* a */}}{{ .random }}",
        ] {
            assert!(problem(template).is_some(), "{template:?}");
        }
    }

    #[test]
    fn a_long_name_is_cut_and_ends_with_the_random_part() {
        let long = "a".repeat(80);
        let names = Names {
            cluster: &long,
            control_plane: "k",
            random: "abcde",
        };
        let name = evaluate("{{ .cluster.name }}-{{ .random }}", &names).unwrap();
        assert_eq!(name, format!("{}abcde", "a".repeat(58)));
    }

    #[test]
    fn a_template_without_the_random_part_or_with_an_unknown_name_is_refused() {
        assert_eq!(problem("{{ .cluster.name }}-{{ .random }}"), None);
        for template in [
            "{{ .cluster.name }}",
            "{{.random}}",
            "{{ .random }}{{ .cluster.namespace }}",
            "{{ .random }}{{ .machineSet.name }}",
            "{{ .random }}{{ .cluster }}",
            "{{ .random }}{{",
            "A-{{ .random }}",
            "{{ .random }}-",
            "{{ .random }}_x",
        ] {
            assert!(problem(template).is_some(), "{template}");
        }
    }
}
