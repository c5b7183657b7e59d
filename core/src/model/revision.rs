//! Names that are computed from content: hashes of canonical JSON, and suffixes of machine names.
//!
//! After a lost reply, the controller computes the same name again, so that a repeated creation
//! cannot create a second object.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The alphabet of the random names of Kubernetes: no vowels, so that no words appear, and no
/// characters that look alike.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// JSON with sorted keys and without spaces: equal values have equal texts.
pub fn canonical_json(value: &Value) -> String {
    let mut text = Vec::with_capacity(128);
    write_canonical(value, &mut text);
    // The serializer writes UTF-8.
    String::from_utf8(text).unwrap_or_default()
}

fn write_canonical(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            text.push(b'{');
            if map.keys().is_sorted() {
                write_entries(map.iter(), text);
            } else {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by(|left, right| left.0.cmp(right.0));
                write_entries(entries.into_iter(), text);
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            text.push(b'[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    text.push(b',');
                }
                write_canonical(item, text);
            }
            text.push(b']');
        }
        scalar => write_scalar(scalar, text),
    }
}

fn write_entries<'v>(entries: impl Iterator<Item = (&'v String, &'v Value)>, text: &mut Vec<u8>) {
    for (position, (key, item)) in entries.enumerate() {
        if position > 0 {
            text.push(b',');
        }
        write_scalar(key, text);
        text.push(b':');
        write_canonical(item, text);
    }
}

fn write_scalar(scalar: &impl serde::Serialize, text: &mut Vec<u8>) {
    // Scalars always serialise, and a write into a vector does not fail.
    let _ = serde_json::to_writer(text, scalar);
}

/// The first `digits` hexadecimal digits (at most 64) of the SHA-256 of the value's canonical JSON.
pub fn hex_hash(value: &Value, digits: usize) -> String {
    let digest = Sha256::digest(canonical_json(value).as_bytes());
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    let text = digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    text.take(digits).collect()
}

/// Five characters that are computed from `parts`. The same parts always give the same characters.
///
/// The length of each part is hashed too: `["ab", "c"]` and `["a", "bc"]` give different
/// characters.
pub fn derived_suffix(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let mut number = digest
        .iter()
        .take(8)
        .fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    let letters = SUFFIX_ALPHABET.len() as u64;
    let mut suffix = String::with_capacity(5);
    for _ in 0..5 {
        let letter = usize::try_from(number % letters)
            .ok()
            .and_then(|at| SUFFIX_ALPHABET.get(at));
        suffix.push(char::from(letter.copied().unwrap_or(b'x')));
        number /= letters;
    }
    suffix
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_json_does_not_depend_on_the_order_of_keys() {
        let left: Value = serde_json::from_str(r#"{"b":[1,{"d":2,"c":3}],"a":"x"}"#).unwrap();
        assert_eq!(canonical_json(&left), r#"{"a":"x","b":[1,{"c":3,"d":2}]}"#);
        assert_eq!(
            hex_hash(&left, 8),
            hex_hash(&json!({"a": "x", "b": [1, {"c": 3, "d": 2}]}), 8)
        );
    }

    #[test]
    fn a_suffix_is_the_same_for_the_same_parts_and_another_for_others() {
        assert_eq!(derived_suffix(&["uid", "0", ""]), derived_suffix(&["uid", "0", ""]));
        assert_ne!(derived_suffix(&["ab", "c"]), derived_suffix(&["a", "bc"]));
        assert_eq!(derived_suffix(&["uid", "0"]).len(), 5);
    }
}
