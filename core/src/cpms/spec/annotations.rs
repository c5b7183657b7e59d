//! The annotations by which a user controls a rollout.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::json;

use super::context::Violations;
use crate::cpms::changes::ROLL_ON_IMAGE_CHANGE;
use crate::model::{FieldPath, Violation, ViolationKind, pauses_rollout};

/// How many machines a rollout brings up to date before it waits: a canary.
pub const ROLLOUT_LIMIT: &str = "capstan.dev/rollout-limit";
/// How long one machine of a rollout may take before a condition reports it: `30m`, `1h30m`, `90s`.
pub const PROGRESS_DEADLINE: &str = "capstan.dev/progress-deadline";
/// Acknowledges the risk of strategy `Recreate`; the value is [`RECREATE_RISK`] (decision 6).
pub const RECREATE_ACKNOWLEDGED: &str = "capstan.dev/recreate-acknowledged";
/// The risk that the acknowledgement must name.
pub const RECREATE_RISK: &str = "etcd-quorum-at-risk";

/// How the annotations of a set control its rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Whether the rollout is paused.
    pub paused: bool,
    /// How many machines may be brought up to date; `None` for all.
    pub limit: Option<usize>,
    /// How long one machine may take; `None` for any time.
    pub deadline: Option<SignedDuration>,
    /// Whether a change of an image field starts a rollout.
    pub images: bool,
}

/// Reads the annotations of a set.
pub(super) fn rollout(annotations: &BTreeMap<String, String>, found: &mut Violations) -> Rollout {
    let mut bad = |key: &str, value: &str, allowed: &str| {
        let path = FieldPath::from("metadata.annotations").key(key);
        found.add(Violation::new("cpms-rollout-annotations", path, ViolationKind::Invalid, allowed).got(&json!(value)));
    };
    let limit = annotations.get(ROLLOUT_LIMIT).and_then(|text| {
        let limit = text.parse().ok();
        if limit.is_none() {
            bad(ROLLOUT_LIMIT, text, "must be a number of machines such as 1");
        }
        limit
    });
    let deadline = annotations.get(PROGRESS_DEADLINE).and_then(|text| {
        let deadline = duration(text);
        if deadline.is_none() {
            bad(
                PROGRESS_DEADLINE,
                text,
                "must be a duration from 1s to 8784h, such as 45m or 1h30m",
            );
        }
        deadline
    });
    let images = annotations.get(ROLL_ON_IMAGE_CHANGE).is_some_and(|text| {
        if !matches!(text.as_str(), "true" | "false") {
            bad(ROLL_ON_IMAGE_CHANGE, text, "must be \"true\" or \"false\"");
        }
        text == "true"
    });
    Rollout {
        paused: pauses_rollout(annotations),
        limit,
        deadline,
        images,
    }
}

/// Reads `1h30m`, `45m`, `90s`, or a number of seconds; from a second to 366 days.
fn duration(text: &str) -> Option<SignedDuration> {
    let mut seconds: i64 = 0;
    let mut number = String::new();
    for c in text.chars() {
        let unit = match c {
            '0'..='9' => {
                number.push(c);
                continue;
            }
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<i64>().ok()?.checked_mul(unit)?)?;
        number.clear();
    }
    if !number.is_empty() {
        // A number alone is seconds, but not after a unit: `1h30` is ambiguous.
        seconds = Some(&number).filter(|number| *number == text)?.parse().ok()?;
    }
    (1..=366 * 24 * 3600)
        .contains(&seconds)
        .then(|| SignedDuration::from_secs(seconds))
}
