//! Requests and answers as they stand in HTTP.

use capstan_core::model::{Propagation, User};
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::Scope;
use super::reads::WatchStart;
use super::request::{DeleteOptions, ListOptions, Part, PatchKind, Request, Target, Verb, WriteOptions};
use super::selector::Selector;
use super::store::{Api, Reply};

/// What a request in HTTP asks for.
#[derive(Clone, Debug)]
pub enum Call {
    /// Something of the API.
    Request(Box<Request>),
    /// To be told of changes.
    Watch {
        /// Position of the kind.
        kind: usize,
        /// Namespace; empty for all.
        namespace: String,
        /// Which objects.
        selector: Selector,
        /// From where.
        start: WatchStart,
        /// Whether bookmarks are wanted.
        bookmarks: bool,
    },
    /// What is served: an answer that is ready.
    Discovery(Value),
}

/// The parts of an HTTP request.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `GET` and so on.
    pub method: &'a str,
    /// The path.
    pub path: &'a str,
    /// What comes after the question mark.
    pub query: &'a str,
    /// `Content-Type`.
    pub content_type: &'a str,
    /// `User-Agent`: names the field manager where nothing else does.
    pub user_agent: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// Reads a request.
///
/// # Errors
/// What the API server answers to what it does not understand.
pub fn read(api: &Api, parts: &Parts<'_>, user: &User) -> Result<Call, Failure> {
    let path: Vec<&str> = parts.path.split('/').filter(|part| !part.is_empty()).collect();
    let unknown = || Failure::new(404, "NotFound", "the server could not find the requested resource");
    let (group, version, rest) = match path.as_slice() {
        ["version"] => {
            return Ok(Call::Discovery(
                json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0"}),
            ));
        }
        ["api"] => return Ok(Call::Discovery(json!({"kind": "APIVersions", "versions": ["v1"]}))),
        ["apis"] => return Ok(Call::Discovery(groups(api))),
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Err(unknown()),
    };
    if rest.is_empty() {
        return resources(api, group, version).map(Call::Discovery).ok_or_else(unknown);
    }
    let (namespace, plural, rest) = match rest {
        ["namespaces", namespace, plural, rest @ ..] if !matches!(*plural, "status" | "finalize") => {
            (*namespace, *plural, rest)
        }
        [plural, rest @ ..] => ("", *plural, rest),
        [] => return Err(unknown()),
    };
    let (name, part) = match rest {
        [] => ("", Part::Main),
        [name] => (*name, Part::Main),
        [name, "status"] => (*name, Part::Status),
        [name, "scale"] => (*name, Part::Scale),
        _ => return Err(unknown()),
    };
    let kind = api.kind_of(group, plural).ok_or_else(unknown)?;
    let described = api.kinds().get(kind).ok_or_else(unknown)?;
    let misplaced =
        (described.scope == Scope::Cluster) != namespace.is_empty() && !(namespace.is_empty() && name.is_empty());
    let missing = match part {
        Part::Main => false,
        Part::Status => !described.status,
        Part::Scale => described.scale.is_none(),
    };
    if described.version != version || misplaced || missing {
        return Err(unknown());
    }
    let query = Query::parse(parts.query);
    let target = Target {
        group: group.to_owned(),
        plural: plural.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        part,
    };
    let selector = || Selector::parse(query.get("labelSelector"), query.get("fieldSelector"));
    let list = || {
        Ok::<ListOptions, Failure>(ListOptions {
            selector: selector()?,
            limit: query.get("limit").parse().unwrap_or(0),
            continue_: query.get("continue").to_owned(),
        })
    };
    let verb = match (parts.method, name.is_empty()) {
        ("GET", true) if matches!(query.get("watch"), "true" | "1") => {
            let version = query.get("resourceVersion");
            let start = match version {
                _ if query.get("sendInitialEvents") == "true" => WatchStart::NowWithMark,
                "" | "0" => WatchStart::Now,
                version => WatchStart::After(
                    version
                        .parse()
                        .map_err(|_| Failure::bad_request(format!("invalid resource version {version:?}")))?,
                ),
            };
            return Ok(Call::Watch {
                kind,
                namespace: namespace.to_owned(),
                selector: selector()?,
                start,
                bookmarks: query.get("allowWatchBookmarks") == "true",
            });
        }
        ("GET", true) => Verb::List(list()?),
        ("GET", false) => Verb::Get,
        ("POST", true) => Verb::Create(object(parts)?, query.write(parts)?),
        ("PUT", false) => Verb::Update(object(parts)?, query.write(parts)?),
        ("PATCH", false) => {
            let how = match parts.content_type.split(';').next().unwrap_or_default() {
                "application/json-patch+json" => PatchKind::Json,
                "application/merge-patch+json" => PatchKind::Merge,
                "application/strategic-merge-patch+json" => PatchKind::Strategic,
                "application/apply-patch+yaml" => PatchKind::Apply,
                other => {
                    let text = format!("the body of the request was in an unknown format: {other}");
                    return Err(Failure::new(415, "UnsupportedMediaType", text));
                }
            };
            let mut options = query.write(parts)?;
            if how == PatchKind::Apply {
                // An apply names its manager itself.
                options.manager = query.get("fieldManager").to_owned();
            } else if query.get("force") == "true" {
                let text = "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
                return Err(Failure::new(422, "Invalid", text));
            }
            Verb::Patch(how, object(parts)?, options)
        }
        ("DELETE", false) => Verb::Delete(delete(parts, &query)?),
        ("DELETE", true) => Verb::DeleteCollection(list()?, delete(parts, &query)?),
        _ => {
            let text = "the server does not allow this method on the requested resource";
            return Err(Failure::new(405, "MethodNotAllowed", text));
        }
    };
    Ok(Call::Request(Box::new(Request {
        target,
        verb,
        user: user.clone(),
    })))
}

/// An answer, as code, body and warnings.
pub fn write(answer: &Result<Reply, Failure>) -> (u16, Value, Vec<String>) {
    match answer {
        Ok(Reply::Object { code, object, warnings }) => (*code, object.to_value(), warnings.clone()),
        Ok(Reply::List(list)) => (200, list.to_value(), Vec::new()),
        Ok(Reply::Done(status)) => (200, status.clone(), Vec::new()),
        Err(failure) => (failure.code, failure.status(), Vec::new()),
    }
}

fn object(parts: &Parts<'_>) -> Result<Value, Failure> {
    serde_json::from_slice(parts.body)
        .map_err(|error| Failure::bad_request(format!("the body cannot be read: {error}")))
}

fn delete(parts: &Parts<'_>, query: &Query) -> Result<DeleteOptions, Failure> {
    let body = if parts.body.is_empty() {
        json!({})
    } else {
        object(parts)?
    };
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let word = text("/propagationPolicy").or_else(|| Some(query.get("propagationPolicy").to_owned()));
    let word = word.filter(|word| !word.is_empty());
    let propagation = match word {
        None => None,
        Some(word) => Some(Propagation::parse(&word).ok_or_else(|| {
            let text =
                format!("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: {word:?}");
            Failure::new(422, "Invalid", text)
        })?),
    };
    Ok(DeleteOptions {
        dry_run: query.get("dryRun") == "All" || body.pointer("/dryRun/0").and_then(Value::as_str) == Some("All"),
        uid: text("/preconditions/uid"),
        resource_version: text("/preconditions/resourceVersion"),
        propagation,
    })
}

struct Query(Vec<(String, String)>);

impl Query {
    fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            Some((decode(key), decode(value)))
        });
        Self(pairs.collect())
    }

    fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    fn write(&self, parts: &Parts<'_>) -> Result<WriteOptions, Failure> {
        let dry_run = match self.get("dryRun") {
            "" => false,
            "All" => true,
            other => {
                let text = format!("PatchOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: {other:?}");
                return Err(Failure::new(422, "Invalid", text));
            }
        };
        let manager = match self.get("fieldManager") {
            "" => parts.user_agent.split('/').next().unwrap_or_default(),
            manager => manager,
        };
        Ok(WriteOptions {
            dry_run,
            manager: manager.to_owned(),
            force: self.get("force") == "true",
            field_validation: self.get("fieldValidation").to_owned(),
        })
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8_lossy(&digits).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn groups(api: &Api) -> Value {
    let mut names: Vec<(&str, &str)> = api
        .kinds()
        .iter()
        .filter(|kind| !kind.group.is_empty())
        .map(|kind| (kind.group.as_str(), kind.version.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    let versions: Vec<Value> = names
        .iter()
        .map(|(group, version)| {
            let one = json!({"groupVersion": format!("{group}/{version}"), "version": version});
            json!({"name": group, "versions": [one], "preferredVersion": one})
        })
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": versions})
}

fn resources(api: &Api, group: &str, version: &str) -> Option<Value> {
    let served = api
        .kinds()
        .iter()
        .filter(|kind| kind.group == group && kind.version == version);
    let mut list = Vec::new();
    for kind in served {
        let namespaced = kind.scope == Scope::Namespaced;
        let verbs = json!([
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch"
        ]);
        list.push(
            json!({"name": kind.plural, "singularName": kind.kind.to_lowercase(), "namespaced": namespaced,
            "kind": kind.kind, "verbs": verbs}),
        );
        if kind.status {
            list.push(
                json!({"name": format!("{}/status", kind.plural), "singularName": "", "namespaced": namespaced,
                "kind": kind.kind, "verbs": ["get", "patch", "update"]}),
            );
        }
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    (!list.is_empty()).then(
        || json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}),
    )
}
