//! Generates requests from a seed. Values that only an answer contains (versions and uids) are
//! placeholders, which each side replaces.

use std::fmt;

use capstan_sandbox::random::Random;
use serde_json::{Value, json};

/// A request that both sides send.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Body,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    None,
    /// A JSON body. Texts that begin with `@` are placeholders: `@version PATH`, `@uid PATH`,
    /// `@stale PATH`, `@continue`.
    Json(Value),
    /// The last seen object at a path, with a merge patch applied to it.
    Seen(String, Value),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}?{} ({})",
            self.method, self.path, self.query, self.content_type
        )?;
        match &self.body {
            Body::None => Ok(()),
            Body::Json(value) => write!(f, " {value}"),
            Body::Seen(path, patch) => write!(f, " seen {path} with {patch}"),
        }
    }
}

/// The names of a sequence.
pub(crate) struct Space {
    namespace: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Machine,
    Set,
    ConfigMap,
    Lease,
    Node,
}

impl Space {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            namespace: format!("fidelity-{seed}"),
        }
    }

    pub(crate) fn namespace(&self) -> Call {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        call(
            "POST",
            "/api/v1/namespaces",
            "fieldManager=fidelity",
            "application/json",
            Body::Json(body),
        )
    }

    fn collection(&self, kind: Kind) -> String {
        let namespace = &self.namespace;
        match kind {
            Kind::Machine => format!("/apis/machine.openshift.io/v1beta1/namespaces/{namespace}/machines"),
            Kind::Set => format!("/apis/machine.openshift.io/v1/namespaces/{namespace}/controlplanemachinesets"),
            Kind::ConfigMap => format!("/api/v1/namespaces/{namespace}/configmaps"),
            Kind::Lease => format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
            Kind::Node => "/api/v1/nodes".to_owned(),
        }
    }

    fn name(&self, kind: Kind, name: &str) -> String {
        if kind == Kind::Node {
            format!("{}-{name}", self.namespace)
        } else {
            name.to_owned()
        }
    }
}

fn call(
    method: &'static str,
    path: impl Into<String>,
    query: impl Into<String>,
    content_type: &'static str,
    body: Body,
) -> Call {
    Call {
        method,
        path: path.into(),
        query: query.into(),
        content_type,
        body,
    }
}

fn pick<T: Clone>(random: &mut Random, list: &[T]) -> T {
    random.pick(list).unwrap().clone()
}

fn type_of(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Machine => ("machine.openshift.io/v1beta1", "Machine"),
        Kind::Set => ("machine.openshift.io/v1", "ControlPlaneMachineSet"),
        Kind::ConfigMap => ("v1", "ConfigMap"),
        Kind::Lease => ("coordination.k8s.io/v1", "Lease"),
        Kind::Node => ("v1", "Node"),
    }
}

fn call_of_kind(random: &mut Random, space: &Space, kind: Kind) -> Call {
    let names: &[&str] = if kind == Kind::Set {
        &["cluster", "cluster", "other"]
    } else {
        &["a", "b"]
    };
    let short = pick(random, names);
    let name = space.name(kind, short);
    let collection = space.collection(kind);
    let path = format!("{collection}/{name}");
    let manager = pick(
        random,
        &[
            "fieldManager=one",
            "fieldManager=two",
            "fieldManager=one&fieldValidation=Strict",
            "fieldManager=two&fieldValidation=Ignore",
        ],
    );
    let query = if random.permille(80) {
        format!("{manager}&dryRun=All")
    } else {
        manager.to_owned()
    };
    let json = "application/json";
    match random.below(100) {
        0..20 => call(
            "POST",
            collection,
            query,
            json,
            Body::Json(create(random, space, kind, &name)),
        ),
        20..27 => call("GET", path, "", json, Body::None),
        27..33 => {
            let query = match random.below(9) {
                0 => "labelSelector=a%3D1",
                1 => "labelSelector=a%20in%20(1,2),!c",
                2 => "fieldSelector=metadata.name%3Da",
                3 => "limit=1",
                4 => "limit=1&continue=@continue",
                5 => "labelSelector=a%20notin%20(1)&limit=1",
                6 => "fieldSelector=spec.nonsense%3Da",
                7 => "labelSelector=%3D%3D",
                _ => "resourceVersion=0",
            };
            // All sequences share the objects of cluster-scoped kinds.
            if kind == Kind::Node {
                call("GET", path, "", json, Body::None)
            } else {
                call("GET", collection, query, json, Body::None)
            }
        }
        33..45 => {
            let mut patch = change(random, kind, false);
            match random.below(8) {
                0 => merge(
                    &mut patch,
                    &json!({"metadata": {"resourceVersion": format!("@stale {path}")}}),
                ),
                1 => merge(&mut patch, &json!({"metadata": {"resourceVersion": null}})),
                2 => merge(
                    &mut patch,
                    &json!({"metadata": {"uid": "b4a3f1ad-0000-4000-8000-000000000000"}}),
                ),
                3 => patch = json!({}),
                _ => {}
            }
            call("PUT", path.clone(), query, json, Body::Seen(path, patch))
        }
        45..63 => {
            let mut patch = change(random, kind, true);
            match random.below(9) {
                0 => merge(
                    &mut patch,
                    &json!({"metadata": {"resourceVersion": format!("@stale {path}")}}),
                ),
                1 => merge(
                    &mut patch,
                    &json!({"metadata": {"resourceVersion": format!("@version {path}")}}),
                ),
                2 => merge(&mut patch, &json!({"metadata": {"uid": format!("@uid {path}")}})),
                3 => merge(
                    &mut patch,
                    &json!({"metadata": {"uid": "b4a3f1ad-0000-4000-8000-000000000000"}}),
                ),
                4 => merge(&mut patch, &json!({"metadata": {"name": "renamed"}})),
                5 => merge(
                    &mut patch,
                    &json!({"metadata": {"generation": 7, "creationTimestamp": null, "deletionTimestamp": null}}),
                ),
                _ => {}
            }
            let content_type = match kind {
                Kind::Node | Kind::ConfigMap | Kind::Lease if random.permille(400) => {
                    "application/strategic-merge-patch+json"
                }
                _ if random.permille(30) => "application/strategic-merge-patch+json",
                _ => "application/merge-patch+json",
            };
            call("PATCH", path, query, content_type, Body::Json(patch))
        }
        63..67 => {
            let patch = match random.below(5) {
                0 => json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}]),
                1 => {
                    json!([{"op": "test", "path": "/metadata/name", "value": "nobody"}, {"op": "remove", "path": "/metadata/labels"}])
                }
                2 => json!([{"op": "remove", "path": "/metadata/labels/a"}]),
                3 => json!([{"op": "add", "path": "/metadata/finalizers", "value": []}]),
                _ => json!({"op": "add"}),
            };
            call("PATCH", path, query, "application/json-patch+json", Body::Json(patch))
        }
        67..79 => {
            let mut query = pick(
                random,
                &[
                    "fieldManager=one",
                    "fieldManager=two",
                    "fieldManager=two&force=true",
                    "fieldManager=one&force=true",
                    "force=true",
                ],
            )
            .to_owned();
            if random.permille(80) {
                query += "&dryRun=All";
            }
            let mut body = applied(random, kind);
            merge(&mut body, &json!({"metadata": {"name": name}}));
            if kind == Kind::Lease && random.permille(500) {
                query += "&fieldValidation=Strict";
            }
            let path = match kind {
                Kind::Machine | Kind::Set | Kind::Node if random.permille(200) => format!("{path}/status"),
                _ => path,
            };
            call("PATCH", path, query, "application/apply-patch+yaml", Body::Json(body))
        }
        79..87 => match kind {
            Kind::Set if random.permille(400) => {
                let scale = format!("{path}/scale");
                let replicas = pick(random, &[json!(3), json!(5), json!(4), json!(-1), json!("x")]);
                match random.below(3) {
                    0 => call("GET", scale, "", json, Body::None),
                    1 => call(
                        "PATCH",
                        scale,
                        query,
                        "application/merge-patch+json",
                        Body::Json(json!({"spec": {"replicas": replicas}})),
                    ),
                    _ => {
                        let body = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
                            "metadata": {"name": name, "namespace": space.namespace, "resourceVersion": format!("@version {path}")},
                            "spec": {"replicas": replicas}});
                        call("PUT", scale, query, json, Body::Json(body))
                    }
                }
            }
            Kind::Machine | Kind::Set | Kind::Node => {
                let patch = status(random, kind);
                if random.permille(500) {
                    call(
                        "PATCH",
                        format!("{path}/status"),
                        query,
                        "application/merge-patch+json",
                        Body::Json(patch),
                    )
                } else {
                    call("PUT", format!("{path}/status"), query, json, Body::Seen(path, patch))
                }
            }
            _ => call(
                "PATCH",
                path,
                query,
                "application/merge-patch+json",
                Body::Json(change(random, kind, true)),
            ),
        },
        87..98 => {
            let mut options = json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"});
            match random.below(8) {
                0 => options["preconditions"] = json!({"uid": format!("@uid {path}")}),
                1 => options["preconditions"] = json!({"uid": "nobody"}),
                2 => options["preconditions"] = json!({"resourceVersion": format!("@stale {path}")}),
                3 => {
                    options["preconditions"] =
                        json!({"resourceVersion": format!("@version {path}"), "uid": format!("@uid {path}")});
                }
                _ => {}
            }
            match random.below(6) {
                0 => options["propagationPolicy"] = json!("Background"),
                1 => options["propagationPolicy"] = json!("Foreground"),
                2 => options["propagationPolicy"] = json!("Orphan"),
                3 => options["dryRun"] = json!(["All"]),
                _ => {}
            }
            call("DELETE", path, "", json, Body::Json(options))
        }
        _ if kind == Kind::Node => call("GET", path, "", json, Body::None),
        _ => call("DELETE", collection, "labelSelector=a%3D1", json, Body::None),
    }
}

/// The next request.
pub(crate) fn next(random: &mut Random, space: &Space) -> Call {
    let kind = pick(
        random,
        &[
            Kind::Machine,
            Kind::Machine,
            Kind::Machine,
            Kind::Set,
            Kind::Set,
            Kind::ConfigMap,
            Kind::Lease,
            Kind::Node,
        ],
    );
    call_of_kind(random, space, kind)
}

fn merge(value: &mut Value, patch: &Value) {
    json_patch::merge(value, &json!({}));
    json_patch::merge(value, patch);
    // `json_patch::merge` deletes a field with null, but here null is the value to send.
    if let (Some(target), Some(patch)) = (value["metadata"].as_object_mut(), patch["metadata"].as_object()) {
        for (key, value) in patch {
            target.insert(key.clone(), value.clone());
        }
    }
}

fn base(kind: Kind) -> Value {
    match kind {
        Kind::Machine => {
            json!({"spec": {"providerSpec": {"value": {"instanceType": "m6i.xlarge", "zones": ["a", "b"]}}}})
        }
        Kind::Set => json!({"spec": {
            "state": "Active", "replicas": 3, "strategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": {"machine.openshift.io/cluster-api-machine-role": "master", "machine.openshift.io/cluster-api-machine-type": "master"}},
            "template": {"machineType": "machines_v1beta1_machine_openshift_io", "machines_v1beta1_machine_openshift_io": {
                "failureDomains": {"platform": "AWS", "aws": [{"placement": {"availabilityZone": "us-east-1a"}}]},
                "metadata": {"labels": {"machine.openshift.io/cluster-api-machine-role": "master",
                    "machine.openshift.io/cluster-api-machine-type": "master", "machine.openshift.io/cluster-api-cluster": "c"}},
                "spec": {"providerSpec": {"value": {"instanceType": "m6i.xlarge"}}}}}}}),
        Kind::ConfigMap => json!({"data": {"key": "value"}}),
        Kind::Lease => json!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 30}}),
        Kind::Node => json!({"spec": {"providerID": "aws:///x"}}),
    }
}

fn create(random: &mut Random, space: &Space, kind: Kind, name: &str) -> Value {
    let (api_version, kind_name) = type_of(kind);
    let mut object = base(kind);
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind_name);
    object["metadata"] = json!({"name": name});
    match random.below(24) {
        0 => object["metadata"]["labels"] = json!({"a": "1"}),
        1 => object["metadata"]["labels"] = json!({"a": "2", "b/c": "3"}),
        2 => object["metadata"]["finalizers"] = json!(["example.com/one"]),
        3 => object["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]),
        4 => object["metadata"]["labels"] = json!({}),
        5 => object["metadata"]["labels"] = json!({"bad key": "1"}),
        6 => object["metadata"]["annotations"] = json!({"a": null, "b": "x"}),
        7 => object["metadata"]["labels"] = json!({"a": 1}),
        8 => object["metadata"]["name"] = json!("Bad_Name"),
        9 => object["metadata"] = json!({"generateName": space.name(kind, "gen-")}),
        10 => object["metadata"]["resourceVersion"] = json!("1"),
        11 => object["metadata"]["namespace"] = json!("elsewhere"),
        12 => object["kind"] = json!("Other"),
        13 => drop(object.as_object_mut().unwrap().remove("kind")),
        14 => {
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": true}]);
        }
        15 => {
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": true},
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "y", "uid": "v", "controller": true}]);
        }
        16 => object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}]),
        17 => json_patch::merge(&mut object, &change(random, kind, false)),
        18 => json_patch::merge(&mut object, &status(random, kind)),
        19 => object["unknown"] = json!({"x": 1}),
        20 => object["metadata"]["uid"] = json!("b4a3f1ad-0000-4000-8000-000000000000"),
        21 => object["metadata"]["generation"] = json!(9),
        _ => {}
    }
    object
}

/// A change of an object. With `patch` it is a merge patch, which can also remove fields.
fn change(random: &mut Random, kind: Kind, patch: bool) -> Value {
    let meta = [
        json!({"metadata": {"labels": {"a": "1"}}}),
        json!({"metadata": {"labels": {"a": "2", "c": "x"}}}),
        json!({"metadata": {"annotations": {"note": "n"}}}),
        json!({"metadata": {"finalizers": ["example.com/one"]}}),
        json!({"metadata": {"finalizers": ["example.com/one", "example.com/three"]}}),
        json!({"metadata": {"finalizers": []}}),
        json!({"metadata": {"finalizers": []}}),
        json!({"metadata": {"finalizers": ["not valid!"]}}),
        json!({"metadata": {"labels": {"a": "not valid!"}}}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "blockOwnerDeletion": true}]}}),
        json!({"metadata": {"unknown": 1}}),
    ];
    let removing = [
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"labels": {"a": null}}}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"finalizers": null}}),
        json!({}),
    ];
    let own: Vec<Value> = match kind {
        Kind::Machine => vec![
            json!({"spec": {"providerSpec": {"value": {"instanceType": "m6i.2xlarge"}}}}),
            json!({"spec": {"providerSpec": {"value": {"nested": {"a": {"b": 1}}}}}}),
            json!({"spec": {"lifecycleHooks": {"preDrain": [{"name": "EtcdQuorumOperator", "owner": "etcd"}]}}}),
            json!({"spec": {"lifecycleHooks": {"preDrain": [{"name": "Dup", "owner": "x"}, {"name": "Dup", "owner": "y"}]}}}),
            json!({"spec": {"lifecycleHooks": {"preDrain": []}}}),
            json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
            json!({"spec": {"taints": "none"}}),
            json!({"spec": {"providerID": "aws:///1"}}),
            json!({"spec": {"authoritativeAPI": "Nobody"}}),
            json!({"spec": {"nonsense": true}}),
            json!({"status": {"phase": "Running"}}),
        ],
        Kind::Set => vec![
            json!({"spec": {"replicas": 5}}),
            json!({"spec": {"replicas": 4}}),
            json!({"spec": {"replicas": "three"}}),
            json!({"spec": {"state": "Inactive"}}),
            json!({"spec": {"state": "Unheard"}}),
            json!({"spec": {"strategy": {"type": "OnDelete"}}}),
            json!({"spec": {"strategy": {"type": "Sideways"}}}),
            json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
            json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"spec": {"providerSpec": {"value": {"instanceType": "m7i.xlarge"}}}}}}}),
            json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"failureDomains": {"aws": [
                {"placement": {"availabilityZone": "us-east-1a"}}, {"placement": {"availabilityZone": "us-east-1b"}}]}}}}}),
            json!({"spec": {"nonsense": true}}),
            json!({"spec": {"machineNamePrefix": "control"}}),
            json!({"status": {"replicas": 3}}),
        ],
        Kind::ConfigMap => vec![
            json!({"data": {"key": "other"}}),
            json!({"data": {"second": "2"}}),
            json!({"data": {"key": 5}}),
            json!({"nonsense": 1}),
        ],
        Kind::Lease => vec![
            json!({"spec": {"holderIdentity": "you", "leaseTransitions": 1}}),
            json!({"spec": {"renewTime": "2026-01-01T00:00:00.000001Z"}}),
            json!({"spec": {"leaseDurationSeconds": 0}}),
            json!({"spec": {"nonsense": 1}}),
        ],
        Kind::Node => vec![
            json!({"spec": {"unschedulable": true}}),
            json!({"metadata": {"labels": {"node-role.kubernetes.io/master": ""}}}),
            json!({"status": {"capacity": {"cpu": "4"}}}),
        ],
    };
    let own_removing: Vec<Value> = match kind {
        Kind::Machine => vec![
            json!({"spec": {"taints": null}}),
            json!({"spec": {"lifecycleHooks": null}}),
            json!({"spec": {"providerSpec": {"value": {"zones": null}}}}),
        ],
        Kind::Set => vec![
            json!({"spec": {"strategy": null}}),
            json!({"spec": {"selector": null}}),
            json!({"spec": {"replicas": null}}),
        ],
        Kind::ConfigMap => vec![json!({"data": null}), json!({"data": {"key": null}})],
        Kind::Lease => vec![json!({"spec": {"holderIdentity": null}})],
        Kind::Node => vec![json!({"spec": {"unschedulable": null}})],
    };
    let mut all: Vec<Value> = Vec::new();
    all.extend(own.iter().cloned());
    all.extend(own.iter().cloned());
    all.extend(meta.iter().cloned());
    if patch {
        all.extend(removing.iter().cloned());
        all.extend(own_removing);
    }
    pick(random, &all)
}

fn status(random: &mut Random, kind: Kind) -> Value {
    let condition = |status: &str| json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": ""});
    let all: Vec<Value> = match kind {
        Kind::Machine => vec![
            json!({"status": {"phase": "Running"}}),
            json!({"status": {"phase": "Provisioned", "nodeRef": {"kind": "Node", "name": "n"}}}),
            json!({"status": {"phase": 5}}),
            json!({"status": {"phase": "Running"}, "metadata": {"labels": {"sneaked": "in"}}, "spec": {"providerID": "sneaked"}}),
            json!({"status": {"conditions": [condition("True")]}}),
            json!({"status": {"conditions": [condition("Perhaps")]}}),
            json!({"status": null}),
        ],
        Kind::Set => vec![
            json!({"status": {"replicas": 3, "readyReplicas": 3, "observedGeneration": 1}}),
            json!({"status": {"replicas": -1}}),
            json!({"status": {"conditions": [condition("True")]}}),
            json!({"status": {"conditions": [condition("Perhaps")]}}),
            json!({"status": {"selector": "a=b"}}),
            json!({"status": {"replicas": 2}, "spec": {"replicas": 5}}),
            json!({"status": {"nonsense": 1}}),
        ],
        _ => vec![
            json!({"status": {"conditions": [condition("True")]}}),
            json!({"status": {"conditions": [condition("False")]}}),
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}),
            json!({"status": {"capacity": {"cpu": "2"}}, "spec": {"unschedulable": true}}),
        ],
    };
    pick(random, &all)
}

/// The configuration that a manager applies: some fields of an object.
fn applied(random: &mut Random, kind: Kind) -> Value {
    let (api_version, kind_name) = type_of(kind);
    let mut object = json!({"apiVersion": api_version, "kind": kind_name, "metadata": {}});
    if kind == Kind::Set || random.permille(400) {
        json_patch::merge(&mut object, &base(kind));
    }
    for _ in 0..random.below(3) {
        let part: Vec<Value> = match kind {
            Kind::Machine => vec![
                json!({"spec": {"lifecycleHooks": {"preDrain": [{"name": "One", "owner": "x"}]}}}),
                json!({"spec": {"lifecycleHooks": {"preDrain": [{"name": "Two", "owner": "y"}, {"name": "One", "owner": "z"}]}}}),
                json!({"spec": {"providerSpec": {"value": {"instanceType": "m5.large"}}}}),
                json!({"spec": {"providerSpec": {"value": {"zones": ["c"]}}}}),
                json!({"spec": {"nonsense": 1}}),
                json!({"status": {"phase": "Running"}}),
                json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
            ],
            Kind::Set => vec![
                json!({"spec": {"strategy": {"type": "OnDelete"}}}),
                json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"spec": {"providerSpec": {"value": {"instanceType": "m5.large"}}}}}}}),
                json!({"status": {"replicas": 3}}),
                json!({"spec": {"replicas": 5}}),
            ],
            Kind::ConfigMap => vec![
                json!({"data": {"key": "applied"}}),
                json!({"data": {"third": "3"}}),
                json!({"data": {}}),
            ],
            Kind::Lease => vec![
                json!({"spec": {"holderIdentity": "applied"}}),
                json!({"spec": {"leaseTransitions": 2}}),
            ],
            Kind::Node => vec![
                json!({"spec": {"unschedulable": true}}),
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
                json!({"status": {"conditions": [{"type": "Other", "status": "True"}]}}),
            ],
        };
        json_patch::merge(&mut object, &pick(random, &part));
    }
    let meta = [
        json!({}),
        json!({}),
        json!({"metadata": {"labels": {"a": "1"}}}),
        json!({"metadata": {"labels": {"d": "1"}}}),
        json!({"metadata": {"annotations": {"x": "1"}}}),
        json!({"metadata": {"finalizers": ["example.com/applied"]}}),
    ];
    json_patch::merge(&mut object, &pick(random, &meta));
    object
}

/// A valid set.
pub(crate) fn whole_set() -> Value {
    let mut object = base(Kind::Set);
    let (api_version, kind) = type_of(Kind::Set);
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": "cluster", "labels": {"a": "1"}});
    object
}
