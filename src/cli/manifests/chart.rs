//! The templates of the Helm chart, generated from the manifests, so that Helm installs the same
//! objects as `kubectl apply -k` and `capstan manifests`.
//!
//! The manifests are printed with placeholders, which become values of the chart. An object that
//! depends on the source of the certificates is printed once for each source. This module decides
//! nothing; tests compare the objects that Helm renders with those of the command.

use anyhow::{Context as _, ensure};
use capstan_core::admission::Feature;
use capstan_core::api::cluster_x_k8s_io;
use serde_json::{Value, json};

use super::{Certificates, Choices, Installation, What};
use crate::cli::cluster::{Authority, Enforcement};
use crate::manifests::REGISTRATION_FILES;

/// The placeholders. No manifest contains them otherwise.
const HOME: &str = "capstan-chart-home";
const CLUSTER_API: &str = "capstan-chart-cluster-api";
const SYNC: &str = "capstan-chart-sync";
const SCALER: &str = "capstan-chart-scaler";
const HOOK_USER: &str = "capstan-chart-hooks";

/// The file that a value selects, and not a feature.
const NETWORK_POLICIES: &str = "network-policies.yaml";

/// The file of the component for metrics over TLS.
const SECURE_METRICS: &str = "secure-metrics.yaml";
/// The health port in a Deployment, as it is written by hand, and as a patch writes it.
const HEALTH_PORT: [&str; 2] = [
    "        - name: health\n          containerPort: 8081\n",
    "        - containerPort: 8081\n          name: health\n",
];

/// A source of certificates with its name in the values.
const SOURCES: [(Certificates, &str); 3] = [
    (Certificates::SelfManaged, "self-managed"),
    (Certificates::CertManager, "cert-manager"),
    (Certificates::ServiceCa, "service-ca"),
];

/// The name of a feature in the values; none if the chart always installs it.
fn value(feature: Feature) -> Option<&'static str> {
    match feature {
        Feature::Admission => None,
        Feature::Controllers => Some("controllers"),
        Feature::Mirroring => Some("mirroring"),
        Feature::MirroringControllers => Some("mirroringControllers"),
        Feature::KubeadmControlPlane => Some("kubeadmControlPlane"),
        Feature::ControlPlane => Some("controlPlane"),
        Feature::KubeadmControlPlaneControllers => Some("kubeadmControlPlaneControllers"),
        Feature::ControlPlaneControllers => Some("controlPlaneControllers"),
        Feature::MachinePools => Some("machinePools"),
        Feature::MachinePoolControllers => Some("machinePoolControllers"),
    }
}

/// The templates: file names and texts.
///
/// # Errors
/// A manifest cannot be read, or differs between the sources of certificates in a way that no
/// template expresses; tests prevent both.
pub(super) fn templates() -> anyhow::Result<Vec<(String, String)>> {
    let mut templates = Vec::new();
    for feature in Feature::ALL {
        for what in [What::Rbac, What::Deployment, What::Policies, What::Webhooks] {
            let has_deployment = feature == Feature::Admission || feature.is_controllers();
            if matches!(what, What::Deployment) && !has_deployment {
                continue;
            }
            let variants = variants(feature, what, false)?;
            for name in names(&variants) {
                // What a component adds to the Deployments is added once.
                if ["cert-manager.yaml", NETWORK_POLICIES].contains(&name.as_str()) && feature != Feature::Admission {
                    continue;
                }
                let mut text = template(&name, &variants).with_context(|| format!("the template of {name}"))?;
                if what == What::Webhooks {
                    text = static_webhooks(&text).with_context(|| format!("the template of {name}"))?;
                }
                let value = if name == NETWORK_POLICIES {
                    Some(".Values.networkPolicies".to_owned())
                } else if REGISTRATION_FILES.contains(&name.as_str()) {
                    Some("not .Values.staticWebhooks".to_owned())
                } else {
                    value(feature).map(|value| format!(".Values.features.{value}"))
                };
                templates.push((name, wrapped(value.as_deref(), &text)));
            }
        }
    }
    // The flag and the port of this component are lines of the Deployments' templates.
    let variants = variants(Feature::Admission, What::Deployment, true)?;
    let text = template(SECURE_METRICS, &variants)?;
    templates.push((SECURE_METRICS.to_owned(), wrapped(Some(".Values.secureMetrics"), &text)));
    Ok(templates)
}

/// A webhook configuration that has webhooks only if the value `staticWebhooks` is true.
fn static_webhooks(text: &str) -> anyhow::Result<String> {
    const FIELD: &str = "\nwebhooks:\n";
    ensure!(
        text.matches(FIELD).count() == 1 && !text.contains("\n---\n"),
        "the file must contain one webhook configuration, whose last field is webhooks"
    );
    let text = text.replace(FIELD, &format!("\n{{{{- if .Values.staticWebhooks }}}}{FIELD}"));
    Ok(format!("{text}{{{{- end }}}}\n"))
}

/// The files of each source of certificates, in the order of [`SOURCES`].
type Variants = Vec<Vec<(String, String)>>;

fn variants(feature: Feature, what: What, secure_metrics: bool) -> anyhow::Result<Variants> {
    let files = |certificates| {
        let choices = Choices {
            namespace: HOME.to_owned(),
            certificates,
            single_node: false,
            network_policies: true,
            secure_metrics,
            static_webhooks: false,
            enforcement: Enforcement::Deny,
            authority: Authority {
                cluster_api_namespace: CLUSTER_API.to_owned(),
                sync_identity: vec![SYNC.to_owned()],
                autoscaler_identity: vec![SCALER.to_owned()],
                hook_identity: vec![HOOK_USER.to_owned()],
            },
        };
        Installation::new(&[feature], &choices).files(what)
    };
    SOURCES.iter().map(|(certificates, _)| files(*certificates)).collect()
}

/// The names of the files of all variants, each once.
fn names(variants: &Variants) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in variants.iter().flatten() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The documents of a file, with the objects that they contain.
fn documents(variant: &[(String, String)], name: &str) -> anyhow::Result<Vec<(String, Value)>> {
    let Some((_, text)) = variant.iter().find(|(file, _)| file == name) else {
        return Ok(Vec::new());
    };
    let texts = text
        .split("\n---\n")
        .map(|document| format!("{}\n", document.trim_end()));
    texts
        .map(|document| {
            let object = serde_saphyr::from_str(&document)?;
            Ok((document, object))
        })
        .collect()
}

/// The text of a file for all sources of certificates.
fn template(name: &str, variants: &Variants) -> anyhow::Result<String> {
    let documents: Vec<Vec<(String, Value)>> = variants
        .iter()
        .map(|variant| documents(variant, name))
        .collect::<anyhow::Result<_>>()?;
    let mut titles: Vec<String> = Vec::new();
    for (_, object) in documents.iter().flatten() {
        let title = title(object);
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    let mut texts = Vec::new();
    for wanted in titles {
        let found: Vec<Option<&(String, Value)>> = documents
            .iter()
            .map(|objects| objects.iter().find(|(_, object)| title(object) == wanted))
            .collect();
        texts.push(parametrized(&document(&found)?));
    }
    Ok(texts.join("---\n"))
}

fn title(object: &Value) -> String {
    let field = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", field("/kind"), field("/metadata/name"))
}

/// One object for all sources of certificates, which are in the order of [`SOURCES`].
fn document(found: &[Option<&(String, Value)>]) -> anyhow::Result<String> {
    let [own, cert_manager, service_ca] = found else {
        anyhow::bail!("there must be a variant for each source of certificates");
    };
    match (own, cert_manager, service_ca) {
        (Some((text, own)), Some((_, cert_manager)), Some((_, service_ca))) => {
            if own == cert_manager && own == service_ca {
                Ok(text.clone())
            } else if cert_manager == service_ca {
                let (files, _) = found.get(1).copied().flatten().context("a variant is missing")?;
                Ok(format!(
                    "{}{text}{{{{- else }}}}\n{files}{{{{- end }}}}\n",
                    condition("self-managed")
                ))
            } else {
                annotated(text, [own, cert_manager, service_ca])
            }
        }
        (Some((text, _)), None, None) => Ok(format!("{}{text}{{{{- end }}}}\n", condition("self-managed"))),
        (None, Some((text, _)), None) => Ok(format!("{}{text}{{{{- end }}}}\n", condition("cert-manager"))),
        _ => anyhow::bail!("an object must exist for one source of certificates, or for all"),
    }
}

fn condition(source: &str) -> String {
    format!("{{{{- if eq .Values.certificates \"{source}\" }}}}\n")
}

/// An object whose variants differ in their annotations only.
fn annotated(text: &str, variants: [&Value; 3]) -> anyhow::Result<String> {
    let mut blocks = String::new();
    for (object, (_, source)) in variants.iter().zip(SOURCES) {
        let mut without = (*object).clone();
        let metadata = without.pointer_mut("/metadata").and_then(Value::as_object_mut);
        let annotations = metadata.and_then(|metadata| metadata.remove("annotations"));
        ensure!(
            variants.first() == Some(&&without),
            "only annotations may differ: {object}"
        );
        if let Some(annotations) = annotations {
            let yaml = serde_saphyr::to_string(&json!({"annotations": annotations}))?;
            let lines: String = yaml.lines().map(|line| format!("  {line}\n")).collect();
            blocks += &format!("{}{lines}{{{{- end }}}}\n", condition(source));
        }
    }
    ensure!(
        text.matches("\nmetadata:\n").count() == 1,
        "one object has one metadata"
    );
    Ok(text.replace("\nmetadata:\n", &format!("\nmetadata:\n{blocks}")))
}

/// A document with values of the chart in place of the placeholders and of what the flags change.
fn parametrized(text: &str) -> String {
    let lines: String = text.lines().map(line).collect();
    let quoted = |name: &str| format!("['{name}']");
    let listed = |helper: &str| format!("[{{{{ include \"capstan.{helper}\" . }}}}]");
    let secure = |text: &str| format!("{{{{- if .Values.secureMetrics }}}}\n        {text}\n{{{{- end }}}}\n");
    let port = secure("- name: metrics\n          containerPort: 8443");
    let flag = secure("- --metrics-addr=0.0.0.0:8443");
    HEALTH_PORT
        .iter()
        .fold(lines, |text, health| text.replace(health, &format!("{health}{port}")))
        .replace(super::LAST_FLAG, &format!("{}{flag}", super::LAST_FLAG))
        .replace(&quoted(SYNC), &listed("syncIdentities"))
        .replace(&quoted(SCALER), &listed("autoscalerIdentities"))
        .replace(&quoted(HOOK_USER), &listed("hookIdentities"))
        .replace(CLUSTER_API, "{{ .Values.clusterApiNamespace }}")
        .replace(HOME, "{{ .Release.Namespace }}")
}

/// A line of a manifest as lines of its template. The flags of the containers come after the line
/// of the first flag that has a placeholder.
fn line(line: &str) -> String {
    let content = line.trim_start();
    let indent = line.get(..line.len() - content.len()).unwrap_or_default();
    let flag = content.trim_start_matches("- ").trim_matches('"');
    let when = |condition: &str, text: &str| format!("{{{{- {condition} }}}}\n{indent}{text}\n{{{{- end }}}}\n");
    let users = |name: &str, flag: &str| {
        when(
            &format!("range .Values.{name}"),
            &format!("- {{{{ printf \"--{flag}=%s\" . | quote }}}}"),
        )
    };
    let by_enforcement = |warn: &str, deny: &str| {
        let test = "if eq .Values.enforcement \"warn\"";
        format!("{{{{- {test} }}}}\n{warn}{{{{- else }}}}\n{deny}{{{{- end }}}}\n")
    };
    match content {
        "failurePolicy: Fail" => by_enforcement(
            &format!("{indent}failurePolicy: Ignore\n"),
            &format!("{indent}failurePolicy: Fail\n"),
        ),
        "- Deny" => by_enforcement(
            &format!("{indent}- Warn\n{indent}- Audit\n"),
            &format!("{indent}- Deny\n"),
        ),
        "replicas: 2" => format!("{indent}replicas: {{{{ if .Values.singleNode }}}}1{{{{ else }}}}2{{{{ end }}}}\n"),
        _ if content.starts_with("image: ") => format!("{indent}image: {{{{ .Values.image | quote }}}}\n"),
        _ if flag == format!("--cluster-api-namespace={CLUSTER_API}") => {
            let default = cluster_x_k8s_io::NAMESPACE;
            when(&format!("if ne .Values.clusterApiNamespace \"{default}\""), content)
                + &when("if eq .Values.enforcement \"warn\"", "- --enforcement=warn")
        }
        _ if flag == format!("--autoscaler-identity={SCALER}") => users("autoscalerIdentities", "autoscaler-identity"),
        _ if flag == format!("--sync-identity={SYNC}") => users("syncIdentities", "sync-identity"),
        _ if flag == format!("--hook-identity={HOOK_USER}") => users("hookIdentities", "hook-identity"),
        _ => format!("{line}\n"),
    }
}

/// The template of a file, which is rendered if a condition holds. Without a condition, it is
/// always rendered, and the webhook server in it has the flags of the selected features.
fn wrapped(condition: Option<&str>, text: &str) -> String {
    let generated = "{{- /* Generated from the manifests:\n\
        cargo run -p capstan -- manifests chart --out charts/capstan/templates */}}\n";
    match condition {
        Some(condition) => format!("{generated}{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"),
        None => format!("{generated}{}", with_flags_of_features(text)),
    }
}

fn with_flags_of_features(text: &str) -> String {
    let mut flags = String::new();
    for feature in Feature::ALL.into_iter().filter(|feature| !feature.is_controllers()) {
        if let Some(value) = value(feature) {
            flags += &format!(
                "{{{{- if .Values.features.{value} }}}}\n        - --{}\n{{{{- end }}}}\n",
                feature.name()
            );
        }
    }
    text.replace(super::LAST_FLAG, &format!("{}{flags}", super::LAST_FLAG))
}
