//! Power VS: `PowerVSMachineProviderConfig` and `IBMPowerVSMachine` (v1beta2).

use serde_json::{Map, Value, json};

use super::Platform;
use crate::conversion::Api::{self, ClusterApi, MachineApi};
use crate::conversion::load_balancers::{LOAD_BALANCERS, normal as normal_balancers};
use crate::conversion::metadata::INSTANCE_TYPE;
use crate::conversion::pass::rule::{Hand, Literal, Rule, moved, required, same};
use crate::conversion::pass::{Pass, is_empty};
use crate::conversion::shape::Shape;
use crate::conversion::{Severity, metadata, tree};

/// Power VS.
pub(super) const PLATFORM: Platform = Platform {
    id: "power-vs",
    title: "Power VS",
    platform_type: "PowerVS",
    provider_spec: "PowerVSMachineProviderConfig",
    provider_spec_version: "machine.openshift.io/v1",
    machine: "IBMPowerVSMachine",
    version: "v1beta2",
    crd: "kubernetes-sigs/cluster-api-provider-ibmcloud, August 2026",
    cluster: "IBMPowerVSCluster",
    user_data: "userDataSecret",
    rules: RULES,
    computed: &[(INSTANCE_TYPE, "systemType")],
    has_instance_state: true,
    has_provider_id: false,
    hand_over: None,
    normal,
};

const RULES: &[Rule] = &[
    Rule::Hand(&SERVICE_INSTANCE),
    Rule::Hand(&IMAGE),
    Rule::Hand(&NETWORK),
    required(
        MachineApi,
        "keyPairName",
        "the Machine API requires a key pair",
        "set it",
    ),
    required(ClusterApi, "sshKey", "the Machine API requires a key pair", "set it"),
    moved("keyPairName", "sshKey", Shape::Text),
    Rule::Hand(&SYSTEM_TYPE),
    // Before the type of the processors is taken.
    Rule::Hand(&SIZE),
    same(
        "processorType",
        Shape::Words(&[("Dedicated", "Dedicated"), ("Shared", "Shared"), ("Capped", "Capped")]),
    ),
    same("processors", Shape::IntOrText),
    same("memoryGiB", Shape::Count(0, i32::MAX as i64)),
    Rule::Hand(&LOAD_BALANCERS),
    // The platform has one Secret with credentials, so another name changes no machine.
    Rule::Fixed {
        api: MachineApi,
        at: "credentialsSecret.name",
        value: Literal::Text("powervs-credentials"),
        written: true,
        severity: Severity::Loses,
        reason: "Cluster API uses the credentials of the cluster",
        way_out: "use the Secret powervs-credentials",
    },
];

/// The types that every release of the CRD of IBMPowerVSMachine accepts.
const SYSTEM_TYPES: [&str; 4] = ["e980", "s1022", "e1050", "e1080"];
/// The types that the CRD of v0.13.1 accepts and that of August 2026 refuses.
const FORMER_SYSTEM_TYPES: [&str; 2] = ["s922", "s1122"];

const SIZE: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "absent memoryGiB is 32 in the Machine API, and 2 in Cluster API; absent processors are 1 for `Dedicated`, \
            and else 0.5 in the Machine API, and 0.25 in Cluster API",
    to: put_size,
    back: put_size,
};

fn put_size(pass: &mut Pass<'_>) {
    let from = pass.env.from();
    let is_dedicated = tree::text(&pass.source.value, "processorType") == Some("Dedicated");
    pass.put_default("memoryGiB", "memoryGiB", memory(from).into());
    if pass.source.get("processors").is_none_or(is_empty) {
        pass.put("processors", processors(from, is_dedicated));
    }
}

/// The memory of a machine that does not set it, in GiB.
fn memory(api: Api) -> i64 {
    match api {
        MachineApi => 32,
        ClusterApi => 2,
    }
}

/// The processors of a machine that does not set them.
fn processors(api: Api, is_dedicated: bool) -> Value {
    match (api, is_dedicated) {
        (_, true) => json!(1),
        (MachineApi, false) => json!("0.5"),
        (ClusterApi, false) => json!("0.25"),
    }
}

/// The API server of the cluster decides about a former type, so it is written and reported.
const SYSTEM_TYPE: Hand = Hand {
    machine_api: &["systemType"],
    cluster_api: &["systemType"],
    about: "`e980`, `s1022`, `e1050`, `e1080`; loses for `s922` and `s1122`, which not every release of the CRD accepts",
    to: system_type,
    back: system_type,
};

fn system_type(pass: &mut Pass<'_>) {
    let Some(text) = pass.take_text("systemType") else {
        return;
    };
    let all = SYSTEM_TYPES.join(" or ");
    if FORMER_SYSTEM_TYPES.contains(&text.as_str()) {
        let path = pass.path("systemType");
        pass.report(
            Severity::Loses,
            path,
            format!("the CRD of IBMPowerVSMachine accepts {text:?} in release v0.13.1, but no longer in August 2026"),
            format!("use {all}, or check that the CRD of the cluster accepts {text:?}"),
        );
    } else if !SYSTEM_TYPES.contains(&text.as_str()) {
        let to = pass.env.to.title();
        return pass.block(
            "systemType",
            format!("{to} does not support the value {text:?}"),
            format!("use {all}"),
        );
    }
    pass.put("systemType", text.into());
}

/// The type of a reference in the Machine API, and its field in both APIs.
const TYPES: [(&str, &str); 3] = [("ID", "id"), ("Name", "name"), ("RegEx", "regex")];

const SERVICE_INSTANCE: Hand = Hand {
    machine_api: &["serviceInstance"],
    cluster_api: &["serviceInstance", "serviceInstanceID"],
    about: "one of id, name and regex; serviceInstanceID is the same as id, and wins",
    to: |pass| {
        to_cluster_api(pass, "serviceInstance");
        // The schema of Cluster API requires this field, although serviceInstance replaces it.
        pass.put("serviceInstanceID", "".into());
    },
    back: |pass| {
        let Some(id) = pass.take_text("serviceInstanceID") else {
            return to_machine_api(pass, "serviceInstance");
        };
        let other = pass.take("serviceInstance");
        if other.is_some_and(|other| !is_empty(&other) && other != json!({"id": id})) {
            pass.block(
                "serviceInstance",
                "serviceInstanceID names another service instance, and wins",
                "remove one of them",
            );
        }
        pass.put("serviceInstance", json!({"type": "ID", "id": id}));
    },
};

const IMAGE: Hand = Hand {
    machine_api: &["image"],
    cluster_api: &["image", "imageRef"],
    about: "one of id, name and regex; imageRef is the same as a name, unless image is set",
    to: |pass| to_cluster_api(pass, "image"),
    back: |pass| {
        let mut reference = pass.source.branch("imageRef");
        let Some(name) = reference.take_text("name") else {
            metadata::report_rest(&reference, MachineApi, &mut pass.issues);
            return to_machine_api(pass, "image");
        };
        metadata::report_rest(&reference, MachineApi, &mut pass.issues);
        if pass.source.get("image").is_some() {
            pass.report(
                Severity::Loses,
                reference.path("name"),
                "the machine starts from image, and the Machine API has one image only",
                "remove imageRef",
            );
            return to_machine_api(pass, "image");
        }
        pass.put("image", json!({"type": "Name", "name": name}));
    },
};

const NETWORK: Hand = Hand {
    machine_api: &["network"],
    cluster_api: &["network"],
    about: "one of id, name and regex",
    to: |pass| to_cluster_api(pass, "network"),
    back: |pass| to_machine_api(pass, "network"),
};

fn to_cluster_api(pass: &mut Pass<'_>, at: &'static str) {
    let mut reference = pass.source.branch(at);
    let kind = reference.take_text("type");
    let found: Vec<(&str, &str, String)> = TYPES
        .into_iter()
        .filter_map(|(kind, field)| Some((kind, field, reference.take_text(field)?)))
        .collect();
    let named = found.iter().find(|(of_field, ..)| kind.as_deref() == Some(of_field));
    match (kind.as_deref(), found.as_slice()) {
        (None, [(_, field, value)]) => pass.put(&format!("{at}.{field}"), value.as_str().into()),
        (Some(kind), all) if named.is_some() => {
            for (of_field, field, value) in all {
                let path = format!("{at}.{field}");
                if *of_field == kind {
                    pass.put(&path, value.as_str().into());
                } else {
                    let path = pass.path(&path);
                    let reason = format!("the type of the reference is {kind}, and the field is ignored");
                    pass.report(Severity::Loses, path, reason, "remove the field");
                }
            }
        }
        (Some(kind), _) if !TYPES.iter().any(|(known, _)| *known == kind) => {
            let at = format!("{at}.type");
            pass.block(
                &at,
                "Cluster API does not support this type of reference",
                "use ID, Name or RegEx",
            );
        }
        _ => pass.block(
            at,
            "must have exactly one of id, name and regex, and its type",
            "correct the reference",
        ),
    }
    metadata::report_rest(&reference, ClusterApi, &mut pass.issues);
}

fn to_machine_api(pass: &mut Pass<'_>, at: &'static str) {
    let mut reference = pass.source.branch(at);
    let found: Vec<(&str, &str, String)> = TYPES
        .into_iter()
        .filter_map(|(kind, field)| Some((kind, field, reference.take_text(field)?)))
        .collect();
    let Some((kind, field, value)) = found.first() else {
        metadata::report_rest(&reference, MachineApi, &mut pass.issues);
        return pass.block(
            at,
            "the Machine API requires one of id, name and regex",
            "correct the reference",
        );
    };
    pass.put(at, json!({"type": *kind, *field: value}));
    for (_, other, _) in found.iter().skip(1) {
        let path = pass.path(&format!("{at}.{other}"));
        let reason = format!("the Machine API has one of id, name and regex, and {field} wins");
        pass.report(Severity::Loses, path, reason, "remove the field");
    }
    metadata::report_rest(&reference, MachineApi, &mut pass.issues);
}

fn normal(side: Api, spec: &mut Map<String, Value>) {
    normal_balancers(spec);
    let is_dedicated = spec.get("processorType").and_then(Value::as_str) == Some("Dedicated");
    spec.entry("memoryGiB").or_insert_with(|| memory(side).into());
    spec.entry("processors")
        .or_insert_with(|| processors(side, is_dedicated));
    if side == ClusterApi {
        if let Some(id) = spec.remove("serviceInstanceID").filter(|id| !is_empty(id)) {
            spec.insert(String::from("serviceInstance"), json!({"id": id}));
        }
        spec.insert(String::from("serviceInstanceID"), "".into());
        let reference = spec.remove("imageRef");
        if let Some(name) = reference.as_ref().and_then(|reference| tree::text(reference, "name")) {
            spec.entry("image").or_insert_with(|| json!({"name": name}));
        }
        return;
    }
    for at in ["serviceInstance", "image", "network"] {
        let reference = spec.get(at).cloned().unwrap_or_default();
        let only = TYPES.iter().find(|(_, field)| tree::text(&reference, field).is_some());
        if let (None, Some((kind, _))) = (tree::text(&reference, "type"), only) {
            tree::put(spec, &format!("{at}.type"), (*kind).into());
        }
    }
}
