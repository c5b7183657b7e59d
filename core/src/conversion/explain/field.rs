//! The field that a question is about.

/// The field of a path as the issues of a conversion print it, or as a user writes it.
///
/// Indexes of lists and the kind of an infrastructure object are left out: `AWSMachine
/// spec.ignition.tls` asks for `ignition.tls`.
pub(super) struct Field {
    /// The path in the object, without indexes.
    pub(super) whole: String,
    /// The path below the spec or the provider spec.
    pub(super) short: String,
}

impl Field {
    /// Reads a path.
    pub(super) fn new(text: &str) -> Self {
        let path = text.rsplit_once(' ').map_or(text, |(_, path)| path);
        let whole = without_indexes(path).replace("spec.template.metadata.", "metadata.");
        let short = ["spec.template.spec.", "spec."]
            .iter()
            .find_map(|prefix| whole.strip_prefix(prefix));
        let short = short.unwrap_or(&whole);
        let short = short.strip_prefix("providerSpec.value.").unwrap_or(short).to_owned();
        Self { whole, short }
    }

    /// Whether the field is about an object, not about a machine: all platforms have it in common.
    pub(super) fn is_common(&self) -> bool {
        ["metadata", "status", "apiVersion", "kind"].iter().any(|field| {
            let rest = self.whole.strip_prefix(field);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }
}

/// The path with `[]` in place of each index. A key of a map, such as a label, stays.
fn without_indexes(path: &str) -> String {
    let mut parts = path.split('[');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push('[');
        match part.split_once(']') {
            Some((index, rest)) if index.bytes().all(|digit| digit.is_ascii_digit()) => {
                text.push(']');
                text.push_str(rest);
            }
            _ => text.push_str(part),
        }
    }
    text
}
