//! The defaults that a platform's machine webhook adds to a provider spec.
//!
//! Only the secrets have defaults here: they have the same names in every cluster, and adding them
//! twice changes nothing. Sizes, images and zones have no defaults. The mutating webhook adds the
//! defaults to a template, and the controller to a machine that it creates. A comparison adds them
//! to both sides, and those of `stored_form`, so that a template without them equals a machine that
//! was stored with them.

use serde_json::{Value, json};

use super::domains::Platform;
use super::fields;

/// The secret with the ignition stub of control plane machines.
const USER_DATA: &str = "master-user-data";

/// Adds the defaults of `platform` to the provider spec. The function is idempotent, and does not
/// change a value that is not an object.
pub fn provider_spec_defaults(platform: Option<Platform>, spec: &mut Value) {
    let Some(platform) = platform.filter(|_| spec.is_object()) else {
        return;
    };
    fill(spec, &["userDataSecret", "name"], USER_DATA);
    let credentials = match platform {
        Platform::Aws => "aws-cloud-credentials",
        Platform::Azure => "azure-cloud-credentials",
        Platform::Gcp => "gcp-cloud-credentials",
        Platform::VSphere => "vsphere-cloud-credentials",
        Platform::Nutanix => "nutanix-credentials",
        // The provider reads both from `cloudsSecret`, which has no default.
        Platform::OpenStack => return,
    };
    fill(spec, &["credentialsSecret", "name"], credentials);
    if platform == Platform::Azure {
        let namespace = crate::api::machine_openshift_io::NAMESPACE;
        fill(spec, &["credentialsSecret", "namespace"], namespace);
    }
}

fn fill(spec: &mut Value, path: &[&str], default: &str) {
    let [parent, ..] = path else { return };
    // A value of another type is not overwritten. The platform's own validation reports it.
    let free = fields::get(spec, &[parent]).is_none_or(Value::is_object);
    if free && fields::get(spec, path).is_none_or(|value| value.as_str() == Some("")) {
        fields::set(spec, path, json!(default));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_added_and_existing_values_are_kept() {
        let mut spec = json!({"kind": "AWSMachineProviderConfig", "userDataSecret": {"name": "mine"}});
        provider_spec_defaults(Some(Platform::Aws), &mut spec);
        assert_eq!(spec["userDataSecret"]["name"], "mine");
        assert_eq!(spec["credentialsSecret"]["name"], "aws-cloud-credentials");
    }

    #[test]
    fn adding_defaults_twice_changes_nothing() {
        for platform in Platform::ALL {
            let mut once = json!({"kind": platform.kind(), "credentialsSecret": {"name": ""}});
            provider_spec_defaults(Some(platform), &mut once);
            let mut twice = once.clone();
            provider_spec_defaults(Some(platform), &mut twice);
            assert_eq!(once, twice, "{platform}");
        }
    }

    #[test]
    fn a_value_that_is_not_an_object_is_not_changed() {
        let mut spec = json!("text");
        provider_spec_defaults(Some(Platform::Gcp), &mut spec);
        assert_eq!(spec, json!("text"));
        let mut odd = json!({"userDataSecret": 7});
        provider_spec_defaults(Some(Platform::Gcp), &mut odd);
        assert_eq!(odd["userDataSecret"], 7);
    }
}
