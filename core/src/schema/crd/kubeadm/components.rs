//! The parts of the kubeadm configuration that several components share: arguments, environment
//! variables, volumes.

use serde_json::{Value, json};

use super::build::{Object, Version, boolean, int_or_string, keyed, list, map, string, text, validation};

/// The quantity of a resource, such as `500Mi`.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Options of a component of the control plane: arguments, volumes, environment variables.
pub(super) fn component(version: Version) -> Object {
    Object::new(version)
        .field(
            "extraArgs",
            arguments(version),
            "Arguments in addition to those that kubeadm sets.",
        )
        .field(
            "extraVolumes",
            list(version, 100, &volume(version)),
            "Volumes of the machine that the pod of the component mounts.",
        )
        .field(
            "extraEnvs",
            variables(version),
            "Environment variables of the component.",
        )
}

/// The options of the API server.
pub(super) fn api_server(version: Version) -> Value {
    component(version)
        .field(
            "certSANs",
            list(version, 100, &text(253)),
            "Additional names and addresses in the certificate of the API server.",
        )
        .v1beta1(
            "timeoutForControlPlane",
            string(),
            "How long kubeadm waits until the API server answers, such as 4m0s.",
        )
        .not_empty()
}

/// Arguments of a program. In `v1beta2`, rules require unique names.
pub(super) fn arguments(version: Version) -> Value {
    if version == Version::V1Beta1 {
        return map(&string());
    }
    let value = json!({"type": "string", "minLength": 0, "maxLength": 1024});
    let argument = Object::new(version)
        .required("name", text(256), "The name of the argument, without dashes.")
        .required("value", value, "The value of the argument.")
        .build();
    let mut arguments = keyed(&["name", "value"], 1, 100, &argument);
    validation(
        &mut arguments,
        "self.all(x, self.exists_one(y, x.name == y.name))",
        "each argument must have a unique name",
    );
    arguments
}

/// The volume of a machine in a pod.
fn volume(version: Version) -> Value {
    Object::new(version)
        .required("name", text(512), "The name of the volume in the pod.")
        .required("hostPath", text(512), "The path on the machine.")
        .required("mountPath", text(512), "The path in the pod.")
        .field("readOnly", boolean(), "Whether the pod cannot write to the volume.")
        .field(
            "pathType",
            string(),
            "What the path on the machine must be, as in a hostPath volume.",
        )
        .build()
}

/// Environment variables, as in a pod.
pub(super) fn variables(version: Version) -> Value {
    let variable = Object::new(version)
        .required("name", string(), "The name of the variable.")
        .field("value", string(), "The value of the variable.")
        .field(
            "valueFrom",
            source(version),
            "The source of the value, instead of a value.",
        )
        .build();
    list(version, 100, &variable)
}

fn source(version: Version) -> Value {
    Object::new(version)
        .field("configMapKeyRef", key_of(version, "ConfigMap"), "A key of a ConfigMap.")
        .field("secretKeyRef", key_of(version, "Secret"), "A key of a Secret.")
        .field(
            "fieldRef",
            Object::new(version)
                .field(
                    "apiVersion",
                    string(),
                    "The version of the API that the path belongs to.",
                )
                .required("fieldPath", string(), "The path of the field.")
                .atomic()
                .build(),
            "A field of the pod.",
        )
        .field(
            "resourceFieldRef",
            resource(version),
            "A limit or a request of a container.",
        )
        .field(
            "fileKeyRef",
            Object::new(version)
                .required("volumeName", string(), "The volume that contains the file.")
                .required("path", string(), "The path of the file in the volume.")
                .required("key", string(), "The key in the file.")
                .field(
                    "optional",
                    json!({"type": "boolean", "default": false}),
                    "Whether the file or its key may be absent.",
                )
                .atomic()
                .build(),
            "A key of a file with environment variables.",
        )
        .build()
}

fn key_of(version: Version, kind: &str) -> Value {
    let name = json!({"type": "string", "default": ""});
    Object::new(version)
        .field("name", name, &format!("The name of the {kind}."))
        .required("key", string(), &format!("The key in the {kind}."))
        .field(
            "optional",
            boolean(),
            &format!("Whether the {kind} or its key may be absent."),
        )
        .atomic()
        .build()
}

fn resource(version: Version) -> Value {
    let mut divisor = int_or_string();
    if let Some(divisor) = divisor.as_object_mut() {
        divisor.insert("pattern".into(), QUANTITY.into());
    }
    Object::new(version)
        .field("containerName", string(), "The container; it is required for volumes.")
        .required("resource", string(), "The limit or request, such as limits.cpu.")
        .field("divisor", divisor, "The unit of the value. The default is 1.")
        .atomic()
        .build()
}
