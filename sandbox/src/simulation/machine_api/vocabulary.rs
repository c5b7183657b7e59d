//! Words of the Machine API in serialized schedules.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A word of a schedule. Serde would borrow a field whose type is a reference.
pub(crate) type Word = &'static str;

/// The words that schedules contain as constants: strategies, and states of a set.
const WORDS: [&str; 5] = ["RollingUpdate", "OnDelete", "Recreate", "Active", "Inactive"];

/// Reads one of the known words.
pub(super) fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
    let word = String::deserialize(deserializer)?;
    let known = WORDS.iter().find(|known| **known == word);
    known
        .copied()
        .ok_or_else(|| D::Error::custom(format!("{word} must be one of {}", WORDS.join(", "))))
}

/// Reads one of the known words, or null.
pub(super) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Word>, D::Error> {
    #[derive(Deserialize)]
    struct Known(#[serde(deserialize_with = "known")] Word);
    Ok(Option::<Known>::deserialize(deserializer)?.map(|known| known.0))
}

/// The propagation policy of a deletion, as `DeleteOptions` contain it.
pub(super) mod propagation {
    use capstan_core::model::Propagation;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(policy: &Propagation, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match policy {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        })
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Propagation, D::Error> {
        let word = String::deserialize(deserializer)?;
        Propagation::parse(&word).ok_or_else(|| D::Error::custom(format!("{word} must be a propagation policy")))
    }
}
