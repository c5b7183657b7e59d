//! What `certs/` configures fits what `webhooks/` registers: the same Service, Secret and configurations, by name.
// Tests say what went wrong by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::Value;

fn read(path: &str) -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// Namespace and name of the Service that is called, and the name of both configurations.
fn registered() -> (String, String, String) {
    let configurations = [read("webhooks/mutating.yaml"), read("webhooks/validating.yaml")].concat();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut all: Vec<_> = configurations
        .iter()
        .flat_map(|configuration| {
            configuration["webhooks"]
                .as_array()
                .unwrap()
                .iter()
                .map(move |webhook| {
                    let service = &webhook["clientConfig"]["service"];
                    (
                        text(&service["namespace"]),
                        text(&service["name"]),
                        text(&configuration["metadata"]["name"]),
                    )
                })
        })
        .collect();
    all.dedup();
    assert_eq!(all.len(), 1, "one Service and one name for all: {all:?}");
    all.swap_remove(0)
}

#[test]
fn cert_manager_issues_for_the_service_that_is_called() {
    let (namespace, service, _) = registered();
    let objects = read("certs/cert-manager/certificate.yaml");
    assert!(
        objects
            .iter()
            .all(|object| object["metadata"]["namespace"] == *namespace)
    );
    let names = &named(&objects, "Certificate", "capstan-tls")["spec"]["dnsNames"];
    assert!(
        names
            .as_array()
            .unwrap()
            .contains(&format!("{service}.{namespace}.svc").into()),
        "{names}"
    );
}

#[test]
fn the_service_ca_is_asked_by_the_service_and_both_configurations() {
    let (namespace, service, configuration) = registered();
    let objects = read("certs/service-ca/patch.yaml");
    assert_eq!(
        named(&objects, "Service", &service)["metadata"]["namespace"],
        *namespace
    );
    named(&objects, "ValidatingWebhookConfiguration", &configuration);
    named(&objects, "MutatingWebhookConfiguration", &configuration);
}

#[test]
fn self_managed_may_write_its_secret_and_its_configurations_and_nothing_else() {
    let (namespace, _, configuration) = registered();
    let objects = read("certs/self-managed/rbac.yaml");
    let secret = named(&objects, "Secret", "capstan-webhook-tls");
    assert_eq!(secret["metadata"]["namespace"], *namespace);
    assert!(
        secret.get("data").is_none() && secret.get("stringData").is_none(),
        "no key is ever committed"
    );
    let rules = |kind: &str| {
        named(&objects, kind, "capstan-certificates")["rules"]
            .as_array()
            .unwrap()
            .clone()
    };
    for (kind, name) in [("Role", "capstan-webhook-tls"), ("ClusterRole", configuration.as_str())] {
        for rule in rules(kind) {
            assert_eq!(rule["resourceNames"], serde_json::json!([name]), "{kind}");
        }
    }
}
