//! The certificates of an installation: the Secret of the webhook server, and the `caBundle` of
//! each webhook.

use std::collections::BTreeMap;

use capstan_core::admission::Feature;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::Client;
use serde_json::Value;

use super::super::installed::{self, named, title};
use super::super::refusal::sentence;
use super::super::report::Report;
use super::super::serve::KUBEADM_DEFINITIONS;
use super::{Args, is_self_managed, is_webhook_configuration, secret, secret_name};
use crate::tls::inspect::{self, Facts};
use crate::tls::self_managed::injector;

const SECTION: &str = "certificates";
const DAY: i64 = 24 * 60 * 60;
/// Each source of certificates renews earlier.
const SOON_DAYS: i64 = 7;

pub(super) async fn check(
    args: &Args,
    client: &Client,
    (features, found): (&[Feature], &[Value]),
    report: &mut Report,
) -> anyhow::Result<()> {
    let namespace = &args.choices.namespace;
    let (absent, empty, remedy) = if is_self_managed(args) {
        let logs = format!("The server writes it: kubectl -n {namespace} logs deployment/capstan-webhook");
        let absent =
            "kubectl apply the Secret of the manifests again: the server may not create it (docs/operations.md).";
        (absent, "the server has not written it yet", logs)
    } else {
        let issuer = "Check the program that issues the certificate (certs/README.md).";
        (issuer, "it has no tls.crt", issuer.to_owned())
    };
    let check = &format!("the Secret {} contains a certificate", secret_name(args));
    match secret(args, client).await {
        Ok(Some(secret)) => match decoded(&secret, "/data/tls.crt").filter(|pem| !pem.is_empty()) {
            Some(pem) => validity(check, &pem, &remedy, report),
            None => report.fail(SECTION, check, empty, remedy),
        },
        Ok(None) => report.fail(SECTION, check, "the Secret does not exist", absent),
        Err(error) => report.warn(
            SECTION,
            check,
            sentence(&error),
            "Repeat the command as a user who may read the Secret.",
        ),
    }
    for configuration in found.iter().filter(|object| is_webhook_configuration(object)) {
        bundles(configuration, report);
    }
    if is_self_managed(args) {
        let mut written: Vec<Value> = found
            .iter()
            .filter(|one| is_webhook_configuration(one))
            .cloned()
            .collect();
        if features.contains(&Feature::KubeadmControlPlane) {
            written.extend(converted(client).await?);
        }
        injectors(&written, report);
    }
    Ok(())
}

/// The CRDs whose objects Capstan converts.
pub(in crate::cli) async fn converted(client: &Client) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    for name in KUBEADM_DEFINITIONS {
        let crd = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name);
        found.extend(installed::get(client, &crd).await?);
    }
    Ok(found)
}

/// No other program writes a `caBundle` that Capstan writes.
pub(in crate::cli) fn injectors(objects: &[Value], report: &mut Report) {
    for object in objects {
        let annotations = object.pointer("/metadata/annotations").cloned().unwrap_or_default();
        let annotations: BTreeMap<String, String> = serde_json::from_value(annotations).unwrap_or_default();
        let check = format!("only Capstan writes the caBundle of {}", title(object));
        match injector(&annotations) {
            None => report.ok(SECTION, check, ""),
            Some(annotation) => report.fail(
                SECTION,
                check,
                format!("it has the annotation {annotation}"),
                format!("Remove it: kubectl annotate {} {annotation}-", argument(object)),
            ),
        }
    }
}

/// An object as an argument of kubectl.
fn argument(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", text("/kind").to_lowercase(), text("/metadata/name"))
}

/// All webhooks of a configuration have a `caBundle` with valid certificates.
fn bundles(configuration: &Value, report: &mut Report) {
    let check = format!("{} has a caBundle", title(configuration));
    let remedy = "The webhook server, cert-manager or the service CA writes it: look at its log.";
    let webhooks = configuration.pointer("/webhooks").and_then(Value::as_array);
    let mut bundles: Vec<Option<Vec<u8>>> = webhooks
        .into_iter()
        .flatten()
        .map(|webhook| decoded(webhook, "/clientConfig/caBundle").filter(|pem| !pem.is_empty()))
        .collect();
    bundles.dedup();
    if bundles.contains(&None) {
        report.fail(SECTION, check, "a caBundle is empty", remedy);
        return;
    }
    for pem in bundles.into_iter().flatten() {
        validity(&check, &pem, remedy, report);
    }
}

fn decoded(object: &Value, pointer: &str) -> Option<Vec<u8>> {
    let encoded: ByteString = serde_json::from_value(object.pointer(pointer)?.clone()).ok()?;
    Some(encoded.0)
}

/// At least one certificate is valid now, and stays valid for a week.
fn validity(check: &str, pem: &[u8], remedy: &str, report: &mut Report) {
    let now = Timestamp::now().as_second();
    let certificates = match inspect::certificates(pem) {
        Ok(certificates) => certificates,
        Err(error) => {
            report.fail(SECTION, check, error.to_string(), remedy);
            return;
        }
    };
    let valid = |facts: &&Facts| facts.not_before <= now && now < facts.not_after;
    let Some(end) = certificates.iter().filter(valid).map(|facts| facts.not_after).max() else {
        report.fail(SECTION, check, "no certificate in it is valid now", remedy);
        return;
    };
    let days = (end - now) / DAY;
    let found = format!("valid for {days} days");
    if days < SOON_DAYS {
        report.warn(SECTION, check, found, remedy);
    } else {
        report.ok(SECTION, check, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w12_the_annotation_of_another_program_fails_with_the_command_that_removes_it() {
        let crd = |annotations: Value| {
            serde_json::json!({"kind": "CustomResourceDefinition",
                "metadata": {"name": "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", "annotations": annotations}})
        };
        let mut report = Report::default();
        injectors(&[crd(serde_json::json!({"a": "b"})), crd(Value::Null)], &mut report);
        assert!(!report.has_failed(SECTION));
        injectors(
            &[crd(serde_json::json!({"cert-manager.io/inject-ca-from": "a/b"}))],
            &mut report,
        );
        assert!(report.has_failed(SECTION));
    }

    #[test]
    fn an_empty_bundle_fails() {
        let configuration = serde_json::json!({"kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "capstan"}, "webhooks": [{"clientConfig": {}}]});
        let mut report = Report::default();
        bundles(&configuration, &mut report);
        assert!(report.has_failed(SECTION));
    }
}
