//! The schema of `kubeadmConfigSpec`: what happens on a machine before, during and after kubeadm.

use serde_json::{Value, json};

use super::build::{Object, Version, boolean, int32, int32_in, list, list_or_empty, one_of, text, validation};
use super::cluster::cluster_configuration;
use super::nodes::{init_configuration, join_configuration};

/// The types of partitions: names, and GUIDs.
const PARTITION_TYPE: &str =
    "^(Linux|LinuxSwap|LinuxRAID|LVM|Fat32|NTFS|LinuxExtended|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$";

/// The schema of `kubeadmConfigSpec`.
pub(super) fn kubeadm_config(version: Version) -> Value {
    let commands = || list(version, 1000, &text(10240));
    Object::new(version)
        .field(
            "clusterConfiguration",
            cluster_configuration(version),
            "The configuration of the whole cluster.",
        )
        .field(
            "initConfiguration",
            init_configuration(version),
            "The options of kubeadm init.",
        )
        .field(
            "joinConfiguration",
            join_configuration(version),
            "The options of kubeadm join.",
        )
        .field(
            "files",
            list(version, 200, &file(version)),
            "Files that are written to the machine.",
        )
        .field(
            "diskSetup",
            disk_setup(version),
            "Disks that are partitioned and formatted.",
        )
        .field("mounts", mounts(version), "Mount points, each as the columns of fstab.")
        .field("bootCommands", commands(), "Commands that run early in each boot.")
        .field("preKubeadmCommands", commands(), "Commands that run before kubeadm.")
        .field("postKubeadmCommands", commands(), "Commands that run after kubeadm.")
        .field("users", list(version, 100, &user(version)), "Users that are added.")
        .field("ntp", ntp(version), "Time servers.")
        .field(
            "format",
            one_of(&["cloud-config", "ignition"]),
            "The format of the user data. The default is cloud-config.",
        )
        .field("verbosity", int32(), "The log level of kubeadm.")
        .v1beta1(
            "useExperimentalRetryJoin",
            boolean(),
            "Ignored: kubeadm retries itself.",
        )
        .field(
            "ignition",
            ignition(version),
            "Options of Ignition, if it is the format.",
        )
        .not_empty()
}

fn file(version: Version) -> Value {
    Object::new(version)
        .required("path", text(512), "The path of the file on the machine.")
        .field("owner", text(256), "The owner of the file, such as root:root.")
        .field("permissions", text(16), "The permissions of the file, such as 0640.")
        .field(
            "encoding",
            one_of(&["base64", "gzip", "gzip+base64"]),
            "The encoding of the content.",
        )
        .field("append", boolean(), "Whether the content is added to an existing file.")
        .field("content", text(10240), "The content. It excludes contentFrom.")
        .field(
            "contentFormat",
            one_of(&["Raw", "Template"]),
            "Whether the content is a template. The default is Raw.",
        )
        .field(
            "contentFrom",
            secret_source(version),
            "The source of the content. It excludes content.",
        )
        .build()
}

/// A key of a Secret.
fn secret_source(version: Version) -> Value {
    let secret = Object::new(version)
        .required("name", text(253), "The name of the Secret.")
        .required("key", text(256), "The key in the Secret.")
        .build();
    Object::new(version)
        .required("secret", secret, "A Secret in the namespace of this object.")
        .build()
}

fn user(version: Version) -> Value {
    Object::new(version)
        .required("name", text(256), "The name of the user.")
        .field("gecos", text(256), "The comment of the user.")
        .field("groups", text(256), "Additional groups, separated by commas.")
        .field("homeDir", text(256), "The home folder.")
        .field("inactive", boolean(), "Whether the user is inactive.")
        .field("shell", text(256), "The shell.")
        .field("passwd", text(256), "The hash of the password. It excludes passwdFrom.")
        .field(
            "passwdFrom",
            secret_source(version),
            "The source of the hash of the password.",
        )
        .field("primaryGroup", text(256), "The primary group.")
        .field(
            "lockPassword",
            boolean(),
            "Whether a login with a password is disabled.",
        )
        .field("sudo", text(256), "The sudo rule of the user.")
        .field(
            "sshAuthorizedKeys",
            list_or_empty(version, 100, &text(2048)),
            "SSH keys of the user.",
        )
        .build()
}

fn ntp(version: Version) -> Value {
    Object::new(version)
        .field("servers", list_or_empty(version, 100, &text(512)), "The time servers.")
        .field("enabled", boolean(), "Whether the time is synchronized.")
        .not_empty()
}

fn mounts(version: Version) -> Value {
    let columns = match version {
        Version::V1Beta1 => json!({"type": "array", "items": text(512)}),
        Version::V1Beta2 => json!({"type": "array", "minItems": 1, "maxItems": 100, "items": text(512)}),
    };
    list(version, 100, &columns)
}

fn ignition(version: Version) -> Value {
    let container_linux = Object::new(version)
        .field(
            "additionalConfig",
            text(32768),
            "Configuration that is merged, as YAML.",
        )
        .field(
            "strict",
            boolean(),
            "Whether a warning about the configuration is an error.",
        )
        .not_empty();
    Object::new(version)
        .field(
            "containerLinuxConfig",
            container_linux,
            "Configuration of Container Linux.",
        )
        .not_empty()
}

fn disk_setup(version: Version) -> Value {
    Object::new(version)
        .field(
            "partitions",
            list_or_empty(version, 100, &partition(version)),
            "Disks that are partitioned.",
        )
        .field(
            "filesystems",
            list_or_empty(version, 100, &filesystem(version)),
            "File systems that are created.",
        )
        .not_empty()
}

fn partition(version: Version) -> Value {
    let kind = "The type of the partition: Linux, LinuxSwap, LinuxRAID, LVM, Fat32, NTFS, LinuxExtended, or a GUID.";
    let mut type_ = text(36);
    validation(
        &mut type_,
        &format!("self.matches('{PARTITION_TYPE}')"),
        "must be Linux, LinuxSwap, LinuxRAID, LVM, Fat32, NTFS, LinuxExtended, or a GUID",
    );
    let part = Object::new(version)
        .required("percentage", int32_in(1, 100), "The size, as a percentage of the disk.")
        .field("partitionType", type_, kind)
        .build();
    let mut parts = list(version, 100, &part);
    if let Some(parts) = parts.as_object_mut() {
        parts.insert("minItems".into(), 1.into());
    }
    let mut partition = Object::new(version)
        .required("device", text(256), "The disk.")
        .required_in(
            Version::V1Beta1,
            "layout",
            boolean(),
            "Whether one partition takes the whole disk. It excludes diskLayout.",
        )
        .field(
            "diskLayout",
            parts,
            "The partitions of the disk, in order. It excludes layout.",
        )
        .field("overwrite", boolean(), "Whether existing partitions are replaced.")
        .field(
            "tableType",
            one_of(&["mbr", "gpt"]),
            "The type of the partition table. The default is mbr.",
        )
        .build();
    if version == Version::V1Beta2 {
        validation(
            &mut partition,
            "[has(self.layout), has(self.diskLayout)].exists_one(x, x)",
            "must have exactly one of layout and diskLayout",
        );
    }
    partition
}

fn filesystem(version: Version) -> Value {
    Object::new(version)
        .required("device", text(256), "The device.")
        .required("filesystem", text(128), "The type of the file system, such as ext4.")
        .field("label", text(512), "The label of the file system.")
        .field(
            "partition",
            text(128),
            "Which partition of the device is used: a number, auto, any, or none.",
        )
        .field("overwrite", boolean(), "Whether an existing file system is replaced.")
        .field("replaceFS", text(128), "The type of file system that is replaced.")
        .field(
            "extraOpts",
            list_or_empty(version, 100, &text(256)),
            "Options of the command that creates it.",
        )
        .build()
}
