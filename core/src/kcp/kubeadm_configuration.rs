//! The configuration that `kubeadm init` stores in the managed cluster, and that new machines read
//! when they join.
//!
//! Only the version of Kubernetes is changed. Every other line stays as it is, also in a version of
//! the format that is not known here.

use super::state::State;

/// The namespace of the ConfigMap.
pub const NAMESPACE: &str = "kube-system";
/// The name of the ConfigMap.
pub const NAME: &str = "kubeadm-config";
/// The key of the configuration in the ConfigMap.
pub const KEY: &str = "ClusterConfiguration";
/// The field with the version.
const FIELD: &str = "kubernetesVersion:";

/// The configuration with the version of the control plane; `None` if it has that version.
pub fn with_version(state: &State, configuration: &str) -> Option<String> {
    let wanted = format!("{FIELD} {}", state.control_plane.spec.version);
    let is_version = |line: &&str| line.starts_with(FIELD);
    let lines: Vec<&str> = configuration.lines().collect();
    let known = lines.iter().find(|line| is_version(line));
    if known.is_some_and(|line| value(line) == value(&wanted)) {
        return None;
    }
    let mut new: Vec<&str> = lines
        .iter()
        .map(|line| if is_version(line) { wanted.as_str() } else { line })
        .collect();
    if known.is_none() {
        new.push(&wanted);
    }
    Some(new.join("\n") + "\n")
}

/// The value of the line, without quotes.
fn value(line: &str) -> &str {
    let value = line.strip_prefix(FIELD).unwrap_or_default().trim();
    value.trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::samples::World;

    fn changed(configuration: &str) -> Option<String> {
        with_version(&World::new("a").state(), configuration)
    }

    #[test]
    fn only_the_line_of_the_version_changes() {
        let text = "apiServer:\n  kubernetesVersion: x\nkubernetesVersion: v1.29.4\nnetworking: {}\n";
        let expected = text.replace("v1.29.4", "v1.30.0");
        assert_eq!(changed(text), Some(expected.clone()));
        assert_eq!(changed(&expected), None);
        assert_eq!(changed("kubernetesVersion: \"v1.30.0\"\n"), None);
    }

    #[test]
    fn a_configuration_without_a_version_gets_one() {
        assert_eq!(changed("").as_deref(), Some("kubernetesVersion: v1.30.0\n"));
        let text = "networking: {}\n";
        assert_eq!(
            changed(text).as_deref(),
            Some("networking: {}\nkubernetesVersion: v1.30.0\n")
        );
    }
}
