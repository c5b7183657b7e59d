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

/// Evaluates a template. A name of more than 63 bytes is cut to 58, and `random` is appended.
///
/// # Errors
/// Says what the template must look like.
pub(super) fn evaluate(template: &str, names: &Names<'_>) -> Result<String, String> {
    let (mut name, mut rest, mut trim) = (String::new(), template, false);
    while let Some((text, action)) = rest.split_once("{{") {
        let (action, after) = action.split_once("}}").ok_or("must close each {{ with }}")?;
        let trims_before = action.starts_with("- ");
        let text = if trim { text.trim_start() } else { text };
        name.push_str(if trims_before { text.trim_end() } else { text });
        trim = action.ends_with(" -");
        let action = action.strip_prefix("- ").unwrap_or(action);
        name.push_str(&value(action.strip_suffix(" -").unwrap_or(action), names)?);
        rest = after;
    }
    name.push_str(if trim { rest.trim_start() } else { rest });
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

/// The value of the text between the braces.
fn value(action: &str, names: &Names<'_>) -> Result<String, String> {
    if action.starts_with("/*") && action.ends_with("*/") {
        return Ok(String::new());
    }
    let value = match action.trim() {
        ".cluster.name" => names.cluster,
        ".kubeadmControlPlane.name" => names.control_plane,
        ".random" => names.random,
        other => {
            return Err(format!(
                "must refer only to .cluster.name, .kubeadmControlPlane.name and .random, not to {other:?}"
            ));
        }
    };
    Ok(value.to_owned())
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
