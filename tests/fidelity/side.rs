//! One of the two servers: sends requests and records the answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{AsyncBufReadExt as _, StreamExt as _};
use serde_json::{Value, json};

use crate::generate::{Body, Call};

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

/// A server, and what its answers have shown.
pub(crate) struct Side {
    client: kube::Client,
    /// By path: the last seen state of the object, and all versions that it had.
    seen: BTreeMap<String, (Value, Vec<String>)>,
    continue_: String,
}

impl Side {
    pub(crate) fn new(client: &kube::Client) -> Self {
        Self {
            client: client.clone(),
            seen: BTreeMap::new(),
            continue_: String::new(),
        }
    }

    /// Sends the next requests as another user.
    pub(crate) fn act_as(&mut self, client: &kube::Client) {
        self.client = client.clone();
    }

    fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|value| self.fill(value)),
            Value::Array(list) => list.iter_mut().for_each(|value| self.fill(value)),
            Value::String(text) if text.starts_with('@') => {
                let (what, path) = text.split_once(' ').unwrap();
                let (object, versions) = self.seen.get(path).cloned().unwrap_or_default();
                let text = |pointer: &str, otherwise: &str| {
                    object
                        .pointer(pointer)
                        .and_then(Value::as_str)
                        .unwrap_or(otherwise)
                        .to_owned()
                };
                *value = match what {
                    "@version" => text("/metadata/resourceVersion", "1").into(),
                    "@uid" => text("/metadata/uid", "none").into(),
                    _ => versions.first().cloned().unwrap_or_else(|| "1".to_owned()).into(),
                };
            }
            _ => {}
        }
    }

    pub(crate) async fn send(&mut self, call: &Call) -> Answer {
        let body = match &call.body {
            Body::None => Vec::new(),
            Body::Json(value) => {
                let mut value = value.clone();
                self.fill(&mut value);
                value.to_string().into_bytes()
            }
            Body::Seen(path, patch) => {
                let mut object = self
                    .seen
                    .get(path)
                    .map_or_else(|| json!({"metadata": {}}), |(object, _)| object.clone());
                let mut patch = patch.clone();
                self.fill(&mut patch);
                json_patch::merge(&mut object, &patch);
                object.to_string().into_bytes()
            }
        };
        let query = call.query.replace("@continue", &self.continue_);
        let uri = if query.is_empty() {
            call.path.clone()
        } else {
            format!("{}?{query}", call.path)
        };
        let request = http::Request::builder()
            .method(call.method)
            .uri(uri)
            .header("content-type", call.content_type)
            .header("accept", "application/json")
            .body(kube::client::Body::from(body))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap()
            .to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        self.record(call, code, &body);
        Answer {
            code,
            body: self.named(&body),
        }
    }

    fn record(&mut self, call: &Call, code: u16, body: &Value) {
        let list = body["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        if list {
            self.continue_ = body["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        }
        let dry =
            call.query.contains("dryRun") || matches!(&call.body, Body::Json(body) if body.get("dryRun").is_some());
        if code >= 300 || dry || list || body["kind"] == "Status" || body["kind"] == "Scale" {
            return;
        }
        let mut path = call.path.trim_end_matches("/status").to_owned();
        if call.method == "POST" {
            path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
        }
        let entry = self.seen.entry(path).or_default();
        let version = body["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if entry.0["metadata"]["uid"] != body["metadata"]["uid"] {
            entry.1.clear();
        }
        if !entry.1.contains(&version) {
            entry.1.push(version);
        }
        entry.0 = body.clone();
    }

    /// Replaces versions and uids by names that are the same on both sides, such as `version 2` of
    /// an object.
    fn named(&self, body: &Value) -> Value {
        let mut body = body.clone();
        let known = self.seen.values();
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for (object, versions) in known {
            for (at, version) in versions.iter().enumerate() {
                names.insert(version.clone(), format!("version {at}"));
            }
            if let Some(uid) = object["metadata"]["uid"].as_str() {
                names.insert(uid.to_owned(), "uid".to_owned());
            }
        }
        rename(&mut body, &names);
        body
    }
}

fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (field, value) in map {
                match value {
                    Value::String(text) if field == "resourceVersion" || field == "uid" => {
                        if let Some(name) = names.get(text) {
                            *text = name.clone();
                        }
                    }
                    value => rename(value, names),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rename(value, names)),
        _ => {}
    }
}

/// The events of all watches of a server.
pub(crate) struct Watches {
    events: Arc<Mutex<Vec<Value>>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

const WATCHED: [(&str, &str, &str); 5] = [
    ("/apis/machine.openshift.io/v1beta1", "machines", "Machine"),
    (
        "/apis/machine.openshift.io/v1",
        "controlplanemachinesets",
        "ControlPlaneMachineSet",
    ),
    ("/api/v1", "configmaps", "ConfigMap"),
    ("/apis/coordination.k8s.io/v1", "leases", "Lease"),
    ("/api/v1", "nodes", "Node"),
];

/// The first list of a kind. The API server answers with 429 while it initialises the storage of a
/// new CRD.
async fn first_list(client: &kube::Client, uri: &str) -> Value {
    for _ in 0..200 {
        let request = http::Request::get(uri).body(Vec::new()).unwrap();
        match client.request(request).await {
            Ok(list) => return list,
            Err(kube::Error::Api(status)) if status.code == 429 => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{uri}: {error}"),
        }
    }
    panic!("{uri} must be served");
}

async fn first_watch(client: &kube::Client, uri: &str) -> impl futures::AsyncBufRead + use<> {
    for _ in 0..200 {
        let request = http::Request::get(uri).body(Vec::new()).unwrap();
        match client.request_stream(request).await {
            Ok(lines) => return lines,
            Err(kube::Error::Api(status)) if status.code == 429 => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{uri}: {error}"),
        }
    }
    panic!("it must be possible to watch {uri}");
}

impl Watches {
    pub(crate) async fn start(client: &kube::Client) -> Self {
        let events = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (base, plural, _) in WATCHED {
            let list = first_list(client, &format!("{base}/{plural}?limit=1")).await;
            let version = list["metadata"]["resourceVersion"].as_str().unwrap();
            // A second watch has a selector, which objects start and stop to match.
            for selector in ["", "&labelSelector=a%3D1"] {
                let uri = format!("{base}/{plural}?watch=true&resourceVersion={version}{selector}");
                let lines = first_watch(client, &uri).await;
                let events = Arc::clone(&events);
                let selected = !selector.is_empty();
                tasks.push(tokio::spawn(async move {
                    let mut lines = Box::pin(lines.lines());
                    while let Some(Ok(line)) = lines.next().await {
                        let mut event: Value = serde_json::from_str(&line).unwrap();
                        event["selected"] = selected.into();
                        events.lock().unwrap().push(event);
                    }
                }));
            }
        }
        Self { events, tasks }
    }

    /// Creates a last object of each kind, waits until the watches show it, and returns the events
    /// before it.
    pub(crate) async fn finish(self, client: &kube::Client) -> Vec<Value> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fidelity-end"}});
        let post = |uri: String, body: Value| {
            http::Request::post(uri)
                .header("content-type", "application/json")
                .body(body.to_string().into_bytes())
                .unwrap()
        };
        let _: Value = client
            .request(post("/api/v1/namespaces".into(), namespace))
            .await
            .unwrap();
        for (base, plural, kind) in WATCHED {
            let uri = if plural == "nodes" {
                format!("{base}/{plural}")
            } else {
                format!("{base}/namespaces/fidelity-end/{plural}")
            };
            let mut object = json!({"apiVersion": base.trim_start_matches("/apis/").trim_start_matches("/api/"), "kind": kind,
                "metadata": {"name": "end", "labels": {"a": "1"}}});
            if kind == "ControlPlaneMachineSet" {
                object = crate::generate::whole_set();
            }
            let _: Value = client.request(post(uri, object)).await.unwrap();
        }
        let is_end = |event: &Value| {
            let meta = &event["object"]["metadata"];
            meta["name"] == "end" || meta["namespace"] == "fidelity-end"
        };
        for _ in 0..600 {
            let ends = self.events.lock().unwrap().iter().filter(|event| is_end(event)).count();
            if ends >= 2 * WATCHED.len() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        assert!(
            events.iter().filter(|event| is_end(event)).count() >= 2 * WATCHED.len(),
            "the watches must show the last objects"
        );
        events.into_iter().filter(|event| !is_end(event)).collect()
    }
}
