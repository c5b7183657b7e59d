//! `certs/` and `webhooks/` use the same names for the Service, the Secret and the configurations.
// A failed test panics.
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

/// The features with webhooks.
const FEATURES: [&str; 2] = ["admission", "mirroring"];

/// The namespace and the name of the Service in the webhooks of a feature, and the name of both
/// configurations.
fn registered(feature: &str) -> (String, String, String) {
    let file = |name: &str| read(&format!("webhooks/{feature}/{name}.yaml"));
    let configurations = [file("mutating"), file("validating")].concat();
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
    assert_eq!(
        all.len(),
        1,
        "all webhooks use one Service, and both configurations have one name: {all:?}"
    );
    all.swap_remove(0)
}

#[test]
fn cert_manager_issues_a_certificate_for_the_service_of_the_webhooks() {
    let (namespace, service, _) = registered("admission");
    assert_eq!(registered("mirroring").1, service);
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
fn the_service_and_both_configurations_have_the_service_ca_annotations() {
    let objects = read("certs/service-ca/patch.yaml");
    for feature in FEATURES {
        let (namespace, service, configuration) = registered(feature);
        assert_eq!(
            named(&objects, "Service", &service)["metadata"]["namespace"],
            *namespace
        );
        named(&objects, "ValidatingWebhookConfiguration", &configuration);
        named(&objects, "MutatingWebhookConfiguration", &configuration);
    }
}

#[test]
fn the_self_managed_role_allows_writes_to_its_secret_and_configurations_only() {
    let (namespace, _, configuration) = registered("admission");
    let (_, _, mirroring) = registered("mirroring");
    let objects = read("certs/self-managed/rbac.yaml");
    let secret = named(&objects, "Secret", "capstan-webhook-tls");
    assert_eq!(secret["metadata"]["namespace"], *namespace);
    assert!(
        secret.get("data").is_none() && secret.get("stringData").is_none(),
        "the manifest contains no key"
    );
    let rules = |kind: &str| {
        named(&objects, kind, "capstan-certificates")["rules"]
            .as_array()
            .unwrap()
            .clone()
    };
    for (kind, names) in [
        ("Role", vec!["capstan-webhook-tls"]),
        ("ClusterRole", vec![configuration.as_str(), mirroring.as_str()]),
    ] {
        for rule in rules(kind) {
            assert_eq!(rule["resourceNames"], serde_json::json!(names), "{kind}");
        }
    }
}
