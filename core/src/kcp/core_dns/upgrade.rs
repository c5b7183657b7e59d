//! The next change that brings CoreDNS in the managed cluster to the image of the control plane.
//!
//! Each change is one patch of one object, and the objects alone tell which one is next. So a
//! controller that stops in between continues. The old pods read a backup while the configuration
//! is migrated: CoreDNS reloads its configuration, and the old version may not understand the new
//! one. Other keys of the ConfigMap stay.

use serde_json::{Value, json};

use super::migration::migrate;
use super::{NEWEST, is_known};
use crate::api::controlplane_cluster_x_k8s_io::annotation::SKIP_CORE_DNS;
use crate::kcp::image::Image;
use crate::kcp::kube_proxy::{containers, image_of, precondition, with_template};
use crate::kcp::state::State;
use crate::kcp::version::Version;

/// The name of the ConfigMap, of the Deployment, and of its container.
pub const NAME: &str = "coredns";
/// The key of the configuration.
const KEY: &str = "Corefile";
/// The key of the configuration before its migration.
const BACKUP: &str = "Corefile-backup";
/// The volume of the Deployment with the ConfigMap.
const VOLUME: &str = "config-volume";
/// Registries in which the image got another name in version 1.8.0.
const RENAMED_IN: [&str; 2] = ["k8s.gcr.io", "registry.k8s.io"];

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The image is stored in the ConfigMap `kubeadm-config`.
    Configuration,
    /// A merge patch of the ConfigMap of CoreDNS.
    ConfigMap(Value),
    /// A merge patch of the Deployment of CoreDNS.
    Deployment(Value),
}

/// The next change; `None` if the image is right. `is_configured` tells whether the ConfigMap
/// `kubeadm-config` has the image of the spec.
///
/// # Errors
/// Why CoreDNS stays as it is.
pub fn next(
    state: &State,
    config_map: &Value,
    deployment: &Value,
    is_configured: bool,
) -> Result<Option<Change>, String> {
    if state.annotation(SKIP_CORE_DNS).is_some() {
        return Ok(None);
    }
    let Some(current) = image_of(deployment, NAME) else {
        return Ok(None);
    };
    let current_image = Image::parse(current)?;
    let (image, from, to) = wanted(state, &current_image)?;
    if image.to_string() == current {
        return Ok(None);
    }
    if from > to {
        return Err(format!(
            "the image of CoreDNS must not be older than the running one: {} is running",
            current_image.tag
        ));
    }
    if !is_known(&from) || (from.core != to.core && !is_known(&to)) {
        return Err(format!(
            "the configuration of CoreDNS {from} cannot be migrated to {to}: known versions end with {NEWEST}. Set the \
             annotation {SKIP_CORE_DNS} to manage CoreDNS yourself"
        ));
    }
    if !is_configured {
        return Ok(Some(Change::Configuration));
    }
    let key = |key: &str| config_map.pointer("/data").and_then(|data| data.get(key)?.as_str());
    let reads_backup = volume_key(deployment) == Some(BACKUP);
    let source = match (reads_backup, key(BACKUP), key(KEY)) {
        (true, Some(backup), _) => backup,
        (_, _, Some(corefile)) => corefile,
        _ => return Err(format!("the ConfigMap kube-system/{NAME} must have the key {KEY}")),
    };
    let migrated = migrate(&from, &to, source)?;
    let patch = |data: Value| json!({"metadata": precondition(config_map), "data": data});
    let can_read_backup = volume_key(deployment).is_some();
    if migrated != source && can_read_backup && !reads_backup {
        return Ok(Some(if key(BACKUP) == Some(source) {
            Change::Deployment(with_template(
                deployment,
                &json!({"volumes": volumes(deployment, BACKUP)}),
            ))
        } else {
            Change::ConfigMap(patch(json!({ (BACKUP): source })))
        }));
    }
    if key(KEY) != Some(&migrated) {
        return Ok(Some(Change::ConfigMap(patch(
            json!({ (KEY): migrated, (BACKUP): source }),
        ))));
    }
    let mut pod = json!({"containers": containers(deployment, NAME, &image.to_string())});
    if let Some(fields) = pod.as_object_mut().filter(|_| reads_backup) {
        fields.insert(String::from("volumes"), volumes(deployment, KEY));
    }
    Ok(Some(Change::Deployment(with_template(deployment, &pod))))
}

/// The image of the control plane, and the versions of the running and of this image. Fields that
/// the spec leaves out stay as they are.
fn wanted(state: &State, current: &Image) -> Result<(Image, Version, Version), String> {
    let configuration = &state.control_plane.spec.kubeadm_config_spec.cluster_configuration;
    let mut image = current.clone();
    for repository in [&configuration.image_repository, &configuration.dns.image_repository] {
        if !repository.is_empty() {
            image.repository = repository.trim_end_matches('/').to_owned();
        }
    }
    if !configuration.dns.image_tag.is_empty() {
        image.tag.clone_from(&configuration.dns.image_tag);
    }
    let version = |tag: &str| {
        let version = Version::of_image_tag(tag);
        version.ok_or_else(|| format!("the tag {tag:?} of the image of CoreDNS must be a version"))
    };
    let (from, to) = (version(&current.tag)?, version(&image.tag)?);
    if image.name == NAME && to.core >= [1, 8, 0] && RENAMED_IN.contains(&image.repository.as_str()) {
        image.repository = format!("{}/{NAME}", image.repository);
    }
    Ok((image, from, to))
}

/// The key of the ConfigMap that the pods read; `None` if the Deployment names no key.
fn volume_key(deployment: &Value) -> Option<&str> {
    let volumes = deployment.pointer("/spec/template/spec/volumes")?.as_array()?;
    let items = volumes.iter().filter(|volume| is_configuration(volume));
    let mut items = items
        .filter_map(|volume| volume.pointer("/configMap/items")?.as_array())
        .flatten();
    items.find_map(|item| item.get("key")?.as_str().filter(|key| [KEY, BACKUP].contains(key)))
}

fn is_configuration(volume: &Value) -> bool {
    let text = |pointer: &str| volume.pointer(pointer).and_then(Value::as_str);
    text("/name") == Some(VOLUME) && text("/configMap/name") == Some(NAME)
}

/// All volumes, of which the one with the configuration has this key.
fn volumes(deployment: &Value, key: &str) -> Value {
    let mut all = deployment
        .pointer("/spec/template/spec/volumes")
        .cloned()
        .unwrap_or_default();
    for volume in all
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter(|volume| is_configuration(volume))
    {
        let items = volume.pointer_mut("/configMap/items").and_then(Value::as_array_mut);
        for item in items.into_iter().flatten().filter_map(Value::as_object_mut) {
            if let Some(known) = item.get_mut("key").filter(|known| *known == KEY || *known == BACKUP) {
                *known = json!(key);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::samples::World;

    const OLD: &str = ".:53 {\n    forward . /etc/resolv.conf\n}\n";

    struct Cluster {
        config_map: Value,
        deployment: Value,
        is_configured: bool,
    }

    fn cluster(image: &str) -> Cluster {
        Cluster {
            config_map: json!({"metadata": {"resourceVersion": "1"}, "data": {KEY: OLD, "other": "kept"}}),
            deployment: json!({"metadata": {"resourceVersion": "2"}, "spec": {"template": {"spec": {
                "containers": [{"name": NAME, "image": image}],
                "volumes": [
                    {"name": VOLUME, "configMap": {"name": NAME, "items": [{"key": KEY, "path": KEY}]}},
                    {"name": "other", "emptyDir": {}},
                ],
            }}}}),
            is_configured: false,
        }
    }

    fn world(tag: &str) -> World {
        let mut world = World::new("a");
        world.spec()["kubeadmConfigSpec"]["clusterConfiguration"] = json!({"dns": {"imageTag": tag}});
        world
    }

    /// Makes changes until nothing changes, and checks what the pods read at every moment.
    fn run(world: &World, cluster: &mut Cluster) -> Vec<String> {
        let state = world.state();
        let mut made = Vec::new();
        while let Some(change) = next(&state, &cluster.config_map, &cluster.deployment, cluster.is_configured).unwrap()
        {
            let is_old = image_of(&cluster.deployment, NAME) != image_of(&cluster_after(cluster, &change), NAME);
            match &change {
                Change::Configuration => cluster.is_configured = true,
                Change::ConfigMap(patch) => json_patch::merge(&mut cluster.config_map, patch),
                Change::Deployment(patch) => json_patch::merge(&mut cluster.deployment, patch),
            }
            made.push(format!("{change:?}").split('(').next().unwrap().to_owned());
            let read = &cluster.config_map["data"][volume_key(&cluster.deployment).unwrap()];
            if !is_old {
                assert_eq!(read, OLD, "the old pods read what they understand: {made:?}");
            }
            assert!(made.len() < 10, "{made:?}");
        }
        made
    }

    fn cluster_after(cluster: &Cluster, change: &Change) -> Value {
        let mut deployment = cluster.deployment.clone();
        if let Change::Deployment(patch) = change {
            json_patch::merge(&mut deployment, patch);
        }
        deployment
    }

    #[test]
    fn the_old_pods_read_a_backup_while_the_configuration_is_migrated() {
        let mut cluster = cluster("registry.k8s.io/coredns:1.6.7");
        let made = run(&world("v1.12.1"), &mut cluster);
        assert_eq!(
            made,
            ["Configuration", "ConfigMap", "Deployment", "ConfigMap", "Deployment"]
        );
        assert_eq!(
            image_of(&cluster.deployment, NAME),
            Some("registry.k8s.io/coredns/coredns:v1.12.1")
        );
        assert_eq!(volume_key(&cluster.deployment), Some(KEY));
        let data = &cluster.config_map["data"];
        assert!(data[KEY].as_str().unwrap().contains("max_concurrent"));
        assert_eq!((&data[BACKUP], &data["other"]), (&json!(OLD), &json!("kept")));
        assert_eq!(
            cluster.deployment["spec"]["template"]["spec"]["volumes"][1]["name"],
            "other"
        );
    }

    #[test]
    fn a_configuration_that_stays_needs_one_change_of_the_deployment() {
        let mut cluster = cluster("registry.k8s.io/coredns/coredns:v1.11.1");
        assert_eq!(run(&world("v1.12.1"), &mut cluster), ["Configuration", "Deployment"]);
        assert_eq!(run(&world("v1.12.1"), &mut cluster), [""; 0]);
    }

    #[test]
    fn bug_7_5_other_keys_of_the_config_map_of_core_dns_are_kept() {
        let mut cluster = cluster("registry.k8s.io/coredns:1.6.7");
        run(&world("v1.12.1"), &mut cluster);
        assert_eq!(cluster.config_map["data"]["other"], "kept");
    }

    #[test]
    fn an_older_or_unknown_version_and_the_annotation_leave_core_dns_as_it_is() {
        let cluster = cluster("registry.k8s.io/coredns/coredns:v1.11.1");
        let next = |world: &World| next(&world.state(), &cluster.config_map, &cluster.deployment, true);
        for tag in ["v1.10.1", "v9.9.9", "v1.11.2"] {
            assert!(next(&world(tag)).is_err(), "{tag}");
        }
        let mut skipped = world("v1.12.1");
        skipped.control_plane["metadata"]["annotations"] = json!({(SKIP_CORE_DNS): ""});
        assert_eq!(next(&skipped), Ok(None));
        // Without a tag in the spec, only the repository follows.
        let mut same = World::new("a");
        assert_eq!(next(&same), Ok(None), "the repository is right");
        same.spec()["kubeadmConfigSpec"]["clusterConfiguration"] = json!({"dns": {"imageRepository": "a.example.org"}});
        let Ok(Some(Change::Deployment(patch))) = next(&same) else {
            panic!("{:?}", next(&same));
        };
        assert_eq!(
            patch.pointer("/spec/template/spec/containers/0/image").unwrap(),
            "a.example.org/coredns:v1.11.1"
        );
    }
}
