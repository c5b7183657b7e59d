//! The platforms of the Machine API: the kind and the fields of each provider spec.
//!
//! There is one list of fields for each platform. Admission of ControlPlaneMachineSets warns of
//! fields that are not in it, and the conversion between both APIs refuses them. A list holds the
//! first level of fields, in order. The module decides nothing.
//!
//! Source: the Go module `github.com/openshift/api` at `v0.0.0-20260420151639-34e60874783e`, unless
//! the file of a platform names another.

pub mod aws;
pub mod azure;
pub mod bare_metal;
pub mod check;
pub mod gcp;
pub mod ibm_cloud;
pub mod nutanix;
pub mod openstack;
pub mod power_vs;
pub mod schema;
pub mod vsphere;

use serde_json::Value;

/// The provider spec of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderSpec {
    /// The kind that a provider spec names.
    pub kind: &'static str,
    /// The fields of the first level, in order, `apiVersion`, `kind` and `metadata` among them.
    pub fields: &'static [&'static str],
}

/// The provider specs of all platforms.
pub const ALL: &[ProviderSpec] = &[
    aws::PROVIDER_SPEC,
    azure::PROVIDER_SPEC,
    bare_metal::PROVIDER_SPEC,
    gcp::PROVIDER_SPEC,
    ibm_cloud::PROVIDER_SPEC,
    nutanix::PROVIDER_SPEC,
    openstack::PROVIDER_SPEC,
    power_vs::PROVIDER_SPEC,
    vsphere::PROVIDER_SPEC,
];

impl ProviderSpec {
    /// The fields of `value` that the platform does not know, in the order of the value.
    pub fn unknown_fields(self, value: &Value) -> Vec<&str> {
        let fields = value.as_object().into_iter().flat_map(serde_json::Map::keys);
        fields
            .map(String::as_str)
            .filter(|field| !self.fields.contains(field))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn each_list_is_in_order_and_names_no_field_twice() {
        let kinds: BTreeSet<&str> = ALL.iter().map(|spec| spec.kind).collect();
        assert_eq!(kinds.len(), ALL.len());
        for spec in ALL {
            assert!(spec.fields.is_sorted_by(|left, right| left < right), "{}", spec.kind);
            for field in ["apiVersion", "kind", "metadata"] {
                assert!(spec.fields.contains(&field), "{}: {field}", spec.kind);
            }
        }
    }

    #[test]
    fn a_misspelt_field_is_unknown() {
        let spec =
            json!({"kind": "AWSMachineProviderConfig", "instanceType": "m5.xlarge", "instancetype": "x", "ami": {}});
        assert_eq!(aws::PROVIDER_SPEC.unknown_fields(&spec), ["instancetype"]);
    }
}
