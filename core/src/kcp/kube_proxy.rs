//! The image of kube-proxy in the managed cluster, which follows the version of the control plane
//! when all machines have it.
//!
//! Only the image changes. A DaemonSet of another tool, without a container of the name, stays as
//! it is.

use serde_json::{Value, json};

use super::image::Image;
use super::state::State;
use crate::api::controlplane_cluster_x_k8s_io::annotation::SKIP_KUBE_PROXY;

/// The name of the DaemonSet and of its container.
pub const NAME: &str = "kube-proxy";
/// The containers of a DaemonSet or a Deployment.
pub(super) const CONTAINERS: &str = "/spec/template/spec/containers";

/// The merge patch of the DaemonSet; `None` if its image is right.
///
/// # Errors
/// Why the image cannot be changed.
pub fn patch(state: &State, daemon_set: &Value) -> Result<Option<Value>, String> {
    if state.annotation(SKIP_KUBE_PROXY).is_some() {
        return Ok(None);
    }
    let Some(current) = image_of(daemon_set, NAME) else {
        return Ok(None);
    };
    let mut image = Image::parse(current)?;
    let spec = &state.control_plane.spec;
    image.tag = Image::tag_of(&spec.version);
    let repository = &spec.kubeadm_config_spec.cluster_configuration.image_repository;
    if !repository.is_empty() {
        image.repository = repository.trim_end_matches('/').to_owned();
    }
    let image = image.to_string();
    Ok((image != current)
        .then(|| with_template(daemon_set, &json!({"containers": containers(daemon_set, NAME, &image)}))))
}

/// The image of a container in the template of pods of a workload.
pub(super) fn image_of<'v>(workload: &'v Value, container: &str) -> Option<&'v str> {
    let mut containers = workload.pointer(CONTAINERS)?.as_array()?.iter();
    let found = containers.find(|one| one.get("name").and_then(Value::as_str) == Some(container))?;
    found.get("image")?.as_str()
}

/// All containers of a workload, one of them with another image. A merge patch replaces the list.
pub(super) fn containers(workload: &Value, container: &str, image: &str) -> Value {
    let mut all = workload.pointer(CONTAINERS).cloned().unwrap_or_default();
    for one in all
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        if one.get("name").and_then(Value::as_str) == Some(container) {
            one.insert(String::from("image"), json!(image));
        }
    }
    all
}

/// A merge patch of the template of pods of a workload, as it was read.
pub(super) fn with_template(workload: &Value, pod: &Value) -> Value {
    json!({"metadata": precondition(workload), "spec": {"template": {"spec": pod}}})
}

/// The metadata of a patch that fails if the object changed since it was read.
pub(super) fn precondition(object: &Value) -> Value {
    json!({"resourceVersion": object.pointer("/metadata/resourceVersion")})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::samples::World;

    fn daemon_set(image: &str) -> Value {
        json!({"metadata": {"name": NAME, "resourceVersion": "4"}, "spec": {"template": {"spec": {"containers": [
            {"name": "other", "image": "a/b:c"}, {"name": NAME, "image": image, "command": ["x"]},
        ]}}}})
    }

    fn patched(world: &World, image: &str) -> Option<String> {
        let daemon_set = daemon_set(image);
        let patch = patch(&world.state(), &daemon_set).unwrap()?;
        assert_eq!(patch["metadata"]["resourceVersion"], "4");
        let mut after = daemon_set.clone();
        json_patch::merge(&mut after, &patch);
        assert_eq!(
            after.pointer(CONTAINERS).unwrap()[0],
            daemon_set.pointer(CONTAINERS).unwrap()[0]
        );
        assert_eq!(after.pointer(CONTAINERS).unwrap()[1]["command"], json!(["x"]));
        image_of(&after, NAME).map(str::to_owned)
    }

    #[test]
    fn the_image_gets_the_version_and_the_repository_of_the_control_plane() {
        let mut world = World::new("a");
        assert_eq!(patched(&world, "registry.k8s.io/kube-proxy:v1.30.0"), None);
        let new = patched(&world, "k8s.gcr.io/kube-proxy:v1.29.1").unwrap();
        assert_eq!(new, "registry.k8s.io/kube-proxy:v1.30.0");
        let none = json!({});
        world.spec()["kubeadmConfigSpec"]["clusterConfiguration"] = none;
        let new = patched(&world, "k8s.gcr.io/kube-proxy:v1.29.1").unwrap();
        assert_eq!(new, "k8s.gcr.io/kube-proxy:v1.30.0");
        world.spec()["version"] = json!("v1.30.0+build.1");
        let new = patched(&world, "k8s.gcr.io/kube-proxy:v1.29.1").unwrap();
        assert_eq!(new, "k8s.gcr.io/kube-proxy:v1.30.0_build.1");
    }

    #[test]
    fn a_user_can_keep_the_image_and_a_digest_is_not_changed() {
        let mut world = World::new("a");
        assert!(patch(&world.state(), &daemon_set("a/kube-proxy@sha256:12")).is_err());
        assert_eq!(patch(&world.state(), &json!({"spec": {}})).unwrap(), None);
        world.control_plane["metadata"]["annotations"] = json!({(SKIP_KUBE_PROXY): ""});
        assert_eq!(patched(&world, "k8s.gcr.io/kube-proxy:v1.29.1"), None);
    }
}
