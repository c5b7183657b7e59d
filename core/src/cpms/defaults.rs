//! What a platform's own machine webhook would fill into a provider spec.
//!
//! Only what is the same on every cluster and harmless to write twice: the secrets. Sizes, images
//! and zones are never made up. The mutating webhook writes these into a template; a comparison
//! fills both sides with them, so that a template which relies on them equals a machine that was
//! stored with them.

use serde_json::{Value, json};

use super::domains::Platform;
use super::fields;

/// The secret with the ignition stub of control plane machines.
const USER_DATA: &str = "master-user-data";

/// Fills the defaults of `platform` into the provider spec. Idempotent; does nothing to what is no
/// object.
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
        // Its provider takes them from `cloudsSecret`, which has no default.
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
    // Something else in this place is not ours to overwrite: the platform's own validation will say
    // so.
    let free = fields::get(spec, &[parent]).is_none_or(Value::is_object);
    if free && fields::get(spec, path).is_none_or(|value| value.as_str() == Some("")) {
        fields::set(spec, path, json!(default));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_fill_what_is_absent_and_keep_what_is_there() {
        let mut spec = json!({"kind": "AWSMachineProviderConfig", "userDataSecret": {"name": "mine"}});
        provider_spec_defaults(Some(Platform::Aws), &mut spec);
        assert_eq!(spec["userDataSecret"]["name"], "mine");
        assert_eq!(spec["credentialsSecret"]["name"], "aws-cloud-credentials");
    }

    #[test]
    fn filling_defaults_twice_changes_nothing_more() {
        for platform in Platform::ALL {
            let mut once = json!({"kind": platform.kind(), "credentialsSecret": {"name": ""}});
            provider_spec_defaults(Some(platform), &mut once);
            let mut twice = once.clone();
            provider_spec_defaults(Some(platform), &mut twice);
            assert_eq!(once, twice, "{platform}");
        }
    }

    #[test]
    fn what_is_no_object_stays_as_it_is() {
        let mut spec = json!("text");
        provider_spec_defaults(Some(Platform::Gcp), &mut spec);
        assert_eq!(spec, json!("text"));
        let mut odd = json!({"userDataSecret": 7});
        provider_spec_defaults(Some(Platform::Gcp), &mut odd);
        assert_eq!(odd["userDataSecret"], 7);
    }
}
