//! The path of a URL: discovery, or the objects that a request is about.

use serde_json::Value;

use super::discovery;
use crate::api::failure::Failure;
use crate::api::kinds::{Kind, Scope};
use crate::api::request::{Part, Target};
use crate::api::store::Api;

/// Where a path leads.
pub(super) enum Route {
    /// To discovery; this is the answer.
    Discovery(Value),
    /// To objects of a kind, which is given by its position.
    Objects(usize, Target),
}

/// Resolves a path.
///
/// # Errors
/// 404 for a path that is not served.
pub(super) fn route(api: &Api, path: &str) -> Result<Route, Failure> {
    let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, version, rest) = match path.as_slice() {
        ["version"] => return Ok(Route::Discovery(discovery::version())),
        ["api"] => return Ok(Route::Discovery(discovery::core_versions())),
        ["apis"] => return Ok(Route::Discovery(discovery::groups(api))),
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Err(Failure::unknown_resource()),
    };
    if rest.is_empty() {
        let resources = discovery::resources(api, group, version);
        return resources.map(Route::Discovery).ok_or_else(Failure::unknown_resource);
    }
    let target = target(group, rest).ok_or_else(Failure::unknown_resource)?;
    let kind = api
        .kind_of(group, &target.plural)
        .ok_or_else(Failure::unknown_resource)?;
    if api.kind(kind)?.version != version || !serves(api.kind(kind)?, &target) {
        return Err(Failure::unknown_resource());
    }
    Ok(Route::Objects(kind, target))
}

/// The objects that the segments behind group and version name.
fn target(group: &str, segments: &[&str]) -> Option<Target> {
    let (namespace, plural, rest) = match segments {
        ["namespaces", namespace, plural, rest @ ..] if !matches!(*plural, "status" | "finalize") => {
            (*namespace, *plural, rest)
        }
        [plural, rest @ ..] => ("", *plural, rest),
        [] => return None,
    };
    let (name, part) = match rest {
        [] => ("", Part::Main),
        [name] => (*name, Part::Main),
        [name, "status"] => (*name, Part::Status),
        [name, "scale"] => (*name, Part::Scale),
        _ => return None,
    };
    Some(Target {
        group: group.to_owned(),
        plural: plural.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        part,
    })
}

/// Whether a kind has the scope and the subresource that a target needs. A list may span all
/// namespaces.
fn serves(kind: &Kind, target: &Target) -> bool {
    let is_whole_cluster = target.namespace.is_empty();
    let has_scope = match kind.scope {
        Scope::Cluster => is_whole_cluster,
        Scope::Namespaced => !is_whole_cluster || target.name.is_empty(),
    };
    let has_part = match target.part {
        Part::Main => true,
        Part::Status => kind.status,
        Part::Scale => kind.scale.is_some(),
    };
    has_scope && has_part
}
