//! Reads HTTP requests, and writes the answers.

mod discovery;
mod path;
mod query;

use capstan_core::model::{Propagation, User};
use serde_json::{Value, json};

use super::failure::Failure;
use super::reads::WatchStart;
use super::reply::Reply;
use super::request::{DeleteOptions, PatchKind, Request, Target, Verb};
use super::selector::Selector;
use super::store::Api;
use path::{Route, route};
use query::Query;

/// What an HTTP request asks for.
#[derive(Clone, Debug)]
pub enum Call {
    /// A request for objects.
    Request(Box<Request>),
    /// A watch.
    Watch {
        /// Position of the kind.
        kind: usize,
        /// Namespace; empty for all.
        namespace: String,
        /// The objects to watch.
        selector: Selector,
        /// Where the watch begins.
        start: WatchStart,
        /// Whether the client asks for bookmarks.
        bookmarks: bool,
    },
    /// Discovery; this is the answer.
    Discovery(Value),
}

/// The parts of an HTTP request.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The path.
    pub path: &'a str,
    /// The query, without the question mark.
    pub query: &'a str,
    /// `Content-Type`.
    pub content_type: &'a str,
    /// `User-Agent`; the default of the field manager.
    pub user_agent: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// Reads a request.
///
/// # Errors
/// The answer of an API server to a request that it cannot read.
pub fn read(api: &Api, parts: &Parts<'_>, user: &User) -> Result<Call, Failure> {
    let (kind, target) = match route(api, parts.path)? {
        Route::Discovery(answer) => return Ok(Call::Discovery(answer)),
        Route::Objects(kind, target) => (kind, target),
    };
    let query = Query::parse(parts.query);
    let verb = match (parts.method, target.name.is_empty()) {
        ("GET", true) if matches!(query.get("watch"), "true" | "1") => return watch(kind, target, &query),
        ("GET", true) => Verb::List(query.list()?),
        ("GET", false) => Verb::Get,
        ("POST", true) => Verb::Create(object(parts)?, query.write(parts.user_agent)?),
        ("PUT", false) => Verb::Update(object(parts)?, query.write(parts.user_agent)?),
        ("PATCH", false) => patch(parts, &query)?,
        ("DELETE", false) => Verb::Delete(delete(parts, &query)?),
        ("DELETE", true) => Verb::DeleteCollection(query.list()?, delete(parts, &query)?),
        _ => return Err(Failure::method_not_allowed()),
    };
    Ok(Call::Request(Box::new(Request {
        target,
        verb,
        user: user.clone(),
    })))
}

fn watch(kind: usize, target: Target, query: &Query) -> Result<Call, Failure> {
    let start = match query.get("resourceVersion") {
        _ if query.get("sendInitialEvents") == "true" => WatchStart::NowWithMark,
        "" | "0" => WatchStart::Now,
        version => WatchStart::After(
            version
                .parse()
                .map_err(|_| Failure::bad_request(format!("invalid resource version {version:?}")))?,
        ),
    };
    Ok(Call::Watch {
        kind,
        namespace: target.namespace,
        selector: query.selector()?,
        start,
        bookmarks: query.get("allowWatchBookmarks") == "true",
    })
}

fn patch(parts: &Parts<'_>, query: &Query) -> Result<Verb, Failure> {
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
    let mut options = query.write(parts.user_agent)?;
    if how == PatchKind::Apply {
        // An apply must name its field manager; the user agent does not count.
        options.manager = query.get("fieldManager").to_owned();
    } else if query.get("force") == "true" {
        let text =
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
        return Err(Failure::new(422, "Invalid", text));
    }
    Ok(Verb::Patch(how, object(parts)?, options))
}

/// The HTTP status code, the body and the warnings of an answer.
pub fn write(answer: &Result<Reply, Failure>) -> (u16, Value, Vec<String>) {
    match answer {
        Ok(Reply::Object { code, object, warnings }) => (*code, object.to_value(), warnings.clone()),
        Ok(Reply::List(list)) => (200, list.to_value(), Vec::new()),
        Ok(Reply::Done(status)) => (200, status.clone(), Vec::new()),
        Err(failure) => (failure.code, failure.status(), Vec::new()),
    }
}

/// The body as JSON.
fn object(parts: &Parts<'_>) -> Result<Value, Failure> {
    serde_json::from_slice(parts.body)
        .map_err(|error| Failure::bad_request(format!("the body cannot be read: {error}")))
}

/// The options of a deletion: those of the body, then those of the query.
fn delete(parts: &Parts<'_>, query: &Query) -> Result<DeleteOptions, Failure> {
    let body = if parts.body.is_empty() {
        json!({})
    } else {
        object(parts)?
    };
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let policy = text("/propagationPolicy").unwrap_or_else(|| query.get("propagationPolicy").to_owned());
    let propagation = if policy.is_empty() {
        None
    } else {
        Some(Propagation::parse(&policy).ok_or_else(|| {
            let text =
                format!("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: {policy:?}");
            Failure::new(422, "Invalid", text)
        })?)
    };
    Ok(DeleteOptions {
        dry_run: query.get("dryRun") == "All" || body.pointer("/dryRun/0").and_then(Value::as_str) == Some("All"),
        uid: text("/preconditions/uid"),
        resource_version: text("/preconditions/resourceVersion"),
        propagation,
    })
}
