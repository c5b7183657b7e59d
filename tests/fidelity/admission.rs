//! Compares the admission of the simulation with that of a real API server that calls Capstan's
//! webhooks: the order of mutation, validation, and the check of versions, the match conditions,
//! and the failure policy. Two mutating policies of another component come before the webhooks, and
//! undo what the webhooks add to marked sets. One of the policies is called again after the
//! webhooks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use capstan_core::admission::{Admission, Options as AdmissionOptions, Phase};
use capstan_core::model::Edit;
use capstan_core::schema::crd;
use capstan_sandbox::api::admission::Capstan;
use capstan_sandbox::api::chain::{Chain, Component};
use capstan_sandbox::api::registration::{Judged, Registration};
use capstan_sandbox::api::service::Server as Simulated;
use capstan_sandbox::api::{Admit, Api, Failure, Kind, Options, Part};
use capstan_sandbox::control_plane::{ControlPlane, Options as PlaneOptions, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE, SERVICE_ACCOUNT, Server, manifests};
use capstan_sandbox::random::Random;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::compare::{Difference, differences};
use crate::fixtures::{self, TEMPLATE_POINTER};
use crate::generate::{Body, Call};
use crate::known;
use crate::side::Side;

const SEQUENCES: u64 = 40;
const LENGTH: usize = 30;
/// Sequences while the webhooks cannot be reached.
const OUTAGES: u64 = 8;
const CONTROLLER: &str = "system:serviceaccount:openshift-machine-api:capstan-controllers";
const FINALIZER: &str = "controlplanemachineset.machine.openshift.io";
/// A policy of another component: the annotation with which it counts its calls and that marks the
/// sets that it changes, and its reinvocation policy.
const POLICIES: [(&str, bool); 2] = [("policy-again", true), ("policy-once", false)];
/// What the policies remove, and the webhooks add.
const CREDENTIALS: &str =
    "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value/credentialsSecret";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

fn sets(namespace: &str) -> String {
    format!("/apis/machine.openshift.io/v1/namespaces/{namespace}/controlplanemachinesets")
}

fn call(method: &'static str, path: String, query: &str, content_type: &'static str, body: Body) -> Call {
    Call {
        method,
        path,
        query: query.to_owned(),
        content_type,
        body,
    }
}

fn post(path: &str, object: Value) -> Call {
    call("POST", path.to_owned(), "", JSON, Body::Json(object))
}

/// A set to create, and its namespace.
fn created(random: &mut Random) -> (Value, &'static str) {
    let mut set = fixtures::set();
    let of = |value: Option<&Value>| value.cloned().unwrap_or_default();
    set["spec"]["replicas"] = of(random.pick(&[json!(3), json!(3), json!(3), json!(4), json!(5)]));
    let states = [
        json!("Active"),
        json!("Active"),
        json!("Inactive"),
        Value::Null,
        json!("Off"),
    ];
    set["spec"]["state"] = of(random.pick(&states));
    if random.permille(200) {
        set["spec"].as_object_mut().unwrap().remove("strategy");
    }
    if random.permille(100) {
        set["metadata"]["name"] = json!("other");
    }
    if random.permille(100) {
        set["metadata"]["finalizers"] = json!([FINALIZER]);
    }
    if random.permille(150) {
        *set.pointer_mut(TEMPLATE_POINTER).unwrap() = json!({"spec": {}});
    }
    for (mark, _) in POLICIES {
        if random.permille(300) {
            set["metadata"]["annotations"][mark] = json!("0");
        }
    }
    let namespace = if random.permille(60) { "default" } else { NAMESPACE };
    set["metadata"]["namespace"] = json!(namespace);
    (set, namespace)
}

/// A change of the set `cluster`, as a merge patch.
fn changed(random: &mut Random, path: &str) -> Value {
    let template = |patch: Value| json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": patch}}});
    let type_ = |name: &str| template(json!({"spec": {"providerSpec": {"value": {"instanceType": name}}}}));
    let mut patch = match random.below(19) {
        0 => json!({"spec": {"replicas": 5}}),
        1 => json!({"spec": {"state": "Inactive"}}),
        2 => json!({"spec": {"state": "Active"}}),
        3 => json!({"spec": {"strategy": {"type": "OnDelete"}}}),
        4 => json!({"spec": {"strategy": null}}),
        5 => json!({"spec": {"strategy": {"type": "Recreate"}}}),
        6 => type_("m6i.2xlarge"),
        7 => type_(""),
        8 => template(json!({"metadata": {"labels": {"machine.openshift.io/cluster-api-machine-role": null}}})),
        9 => template(json!({"failureDomains": {"platform": "Azure"}})),
        10 => json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
        11 => json!({"metadata": {"finalizers": [FINALIZER]}}),
        12 => json!({"metadata": {"finalizers": null}}),
        13 => json!({"metadata": {"annotations": {"a": "1"}, "labels": {"b": null}}}),
        14 => json!({"spec": {"unknown": true}}),
        15 => json!({"metadata": {"annotations": {POLICIES[0].0: "0"}}}),
        16 => json!({"metadata": {"annotations": {POLICIES[1].0: "0"}}}),
        17 => json!({"metadata": {"annotations": null}}),
        _ => json!({"metadata": {"annotations": {"capstan.dev/paused": "maybe"}}}),
    };
    let version = match random.below(8) {
        0 => json!(format!("@stale {path}")),
        1 => json!(format!("@version {path}")),
        _ => return patch,
    };
    json_patch::merge(&mut patch, &json!({"metadata": {"resourceVersion": version}}));
    patch
}

fn next(random: &mut Random) -> Call {
    let path = format!("{}/cluster", sets(NAMESPACE));
    let query = if random.permille(100) {
        "fieldManager=one&dryRun=All"
    } else {
        "fieldManager=one"
    };
    match random.below(100) {
        0..25 => {
            let (set, namespace) = created(random);
            call("POST", sets(namespace), query, JSON, Body::Json(set))
        }
        25..55 => call("PATCH", path.clone(), query, MERGE, Body::Json(changed(random, &path))),
        55..70 => {
            let patch = changed(random, &path);
            call("PUT", path.clone(), query, JSON, Body::Seen(path, patch))
        }
        70..78 => {
            let replicas = random.pick(&[3, 4, 5, -1]).copied().unwrap();
            let body = json!({"spec": {"replicas": replicas}});
            call("PATCH", format!("{path}/scale"), query, MERGE, Body::Json(body))
        }
        78..84 => {
            let body = json!({"status": {"observedGeneration": random.below(9)}});
            call("PATCH", format!("{path}/status"), query, MERGE, Body::Json(body))
        }
        84..90 => {
            let set = json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
                "metadata": {"name": "cluster"}, "spec": {"strategy": {"type": "RollingUpdate"}}});
            let query = "fieldManager=two&force=true";
            call("PATCH", path, query, "application/apply-patch+yaml", Body::Json(set))
        }
        _ => {
            let mut options = json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"});
            match random.below(6) {
                0 => options["propagationPolicy"] = json!("Foreground"),
                1 => options["propagationPolicy"] = json!("Background"),
                2 => options["preconditions"] = json!({"uid": "another"}),
                3 => options["dryRun"] = json!(["All"]),
                _ => options["propagationPolicy"] = json!("Orphan"),
            }
            call("DELETE", path, "", JSON, Body::Json(options))
        }
    }
}

/// A policy in the simulation.
struct Policy(&'static str);

impl Admit for Policy {
    fn asks(&self, kind: &Kind, part: Part) -> bool {
        &*kind.kind == "ControlPlaneMachineSet" && part == Part::Main
    }

    fn judge(
        &self,
        _: &Api,
        _: &Kind,
        phase: Phase,
        edit: &Edit<'_>,
        _: &mut Vec<String>,
    ) -> Result<Option<Value>, Failure> {
        let count = |set: &Value| set["metadata"]["annotations"][self.0].as_str()?.parse::<i64>().ok();
        let (Phase::Mutate, Some((set, count))) = (phase, edit.object.and_then(|set| Some((set, count(set)?)))) else {
            return Ok(None);
        };
        let mut set = set.clone();
        set["metadata"]["annotations"][self.0] = json!((count + 1).to_string());
        let (parent, field) = CREDENTIALS.rsplit_once('/').unwrap();
        if let Some(parent) = set.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(field);
        }
        Ok(Some(set))
    }
}

/// The same policy for a real API server.
fn policy(mark: &str, is_reinvoked: bool) -> [Value; 2] {
    let annotations = "object.metadata.?annotations";
    let optional = CREDENTIALS.replace('/', ".?").replacen(".?", "object.?", 1);
    let expression = format!(
        "[JSONPatch{{op: \"replace\", path: \"/metadata/annotations/{mark}\", value: \
         string(int(object.metadata.annotations[\"{mark}\"]) + 1)}}] + \
         ({optional}.hasValue() ? [JSONPatch{{op: \"remove\", path: \"{CREDENTIALS}\"}}] : [])"
    );
    let spec = json!({
        "matchConstraints": {"resourceRules": [{"apiGroups": ["machine.openshift.io"], "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"], "resources": ["controlplanemachinesets"]}]},
        "matchConditions": [{"name": "marked", "expression": format!("{annotations}[?\"{mark}\"].hasValue()")}],
        "failurePolicy": "Fail",
        "reinvocationPolicy": if is_reinvoked { "IfNeeded" } else { "Never" },
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    });
    let of = |kind: &str, spec: Value| {
        let api = "admissionregistration.k8s.io/v1";
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": mark}, "spec": spec})
    };
    [
        of("MutatingAdmissionPolicy", spec),
        of("MutatingAdmissionPolicyBinding", json!({"policyName": mark})),
    ]
}

/// Installs the policies, and waits until the API server calls them.
async fn install_policies(client: &kube::Client, cluster: &Cluster) {
    let policies = POLICIES.map(|(mark, is_reinvoked)| policy(mark, is_reinvoked));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": policies.concat()});
    cluster.apply(&list.to_string()).await.unwrap();
    let mut side = Side::new(client);
    let mut set = fixtures::set();
    set["metadata"]["annotations"] = json!(
        POLICIES
            .map(|(mark, _)| (mark, "0"))
            .into_iter()
            .collect::<BTreeMap<_, _>>()
    );
    let dry = call("POST", sets(NAMESPACE), "dryRun=All", JSON, Body::Json(set));
    let deadline = std::time::Duration::from_secs(60);
    wait_until("the policies", deadline, async || {
        let answer = side.send(&dry).await;
        let counts = &answer.body["metadata"]["annotations"];
        Ok(POLICIES.iter().all(|(mark, _)| counts[mark] != "0").then_some(()))
    })
    .await
    .unwrap();
}

/// The two servers, each with a client of the administrator and one of the controller.
struct Pair {
    real: [kube::Client; 2],
    simulated: [kube::Client; 2],
    sides: (Side, Side),
    /// How often both servers answered a method with a code.
    answers: BTreeMap<(&'static str, u16), usize>,
}

impl Pair {
    async fn send(&mut self, user: usize, call: &Call, seed: u64, step: usize) -> Vec<Difference> {
        let (left, right) = &mut self.sides;
        left.act_as(&self.real[user]);
        right.act_as(&self.simulated[user]);
        let (real, simulated) = (left.send(call).await, right.send(call).await);
        *self.answers.entry((call.method, real.code)).or_default() += 1;
        differences(seed, step, call, &real, &simulated)
    }

    /// Sends a sequence, up to the first difference. Returns the unknown differences, and whether
    /// the two servers are in the same state at the end.
    async fn sequence(&mut self, seed: u64) -> (Vec<Difference>, bool) {
        let mut random = Random::new(seed);
        for step in 0..LENGTH {
            let (user, call) = (usize::from(random.permille(250)), next(&mut random));
            let mut found = self.send(user, &call, seed, step).await;
            if !found.is_empty() {
                found.retain(|difference| known::explain(difference).is_none());
                return (found, false);
            }
        }
        (Vec::new(), true)
    }

    /// Removes the set from both servers.
    async fn reset(&mut self) {
        let path = format!("{}/cluster", sets(NAMESPACE));
        let options = json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"});
        let free = json!({"metadata": {"finalizers": null}});
        for call in [
            call("DELETE", path.clone(), "", JSON, Body::Json(options)),
            call("PATCH", path, "", MERGE, Body::Json(free)),
        ] {
            self.send(0, &call, 0, 0).await;
        }
    }
}

#[tokio::test]
async fn the_admission_of_the_simulation_answers_like_a_real_api_server_with_the_webhooks() {
    let capstan = std::path::Path::new(env!("CARGO_BIN_EXE_capstan"));
    let plane = ControlPlane::start(PlaneOptions {
        no_controllers: true,
        ..PlaneOptions::default()
    })
    .await
    .unwrap();
    let cluster = Cluster::of(&plane).unwrap();
    let mut crds = super::crds();
    crds.extend(crd::foreign_crds());
    let client = plane.client().await.unwrap();
    super::install(&client, &crds).await;
    let create = ["create", "namespace", NAMESPACE];
    cluster.run(&create, "").await.unwrap().checked().unwrap();
    cluster.apply(&manifests(capstan, "rbac").await.unwrap()).await.unwrap();
    let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
    let kubeconfig = plane.kubeconfig_for(SERVICE_ACCOUNT, &groups).unwrap();
    let account = plane.kubeconfig_of_service_account(NAMESPACE, "capstan-controllers");
    let controller = plane.client_of_kubeconfig(&account.await.unwrap()).await.unwrap();
    plane.grant(CONTROLLER, "cluster-admin").await.unwrap();

    let is_down = Arc::new(AtomicBool::new(false));
    let mut kinds = Kind::built_ins().unwrap();
    kinds.extend(crds.iter().map(|definition| Kind::of_definition(definition).unwrap()));
    let admission = Admission::new(AdmissionOptions::default()).unwrap();
    let registration = Registration::new(Judged::Sets, Capstan::new(admission), Arc::clone(&is_down), |name| {
        name == CONTROLLER
    });
    let policies = POLICIES.map(|(mark, is_reinvoked)| Component::new(Arc::new(Policy(mark)), is_reinvoked));
    let webhooks = vec![Component::new(Arc::new(registration), true)];
    let chain = Chain::new(vec![Vec::from(policies), webhooks]);
    let api = Api::new(Arc::new(kinds), Options::default()).with_admission(Arc::new(chain));
    let server = Simulated::new(api, Timestamp::now);
    let mut pair = Pair {
        real: [client.clone(), controller],
        simulated: [
            server.client("admin", &["system:masters"]),
            server.client(CONTROLLER, &groups),
        ],
        sides: (
            Side::new(&client),
            Side::new(&server.client("admin", &["system:masters"])),
        ),
        answers: BTreeMap::new(),
    };
    let infrastructure = "/apis/config.openshift.io/v1/infrastructures";
    let machines = format!("/apis/machine.openshift.io/v1beta1/namespaces/{NAMESPACE}/machines");
    let mut objects: Vec<(String, Value)> = serde_saphyr::from_multiple(&fixtures::surroundings())
        .unwrap()
        .into_iter()
        .map(|object: Value| match object["kind"].as_str() {
            Some("Node") => ("/api/v1/nodes".to_owned(), object),
            _ => (infrastructure.to_owned(), object),
        })
        .collect();
    objects.extend(
        fixtures::machines(3)
            .into_iter()
            .map(|machine| (machines.clone(), machine)),
    );
    for name in [NAMESPACE, "default"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        pair.sides.1.send(&post("/api/v1/namespaces", namespace)).await;
    }
    for (path, object) in objects {
        let found = pair.send(0, &post(&path, object), 0, 0).await;
        assert!(found.is_empty(), "{found:?}");
    }

    let folder = plane.folder().join("capstan");
    std::fs::create_dir(&folder).unwrap();
    let flags = [format!("--kubeconfig={}", kubeconfig.display())];
    let webhooks = Server::start(capstan, &flags, "127.0.0.1", &folder).await.unwrap();
    webhooks.register(&cluster).await.unwrap();
    install_policies(&client, &cluster).await;

    let mut found = Vec::new();
    for seed in 0..SEQUENCES {
        found.extend(pair.sequence(seed).await.0);
        pair.reset().await;
    }
    // A set for the outage.
    found.extend(pair.send(0, &post(&sets(NAMESPACE), fixtures::set()), 0, 0).await);
    drop(webhooks);
    is_down.store(true, Ordering::Relaxed);
    for seed in SEQUENCES..SEQUENCES + OUTAGES {
        let (new, is_same) = pair.sequence(seed).await;
        found.extend(new);
        // The set cannot be created again without the webhooks.
        if !is_same {
            break;
        }
    }
    println!("{:?}", pair.answers);
    for (method, codes) in [
        ("POST", &[201, 409, 422, 500][..]),
        ("PATCH", &[200, 404, 409, 422, 500]),
        ("PUT", &[200, 409, 422, 500]),
        ("DELETE", &[200, 403, 409, 500]),
    ] {
        for code in codes {
            assert!(pair.answers.contains_key(&(method, *code)), "no {method} with {code}");
        }
    }
    let shown: Vec<String> = found.iter().take(25).map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), shown.join("\n"));
}
