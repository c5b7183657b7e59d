//! The permissions of an installation: each service account has what the roles of the manifests
//! grant, also if another object changed a role or a binding.

use kube::Client;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::super::installed::{self, reason, text};
use super::super::report::Report;

const SECTION: &str = "permissions";

/// One request that a role allows.
struct Request {
    group: String,
    resource: String,
    subresource: String,
    name: String,
    verb: String,
}

impl Request {
    fn title(&self) -> String {
        let resource = match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        };
        format!("{} {resource} {}", self.verb, self.name).trim_end().to_owned()
    }
}

/// Checks the service account of each binding in the manifests.
///
/// # Errors
/// An object of the manifests cannot be written as JSON; tests prevent that.
pub(super) async fn check(client: &Client, objects: &[Value], report: &mut Report) -> anyhow::Result<()> {
    for binding in objects
        .iter()
        .filter(|object| text(object, "/kind").ends_with("RoleBinding"))
    {
        let kind = text(binding, "/roleRef/kind");
        let namespace = text(binding, "/metadata/namespace");
        let role = objects.iter().find(|object| {
            text(object, "/kind") == kind
                && text(object, "/metadata/name") == text(binding, "/roleRef/name")
                && (kind == "ClusterRole" || text(object, "/metadata/namespace") == namespace)
        });
        // A role of Kubernetes itself is not in the manifests.
        let Some(role) = role else { continue };
        let account = [
            text(binding, "/subjects/0/namespace"),
            text(binding, "/subjects/0/name"),
        ];
        let requests = requests(role);
        let mut missing = Vec::new();
        for request in &requests {
            match allowed(client, account, namespace, request).await {
                Ok(true) => {}
                Ok(false) => missing.push(request.title()),
                Err(error) => {
                    report.warn(
                        SECTION,
                        format!("ServiceAccount {} has its permissions", account.join("/")),
                        reason(&error),
                        "Repeat the command as a user who may create SubjectAccessReviews.",
                    );
                    return Ok(());
                }
            }
        }
        let place = if namespace.is_empty() { "the cluster" } else { namespace };
        let check = format!(
            "ServiceAccount {} has {kind} {} in {place}",
            account.join("/"),
            text(role, "/metadata/name")
        );
        if missing.is_empty() {
            report.ok(SECTION, check, format!("{} permissions", requests.len()));
        } else {
            let remedy = "Apply the manifests again (manifests/README.md).";
            report.fail(SECTION, check, format!("missing: {}", missing.join(", ")), remedy);
        }
    }
    Ok(())
}

fn requests(role: &Value) -> Vec<Request> {
    let list = |rule: &Value, field: &str| -> Vec<String> {
        let items = rule.get(field).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut requests = Vec::new();
    for rule in role.pointer("/rules").and_then(Value::as_array).into_iter().flatten() {
        let mut names = list(rule, "resourceNames");
        if names.is_empty() {
            names.push(String::new());
        }
        for group in list(rule, "apiGroups") {
            for resource in list(rule, "resources") {
                let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
                for name in &names {
                    requests.extend(list(rule, "verbs").into_iter().map(|verb| Request {
                        group: group.clone(),
                        resource: resource.to_owned(),
                        subresource: subresource.to_owned(),
                        name: name.clone(),
                        verb,
                    }));
                }
            }
        }
    }
    requests
}

async fn allowed(
    client: &Client,
    [account_namespace, account]: [&str; 2],
    namespace: &str,
    request: &Request,
) -> kube::Result<bool> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": format!("system:serviceaccount:{account_namespace}:{account}"),
            "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{account_namespace}"),
                "system:authenticated"],
            "resourceAttributes": {
                "namespace": namespace,
                "group": request.group,
                "resource": request.resource,
                "subresource": request.subresource,
                "name": request.name,
                "verb": request.verb,
            },
        },
    });
    let object = serde_json::from_value(review.clone()).map_err(kube::Error::SerdeError)?;
    let answer = installed::api(client, &review)
        .create(&PostParams::default(), &object)
        .await?;
    Ok(answer.data.pointer("/status/allowed").and_then(Value::as_bool) == Some(true))
}
