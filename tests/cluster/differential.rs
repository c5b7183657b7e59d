//! Differential test of the rules and the schema: the interpreter and the API server judge
//! thousands of generated creations and updates, and their verdicts must agree.
//!
//! The generator is seeded, so a difference is reproducible.

use std::collections::BTreeMap;
use std::io::Write as _;

use axum::http::Request;
use capstan_core::admission::rule_files;
use capstan_core::cel::rules::{Enforcer, RuleSet};
use capstan_core::model::{Edit, Operation, Stored, User};
use capstan_core::schema::{Definition, crd};
use capstan_sandbox::control_plane::{ControlPlane, Options, wait_until};
use capstan_sandbox::installation::{Cluster, policies_in_force};
use futures::StreamExt as _;
use kube::Client;
use serde_json::{Value, json};

use super::fixtures::{self, TEMPLATE_POINTER};
use super::world::{SOON, without_rules};

/// The number of creations and the number of updates, for the schema and for the policies each.
const CASES: usize = 1000;
/// The number of concurrent requests.
const CONCURRENCY: usize = 16;

/// The causes for which an API server refuses an object; empty if it accepts the object.
type Causes = Vec<(String, String, String)>;

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_and_the_interpreter_agree_on_thousands_of_objects() {
    let options = Options {
        no_controllers: true,
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await.unwrap();
    let cluster = Cluster::of(&plane).unwrap();
    let client = plane.client().await.unwrap();
    let strict = crd::crds(&rule_files().unwrap()).unwrap().remove(0);
    let mut open = strict.clone();
    without_rules(&mut open);
    cluster.apply(&open.to_string()).await.unwrap();

    // Objects that are stored before any rule is in force can violate all rules.
    let mut generator = Generator::new(1);
    let mut stored = Vec::new();
    while stored.len() < 40 {
        let object = generator.object();
        if let Some(object) = store(&plane, &client, stored.len(), object).await {
            stored.push(object);
        }
    }

    let policies = super::world::capstan_manifests("policies").await;
    cluster.apply(&policies).await.unwrap();
    policies_in_force(&cluster).await.unwrap();
    let compared_policies = compare_policies(&client, &open, &stored).await;

    cluster
        .run(&["delete", "validatingadmissionpolicybindings", "--all"], "")
        .await
        .unwrap()
        .checked()
        .unwrap();
    cluster.apply(&strict.to_string()).await.unwrap();
    schema_in_force(&cluster).await;
    let compared_schema = compare_schema(&client, &strict, &stored).await;
    report(&format!(
        "compared {compared_schema} objects with the schema and {compared_policies} with the policies: no difference"
    ));
}

/// Writes to standard error directly, because the test harness captures printed output.
fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "differential: {text}");
}

/// Waits until the schema refuses a name and the policies do not.
async fn schema_in_force(cluster: &Cluster) {
    let mut other = fixtures::set();
    other["metadata"]["name"] = json!("other");
    other["metadata"]["namespace"] = json!("default");
    wait_until("the rules of the schema to be in force alone", SOON, async || {
        let create = ["create", "--dry-run=server", "-f", "-"];
        let output = cluster.run(&create, &other.to_string()).await?;
        let by_schema = output.stderr.contains("control plane machine set name must be cluster");
        Ok((by_schema && !output.stderr.contains("ValidatingAdmissionPolicy")).then_some(()))
    })
    .await
    .unwrap();
}

/// Stores an object in a namespace of its own; `None` if its shape is refused.
async fn store(plane: &ControlPlane, client: &Client, number: usize, mut object: Value) -> Option<Value> {
    let namespace = format!("case-{number}");
    let create = ["create", "namespace", &namespace];
    // The namespace already exists if the object before was refused.
    plane.kubectl().args(create).run().await.unwrap();
    object["metadata"]["namespace"] = json!(namespace);
    send(client, "POST", &collection(&namespace), "", &object).await.ok()
}

fn collection(namespace: &str) -> String {
    format!("/apis/machine.openshift.io/v1/namespaces/{namespace}/controlplanemachinesets")
}

/// Sends an object. Returns the stored object, or all causes of the refusal.
async fn send(client: &Client, method: &str, path: &str, query: &str, object: &Value) -> Result<Value, Causes> {
    let request = Request::builder()
        .method(method)
        .uri(format!("{path}?fieldValidation=Ignore{query}"))
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(value) => Ok(value),
        Err(kube::Error::Api(status)) => {
            assert_eq!(
                (status.code, status.reason.as_str()),
                (422, "Invalid"),
                "{status:?} of {object}"
            );
            let causes = status.details.into_iter().flat_map(|details| details.causes);
            let mut causes: Causes = causes
                .map(|cause| (cause.field, cause.reason, cause.message))
                // The API server reports a number of the wrong type once by itself and once for
                // each rule on it. The engine reports it once.
                .filter(|(_, _, message)| !message.contains("invalid data, expected int, got float64 evaluating rule"))
                .collect();
            causes.sort();
            Err(causes)
        }
        Err(error) => panic!("{error}: {object}"),
    }
}

/// A creation, or an update of a stored object.
struct Case {
    object: Value,
    old: Option<Value>,
}

impl Case {
    async fn causes(&self, client: &Client) -> Causes {
        let dry = "&dryRun=All";
        let answer = match &self.old {
            None => send(client, "POST", &collection("default"), dry, &self.object).await,
            Some(old) => {
                let name = old["metadata"]["name"].as_str().unwrap();
                let path = collection(old["metadata"]["namespace"].as_str().unwrap());
                send(client, "PUT", &format!("{path}/{name}"), dry, &self.object).await
            }
        };
        answer.err().unwrap_or_default()
    }
}

/// The cases of a seed: as many creations as updates.
fn cases(seed: u64, stored: &[Value]) -> Vec<Case> {
    let mut generator = Generator::new(seed);
    let mut cases = Vec::new();
    for number in 0..CASES {
        let mut object = generator.object();
        object["metadata"]["namespace"] = json!("default");
        cases.push(Case { object, old: None });
        let old = &stored[number % stored.len()];
        let mut object = if generator.chance(3) {
            generator.object()
        } else {
            old.clone()
        };
        generator.change(&mut object);
        object["metadata"] = old["metadata"].clone();
        cases.push(Case {
            object,
            old: Some(old.clone()),
        });
    }
    cases
}

/// Compares all causes of refusals by the schema with the offline engine. Returns the number of
/// compared objects.
async fn compare_schema(client: &Client, strict: &Value, stored: &[Value]) -> usize {
    let rules = rule_files().unwrap();
    let definition = Definition::parse(strict, None, &rules[0]).unwrap();
    compare(client, cases(2, stored), |case, causes| {
        let outcome = definition.apply(&case.object, case.old.as_ref());
        let mut engine: Causes = outcome
            .violations
            .iter()
            .map(|violation| {
                let reason = violation.kind.reason().to_owned();
                (violation.path.to_string(), reason, violation.server_detail())
            })
            .collect();
        engine.sort();
        assert_eq!(
            &engine, causes,
            "left: engine, right: API server\nobject {}\nold {:?}",
            case.object, case.old
        );
        engine.first().map_or("allowed", |_| "refused").to_owned()
    })
    .await
}

/// Compares the first violated rule of the policies with the interpreter. Returns the number of
/// compared objects.
async fn compare_policies(client: &Client, open: &Value, stored: &[Value]) -> usize {
    let files = rule_files().unwrap();
    let order: Vec<String> = files
        .iter()
        .flat_map(|file| &file.rules)
        .map(|rule| rule.id.clone())
        .collect();
    let rules = RuleSet::compile(files).unwrap();
    let shape = Definition::parse(open, None, &Default::default()).unwrap();
    compare(client, cases(3, stored), |case, causes| {
        let outcome = shape.apply(&case.object, case.old.as_ref());
        if !outcome.violations.is_empty() {
            assert!(
                !causes.is_empty(),
                "only the interpreter refuses the shape of {}",
                case.object
            );
            return "shape".to_owned();
        }
        let user = User::default();
        let old = case.old.as_ref().map(|old| old as &dyn Stored);
        let edit = Edit {
            operation: if case.old.is_some() {
                Operation::Update
            } else {
                Operation::Create
            },
            subresource: "",
            namespace: "default",
            name: "cluster",
            object: Some(&outcome.object),
            old,
            propagation: None,
            user: &user,
            dry_run: true,
        };
        let kind = "ControlPlaneMachineSet.machine.openshift.io";
        let findings = rules.findings(kind, Enforcer::Policy, &outcome.object, old);
        let refusals = rules.refusals(kind, Enforcer::Policy, &edit, || None);
        let ids = findings
            .iter()
            .map(|finding| &finding.rule.id)
            .chain(refusals.iter().map(|(rule, _)| &rule.id));
        let first = ids.min_by_key(|id| order.iter().position(|known| known == *id));
        let named = causes.iter().find_map(|(_, _, message)| {
            let id = &message[message.rfind('[')? + 1..message.rfind(']')?];
            Some(id.to_owned())
        });
        assert_eq!(
            first,
            named.as_ref(),
            "left: interpreter, right: API server\nobject {}\nold {:?}\n{causes:?}",
            case.object,
            case.old
        );
        named.unwrap_or_else(|| "allowed".to_owned())
    })
    .await
}

/// Sends all cases to the API server, several at a time, and judges each answer.
async fn compare(client: &Client, cases: Vec<Case>, judge: impl Fn(&Case, &Causes) -> String) -> usize {
    let mut answers = futures::stream::iter(cases.into_iter().map(|case| {
        let client = client.clone();
        async move {
            let causes = case.causes(&client).await;
            (case, causes)
        }
    }))
    .buffered(CONCURRENCY);
    let mut compared = 0;
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    while let Some((case, causes)) = answers.next().await {
        *verdicts.entry(judge(&case, &causes)).or_default() += 1;
        compared += 1;
    }
    report(&format!("verdicts: {verdicts:?}"));
    // The comparison is useful only if the cases contain enough accepted and enough refused
    // objects.
    assert!(
        verdicts.get("allowed").is_some_and(|allowed| *allowed > compared / 20),
        "{verdicts:?}"
    );
    assert!(
        verdicts
            .get("allowed")
            .is_some_and(|allowed| *allowed < compared * 9 / 10),
        "{verdicts:?}"
    );
    compared
}

/// Generates sets that are valid or nearly valid, from a seed.
struct Generator(u64);

impl Generator {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).unwrap()
    }

    /// True with a probability of one in `of`.
    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn pick(&mut self, choices: &[Value]) -> Value {
        choices[self.below(choices.len())].clone()
    }

    /// A set with up to three changes.
    fn object(&mut self) -> Value {
        let mut object = fixtures::set();
        for _ in 0..self.below(4) {
            self.change(&mut object);
        }
        object
    }

    /// Changes one field that a rule reads.
    fn change(&mut self, object: &mut Value) {
        let template = TEMPLATE_POINTER;
        match self.below(14) {
            0 => {
                let name = self.pick(&[json!("other"), json!("cluster"), json!("cluster-2")]);
                object["metadata"]["name"] = name;
            }
            1 => {
                let value = self.pick(&[
                    json!(3),
                    json!(5),
                    json!(5),
                    json!(4),
                    json!(3.0),
                    json!("3"),
                    Value::Null,
                ]);
                set(object, "/spec", "replicas", value);
            }
            2 | 3 => {
                let value = self.pick(&[
                    json!("Active"),
                    json!("Active"),
                    json!("Inactive"),
                    json!(""),
                    json!("active"),
                    Value::Null,
                ]);
                set(object, "/spec", "state", value);
            }
            4 => {
                let value = self.text();
                set(object, "/spec", "machineNamePrefix", value);
            }
            5 => {
                let expression = json!([{"key": "a", "operator": "In", "values": ["b"]}]);
                let selector = self.pick(&[
                    json!({}),
                    json!({"matchLabels": {}}),
                    json!({"matchLabels": {"a": "b"}}),
                    json!({"matchLabels": {"a": "b", "c": "d"}}),
                    json!({"matchExpressions": expression}),
                    json!({"matchLabels": {"a": 1}}),
                    Value::Null,
                ]);
                set(object, "/spec", "selector", selector);
            }
            6 => {
                let value = self.pick(&[
                    json!("machines_v1beta1_machine_openshift_io"),
                    json!("other"),
                    Value::Null,
                ]);
                set(object, "/spec/template", "machineType", value);
            }
            7 => set(
                object,
                "/spec/template",
                "machines_v1beta1_machine_openshift_io",
                Value::Null,
            ),
            8 | 9 => {
                let key = ["cluster", "machine-role", "machine-type"][self.below(3)];
                let value = self.pick(&[json!("master"), json!("worker"), json!(""), Value::Null]);
                set(
                    object,
                    &format!("{template}/metadata/labels"),
                    &format!("machine.openshift.io/cluster-api-{key}"),
                    value,
                );
            }
            10 => {
                let value = self.pick(&[
                    json!({"type": "OnDelete"}),
                    json!({}),
                    json!({"type": "Recreate"}),
                    Value::Null,
                ]);
                set(object, "/spec", "strategy", value);
            }
            11 => {
                let domains = self.domains();
                set(object, template, "failureDomains", domains);
            }
            12 => {
                let platform = self.platform();
                set(object, &format!("{template}/failureDomains"), "platform", platform);
            }
            _ => {
                let member = ["aws", "azure", "gcp", "openstack", "vsphere", "nutanix"][self.below(6)];
                let items = self.items(member);
                set(object, &format!("{template}/failureDomains"), member, items);
            }
        }
    }

    fn platform(&mut self) -> Value {
        let names = [
            "AWS",
            "Azure",
            "GCP",
            "OpenStack",
            "VSphere",
            "Nutanix",
            "",
            "None",
            "BareMetal",
            "aws",
        ];
        json!(names[self.below(names.len())])
    }

    /// Failure domains of one platform, sometimes with a missing or a surplus field.
    fn domains(&mut self) -> Value {
        if self.chance(6) {
            return Value::Null;
        }
        let members = [
            ("AWS", "aws"),
            ("Azure", "azure"),
            ("GCP", "gcp"),
            ("OpenStack", "openstack"),
            ("VSphere", "vsphere"),
            ("Nutanix", "nutanix"),
        ];
        let (platform, member) = members[self.below(members.len())];
        let mut domains = json!({"platform": platform});
        if !self.chance(6) {
            domains[member] = self.items(member);
        }
        domains
    }

    fn items(&mut self, member: &str) -> Value {
        let count = self.below(4);
        let items: Vec<Value> = (0..count).map(|_| self.item(member)).collect();
        Value::from(items)
    }

    fn item(&mut self, member: &str) -> Value {
        match member {
            "aws" => {
                let mut subnet = json!({});
                for (field, value) in [
                    ("id", json!("subnet-1")),
                    ("arn", json!("arn:1")),
                    ("filters", json!([{"name": "n", "values": ["v"]}])),
                ] {
                    if self.chance(3) {
                        subnet[field] = value;
                    }
                }
                let kind = self.pick(&[json!("ID"), json!("ARN"), json!("Filters"), json!("Name"), Value::Null]);
                set(&mut subnet, "", "type", kind);
                let zone = json!({"availabilityZone": "us-east-1a"});
                self.pick(&[
                    json!({"placement": zone}),
                    json!({"placement": zone, "subnet": subnet}),
                    json!({"subnet": subnet}),
                    json!({}),
                    json!({"placement": {}}),
                ])
            }
            "azure" => {
                let subnet = self.text();
                self.pick(&[
                    json!({"zone": "1"}),
                    json!({"zone": ""}),
                    json!({"zone": "1", "subnet": subnet}),
                    json!({}),
                ])
            }
            "gcp" => self.pick(&[json!({"zone": "us-central1-a"}), json!({"zone": ""}), json!({})]),
            "openstack" => {
                let zone = self.text();
                self.pick(&[
                    json!({"availabilityZone": "nova"}),
                    json!({"availabilityZone": zone}),
                    json!({"availabilityZone": "nova", "rootVolume": {"volumeType": "ssd"}}),
                    json!({"availabilityZone": "nova", "rootVolume": {"availabilityZone": "cinder", "volumeType": "ssd"}}),
                    json!({"rootVolume": {"volumeType": "ssd"}}),
                    json!({"rootVolume": {"availabilityZone": "cinder"}}),
                    json!({}),
                ])
            }
            _ => {
                let name = self.text();
                self.pick(&[
                    json!({"name": "fd-1"}),
                    json!({"name": "fd-2"}),
                    json!({"name": name}),
                    json!({}),
                ])
            }
        }
    }

    /// A name, or an invalid text.
    fn text(&mut self) -> Value {
        if self.chance(3) {
            let letters: Vec<char> = "ab0-._A ü\n:/é9z".chars().collect();
            let length = self.below(9);
            return Value::from(
                (0..length)
                    .map(|_| letters[self.below(letters.len())])
                    .collect::<String>(),
            );
        }
        let long = |length: usize| Value::from("a".repeat(length));
        let dotted = vec!["a".repeat(60); 4].join(".");
        self.pick(&[
            json!("control-plane"),
            json!("a"),
            json!("a.b"),
            json!("a..b"),
            json!("-a"),
            json!("a-"),
            json!("A"),
            json!("a_b"),
            json!("a.-b"),
            json!("a\n"),
            json!("1"),
            json!(""),
            json!(dotted),
            long(63),
            long(64),
            long(245),
            long(246),
            Value::Null,
            json!(1),
        ])
    }
}

/// Sets a field of the object at `pointer`, or removes it if `value` is null. Does nothing if there
/// is no object at `pointer`.
fn set(object: &mut Value, pointer: &str, field: &str, value: Value) {
    let Some(map) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else {
        return;
    };
    if value.is_null() {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), value);
    }
}
