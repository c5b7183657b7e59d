//! The edits that must be refused, each in every way that `kubectl` has for it, as administrator
//! and as a plain user. The person reads which field, what it holds, what is allowed, and what to
//! do.

use capstan_sandbox::control_plane::{Editor, Kubectl, Output};
use serde_json::json;

use super::fixtures::{self, TEMPLATE, TEMPLATE_POINTER, gcp_provider_spec, template_patch};
use super::world::{SET, Taken, World};

/// An edit of the set `cluster` that must be refused.
pub(crate) struct Refusal {
    /// Machines and replicas before the edit.
    pub(crate) machines: usize,
    /// State and replicas of the set before the edit.
    pub(crate) set: (usize, &'static str),
    /// The patch, and its type.
    pub(crate) patch: (&'static str, String),
    /// The same for a person with an editor.
    pub(crate) sed: &'static str,
    /// The same through the scale subresource.
    pub(crate) scale: Option<usize>,
    /// What the person reads.
    pub(crate) says: Vec<String>,
    /// Whether a policy refuses it as well.
    pub(crate) in_cel: bool,
}

fn merge(patch: &serde_json::Value) -> (&'static str, String) {
    ("merge", patch.to_string())
}

/// 5→3 replicas.
pub(crate) fn replicas() -> Refusal {
    Refusal {
        machines: 5,
        set: (5, "Active"),
        patch: merge(&json!({"spec": {"replicas": 3}})),
        sed: "s/^  replicas: 5/  replicas: 3/",
        scale: Some(3),
        says: vec![
            "spec.replicas: Invalid value: 3: replicas is immutable; keep the number that the set was created with \
             [cpms-replicas-immutable]"
                .into(),
        ],
        in_cel: true,
    }
}

/// Active→Inactive.
pub(crate) fn deactivation() -> Refusal {
    Refusal {
        machines: 3,
        set: (3, "Active"),
        patch: merge(&json!({"spec": {"state": "Inactive"}})),
        sed: "s/^  state: Active/  state: Inactive/",
        scale: None,
        says: vec![
            "spec.state: Invalid value: \"Inactive\": state cannot be changed once Active; to stop the management of the \
             machines, delete the control plane machine set: its machines stay, and a new set starts Inactive \
             [cpms-state-stays-active]"
                .into(),
        ],
        in_cel: true,
    }
}

/// Another selector.
pub(crate) fn selector() -> Refusal {
    Refusal {
        machines: 3,
        set: (3, "Active"),
        patch: merge(&json!({"spec": {"selector": {"matchLabels": {"role": "control-plane"}}}})),
        sed: "/^  selector:/,/^  state:/ s/^(      machine.openshift.io.cluster-api-cluster:).*/\\1 staging/",
        scale: None,
        says: vec![
            "spec.selector: Invalid value: {".into(),
            "selector is immutable; keep the selector; a deleted set is generated again at once, so to create one with \
             another selector, delete the set (its machines stay), scale the Deployment capstan-controllers to 0, delete \
             the generated set, create yours, and scale up again [cpms-selector-immutable]"
                .into(),
        ],
        in_cel: true,
    }
}

/// A name prefix that can be no name.
pub(crate) fn name_prefix() -> Refusal {
    Refusal {
        machines: 3,
        set: (3, "Active"),
        patch: merge(&json!({"spec": {"machineNamePrefix": "Control_Plane"}})),
        sed: "s/^spec:/spec:\\n  machineNamePrefix: Control_Plane/",
        scale: None,
        says: vec![
            "spec.machineNamePrefix: Invalid value: \"Control_Plane\": a lowercase RFC 1123 subdomain must consist of lower \
             case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character; use something \
             like control-plane; machines are then named control-plane-abcde-0 [cpms-name-prefix-format]"
                .into(),
        ],
        in_cel: true,
    }
}

/// Failure domains of AWS over a provider spec of Google Cloud.
pub(crate) fn platforms() -> Refusal {
    let value = format!("{TEMPLATE_POINTER}/spec/providerSpec/value");
    Refusal {
        machines: 3,
        set: (3, "Active"),
        patch: (
            "json",
            json!([{"op": "replace", "path": value, "value": gcp_provider_spec()}]).to_string(),
        ),
        sed: "s/kind: AWSMachineProviderConfig/kind: GCPMachineProviderSpec/",
        scale: None,
        says: vec![
            format!(
                "{TEMPLATE}.spec.providerSpec.value.kind: Invalid value: \"GCPMachineProviderSpec\": must stay \
                 AWSMachineProviderConfig: the field is immutable; keep the value: a control plane cannot move to another \
                 platform [cpms-provider-spec-kind-immutable]"
            ),
            format!("{TEMPLATE}.failureDomains.platform: Invalid value: \"AWS\": "),
            "[cpms-platform-agrees]".into(),
        ],
        in_cel: false,
    }
}

/// Three zones to one.
pub(crate) fn zones() -> Refusal {
    let zone = json!({
        "placement": {"availabilityZone": "us-east-1a"},
        "subnet": {"type": "Filters", "filters": [{"name": "tag:Name", "values": ["prod-x7k2p-subnet-private-us-east-1a"]}]},
    });
    Refusal {
        machines: 3,
        set: (3, "Active"),
        patch: ("merge", template_patch(&json!({"failureDomains": {"aws": [zone]}}))),
        sed: "s/us-east-1[bc]$/us-east-1a/",
        scale: None,
        says: vec![
            format!("{TEMPLATE}.failureDomains: Invalid value: "),
            "must spread the 3 machines over at least 3 failure domains, not 1: otherwise one outage can cost etcd its \
             quorum; keep "
                .into(),
            "or set the annotation capstan.dev/acknowledge-failure-domains: ".into(),
            "[cpms-spread-reduced]".into(),
        ],
        in_cel: false,
    }
}

/// The activation of 3 replicas over 5 machines.
pub(crate) fn activation() -> Refusal {
    Refusal {
        machines: 5,
        set: (3, "Inactive"),
        patch: merge(&json!({"spec": {"state": "Active"}})),
        sed: "s/^  state: Inactive/  state: Active/",
        scale: None,
        says: vec![
            "spec.replicas: Forbidden: must match the current number of control plane Machines; replicas is 3, and there are \
             5: prod-x7k2p-master-0, prod-x7k2p-master-1, prod-x7k2p-master-2, prod-x7k2p-master-3, prod-x7k2p-master-4; \
             delete the inactive set, and activate the one with 5 replicas that Capstan then generates; without its \
             controllers, create it; replicas is immutable [cpms-replicas-match-machines]"
                .into(),
        ],
        in_cel: false,
    }
}

/// All edits of an existing set.
pub(crate) fn all() -> Vec<Refusal> {
    vec![
        replicas(),
        deactivation(),
        selector(),
        name_prefix(),
        platforms(),
        zones(),
        activation(),
    ]
}

impl Refusal {
    /// Takes the cluster as it is before the edit.
    pub(crate) async fn prepare(&self, world: &'static World) -> Taken {
        let cluster = world.with_machines(self.machines).await;
        cluster.create(&fixtures::set_of(self.set.0, self.set.1)).await;
        cluster
    }

    /// Tries the edit in every way, and expects the same words each time.
    pub(crate) async fn try_every_way(&self, world: &'static World) {
        let cluster = self.prepare(world).await;
        let before = cluster.get().await;
        let patch_type = format!("--type={}", self.patch.0);
        let patch = ["patch", SET, "cluster", &patch_type, "-p", &self.patch.1];
        let alice = |kubectl: Kubectl<'static>| kubectl.as_user("alice", &["admins"]);
        self.check("patch", &cluster.run(&patch).await);
        let dry = [&patch[..], &["--dry-run=server"]].concat();
        self.check("patch --dry-run=server", &cluster.run(&dry).await);
        self.check("alice's patch", &alice(cluster.kubectl(&patch)).run().await.unwrap());

        let edit = || {
            cluster
                .kubectl(&["edit", SET, "cluster"])
                .editor(Editor::Sed(self.sed.to_owned()))
        };
        for (who, output) in [
            ("edit", edit().run().await.unwrap()),
            ("alice's edit", alice(edit()).run().await.unwrap()),
        ] {
            // The editor opens again, and says why above the text.
            assert_eq!(output.status, 1, "{who}: {output}");
            assert_eq!(output.opened.len(), 2, "{who}: {output}");
            let comment: String = output.opened[1]
                .lines()
                .take_while(|line| line.starts_with('#'))
                .collect();
            for words in &self.says {
                assert!(comment.contains(words.as_str()), "{who}: {words:?} is not in {comment}");
            }
        }
        if let Some(replicas) = self.scale {
            let replicas = format!("--replicas={replicas}");
            let scale = ["scale", SET, "cluster", &replicas];
            self.check("scale", &cluster.run(&scale).await);
            let dry = [&scale[..], &["--dry-run=server"]].concat();
            self.check("scale --dry-run=server", &cluster.run(&dry).await);
            self.check("alice's scale", &alice(cluster.kubectl(&scale)).run().await.unwrap());
        }
        assert_eq!(cluster.get().await["spec"], before["spec"]);
    }

    fn check(&self, way: &str, output: &Output) {
        assert_eq!(output.status, 1, "{way}: {output}");
        for words in &self.says {
            assert!(
                output.stderr.contains(words.as_str()),
                "{way}: {words:?} is not in {output}"
            );
        }
    }
}

macro_rules! refused {
    ($($name:ident: $refusal:ident;)*) => {$(
        #[tokio::test]
        async fn $name() {
            $refusal().try_every_way(World::ours().await).await;
        }
    )*};
}

refused! {
    five_replicas_never_become_three: replicas;
    an_active_set_never_becomes_inactive: deactivation;
    the_selector_never_changes: selector;
    a_name_prefix_that_can_be_no_name_is_refused: name_prefix;
    b12_domains_of_aws_do_not_stand_over_a_provider_spec_of_google_cloud: platforms;
    b11_three_zones_do_not_become_one_by_accident: zones;
    b11_three_replicas_are_not_activated_over_five_machines: activation;
}

#[tokio::test]
async fn the_whole_answer_reads_as_kubernetes_writes_it() {
    let cluster = World::ours().await.with_set(3, "Active").await;
    let output = cluster.patch(r#"{"spec": {"replicas": 5, "state": "Inactive"}}"#).await;
    assert_eq!(
        output.stderr,
        "The ControlPlaneMachineSet \"cluster\" is invalid: \n\
         * spec.replicas: Invalid value: 5: replicas is immutable; keep the number that the set was created with \
         [cpms-replicas-immutable]\n\
         * spec.state: Invalid value: \"Inactive\": state cannot be changed once Active; to stop the management of the \
         machines, delete the control plane machine set: its machines stay, and a new set starts Inactive \
         [cpms-state-stays-active] (https://github.com/capstan-dev/capstan/blob/main/docs/rules.md)\n"
    );
}

#[tokio::test]
async fn b20_a_second_set_and_one_in_another_namespace_are_refused() {
    let cluster = World::ours().await.with_set(3, "Active").await;
    let mut other = fixtures::set();
    other["metadata"]["name"] = json!("other");
    for arguments in [&["apply", "-f", "-"][..], &["create", "-f", "-", "--dry-run=server"]] {
        for user in ["admin", "alice"] {
            let kubectl = cluster.kubectl(arguments).stdin(other.to_string());
            let kubectl = if user == "alice" {
                kubectl.as_user(user, &[])
            } else {
                kubectl
            };
            let output = kubectl.run().await.unwrap();
            assert!(
                output.stderr.contains(
                    "metadata.name: Invalid value: \"other\": control plane machine set name must be cluster; a cluster has \
                     one control plane and one set for it: change metadata.name to cluster [cpms-name]"
                ),
                "{arguments:?} as {user}: {output}"
            );
        }
    }
    let mut elsewhere = fixtures::set();
    elsewhere["metadata"]["namespace"] = json!("default");
    let output = cluster
        .plane()
        .kubectl()
        .args(["create", "-f", "-"])
        .stdin(elsewhere.to_string())
        .run()
        .await
        .unwrap();
    assert!(
        output.stderr.contains(
            "metadata.namespace: Invalid value: \"default\": must be openshift-machine-api, the namespace of \
             the control plane Machines; create the set in openshift-machine-api [cpms-namespace]"
        ),
        "{output}"
    );
}

#[tokio::test]
async fn a_creation_is_judged_as_hard_as_an_update() {
    let cluster = World::ours().await.with_machines(5).await;
    let mut mixed = fixtures::set_of(5, "Active");
    *mixed
        .pointer_mut(&format!("{TEMPLATE_POINTER}/spec/providerSpec/value"))
        .unwrap() = gcp_provider_spec();
    let output = cluster
        .kubectl(&["create", "-f", "-"])
        .stdin(mixed.to_string())
        .run()
        .await
        .unwrap();
    assert!(
        output
            .stderr
            .contains(&format!("{TEMPLATE}.failureDomains.platform: Invalid value: \"AWS\": "))
            && output.stderr.contains("[cpms-platform-agrees]"),
        "{output}"
    );
    let too_few = fixtures::set_of(3, "Active");
    let output = cluster
        .kubectl(&["create", "-f", "-"])
        .stdin(too_few.to_string())
        .run()
        .await
        .unwrap();
    assert!(
        output.stderr.contains(
            "spec.replicas: Forbidden: must match the current number of control plane Machines; replicas is 3, and there are 5"
        ),
        "{output}"
    );
}

#[tokio::test]
async fn who_may_not_edit_is_refused_before_any_rule_is_asked() {
    let cluster = World::ours().await.with_set(3, "Active").await;
    let patch = [
        "patch",
        SET,
        "cluster",
        "--type=merge",
        "-p",
        r#"{"spec": {"replicas": 5}}"#,
    ];
    let output = cluster.kubectl(&patch).as_user("bob", &[]).run().await.unwrap();
    assert_eq!(
        output.stderr,
        "Error from server (Forbidden): controlplanemachinesets.machine.openshift.io \"cluster\" is forbidden: User \"bob\" \
         cannot patch resource \"controlplanemachinesets\" in API group \"machine.openshift.io\" in the namespace \
         \"openshift-machine-api\"\n"
    );
}
