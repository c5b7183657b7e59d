//! The format of the test suites in `github.com/openshift/api`.

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

/// A suite: cases for one CRD.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suite {
    /// The title.
    pub name: String,
    /// The name of the CRD, such as `machines.machine.openshift.io`.
    pub crd_name: String,
    /// The feature gates that must be on; those with a leading `-` must be off.
    #[serde(default)]
    pub feature_gates: Vec<String>,
    tests: Tests,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tests {
    #[serde(default)]
    on_create: Vec<Case>,
    #[serde(default)]
    on_update: Vec<Case>,
}

/// One case. Objects are YAML without a name; an empty text means that the case does not have the
/// object or error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Case {
    /// The title.
    pub name: String,
    /// The object to create.
    pub initial: String,
    /// The object to update it to.
    pub updated: String,
    /// The object that is stored at the end.
    pub expected: String,
    /// A part of the message with which the write is refused.
    pub expected_error: String,
    /// A part of the message with which the write of the status is refused.
    pub expected_status_error: String,
    /// JSON patches of the CRD under which the initial object is created.
    #[serde(rename = "initialCRDPatches")]
    pub initial_crd_patches: Vec<Value>,
}

impl Suite {
    /// Parses a file.
    ///
    /// # Errors
    /// The text is not a suite.
    pub fn parse(text: &str) -> Result<Self> {
        serde_saphyr::from_str(text).context("a suite must have name, crdName and tests")
    }

    /// The cases that create an object.
    pub fn on_create(&self) -> &[Case] {
        &self.tests.on_create
    }

    /// The cases that create an object and update it.
    pub fn on_update(&self) -> &[Case] {
        &self.tests.on_update
    }

    /// Whether the suite applies with all feature gates on, or with all off.
    pub fn applies(&self, gates_on: bool) -> bool {
        self.feature_gates.iter().all(|gate| gate.starts_with('-') != gates_on)
    }
}

impl Case {
    /// An object of the case.
    ///
    /// # Errors
    /// The text is not YAML.
    pub fn object(text: &str) -> Result<Value> {
        serde_saphyr::from_str(text).with_context(|| format!("parsing {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_parsed_and_applies_by_its_feature_gates() {
        let suite = Suite::parse(
            "{name: A, crdName: as.example.com, featureGates: [-B], tests: {onCreate: [{name: C, initial: 'a: 1', \
             expectedError: no}]}}",
        )
        .unwrap();
        assert!(suite.applies(false) && !suite.applies(true));
        assert_eq!(suite.on_create()[0].expected_error, "no");
        assert_eq!(Case::object(&suite.on_create()[0].initial).unwrap()["a"], 1);
        assert!(suite.on_update().is_empty());
    }
}
