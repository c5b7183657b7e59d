//! Objects whose `caBundle` another program may write too, because they ask for it with an
//! annotation. Two programs that write one bundle in turns never stop.
//!
//! Such a bundle is written at most once in [`PAUSE`] seconds. The log names the object and the
//! remedy as often.

use std::collections::BTreeMap;

/// How long such a bundle is left alone after a write, and how long a warning is not repeated, in
/// seconds.
const PAUSE: i64 = 600;

/// The annotations with which an object asks another program to write its `caBundle`: those of
/// cert-manager and of the service CA of OpenShift.
const INJECTORS: [&str; 5] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
    "service.alpha.openshift.io/inject-cabundle",
];

/// The annotation with which an object asks another program to write its `caBundle`.
pub fn injector(annotations: &BTreeMap<String, String>) -> Option<&'static str> {
    let asks = |name: &&str| annotations.get(*name).is_some_and(|value| value != "false");
    INJECTORS.into_iter().find(asks)
}

/// When contested bundles were written and reported, by the title of their object, in seconds since
/// 1970.
#[derive(Debug, Default)]
pub(super) struct Contested {
    written: BTreeMap<String, i64>,
    reported: BTreeMap<String, i64>,
}

impl Contested {
    /// Whether the bundle of an object is left alone at `now`. Warns of an object that has the
    /// annotation of another program.
    pub(super) fn is_left_alone(&mut self, title: &str, annotations: &BTreeMap<String, String>, now: i64) -> bool {
        let Some(annotation) = injector(annotations) else {
            self.written.remove(title);
            self.reported.remove(title);
            return false;
        };
        if !is_recent(self.reported.get(title), now) {
            self.reported.insert(title.to_owned(), now);
            tracing::warn!(
                object = title,
                annotation,
                "another program writes this caBundle too, so calls can fail: remove the annotation, or use the \
                 certificates of that program"
            );
        }
        is_recent(self.written.get(title), now)
    }

    /// The bundle of an object was written.
    pub(super) fn wrote(&mut self, title: &str, annotations: &BTreeMap<String, String>, now: i64) {
        if injector(annotations).is_some() {
            self.written.insert(title.to_owned(), now);
        }
    }
}

/// Whether a time is less than the pause ago. A clock that was set back ends the pause.
fn is_recent(at: Option<&i64>, now: i64) -> bool {
    at.is_some_and(|at| (0..PAUSE).contains(&now.saturating_sub(*at)))
}
