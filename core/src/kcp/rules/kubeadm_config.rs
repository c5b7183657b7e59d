//! The configuration of kubeadm: files, users, disks, Ignition, discovery and timeouts.
//!
//! Refusals never show the content of a file or a password.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Judge;
use super::table::{BOOTSTRAP_TOKEN, DISK_LAYOUT, FILES, HEALTH_CHECK_TIMEOUTS, IGNITION, KUBECONFIG_USER, USERS};
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::{
    self, Ignition, KubeConfigAuthProvider, KubeConfigExec, SecretSource,
};
use crate::model::{FieldPath, ViolationKind};

use super::table::Rule;

impl Judge<'_> {
    pub(super) fn kubeadm_config(&mut self) {
        self.files();
        self.users();
        self.ignition();
        self.disks();
        self.tokens();
        self.discovery();
        self.timeouts();
    }

    fn files(&mut self) {
        let mut paths = BTreeSet::new();
        for (index, file) in self.spec.kubeadm_config_spec.files.iter().enumerate() {
            let at = self.kubeadm("files").index(index);
            let has_source = file.content_from != SecretSource::default();
            if has_source && !file.content.is_empty() {
                let allowed = "must have only one of content and contentFrom";
                let invalid = FILES.because(at.clone(), ViolationKind::Invalid, allowed);
                self.found.push(invalid.advice("remove one of them"));
            }
            self.source(&FILES, &file.content_from, &at.child("contentFrom"));
            if !paths.insert(&file.path) {
                let allowed = "must differ from the paths of the other files";
                let invalid = FILES.because(at.child("path"), ViolationKind::Invalid, allowed);
                let advice = "change the path, or merge the files";
                self.found
                    .push(invalid.got(&Value::from(file.path.as_str())).advice(advice));
            }
        }
    }

    fn users(&mut self) {
        for (index, user) in self.spec.kubeadm_config_spec.users.iter().enumerate() {
            let at = self.kubeadm("users").index(index);
            if user.passwd_from != SecretSource::default() && !user.passwd.is_empty() {
                let allowed = "must have only one of passwd and passwdFrom";
                let invalid = USERS.because(at.clone(), ViolationKind::Invalid, allowed);
                self.found.push(invalid.advice("remove one of them"));
            }
            self.source(&USERS, &user.passwd_from, &at.child("passwdFrom"));
        }
    }

    /// A source that is given names a Secret and a key.
    fn source(&mut self, rule: &Rule, source: &SecretSource, at: &FieldPath) {
        if *source == SecretSource::default() {
            return;
        }
        for (field, value) in [("name", &source.secret.name), ("key", &source.secret.key)] {
            if value.is_empty() {
                let path = at.child("secret").child(field);
                let required = rule.because(path, ViolationKind::Required, "must not be empty");
                self.found.push(required.advice("name the Secret and the key in it"));
            }
        }
    }

    fn ignition(&mut self) {
        let config = &self.spec.kubeadm_config_spec;
        let (has_block, is_ignition) = (
            config.ignition != Ignition::default(),
            config.format == kubeadm_config::IGNITION,
        );
        if !self.gates.ignition {
            for (field, is_used) in [("format", is_ignition), ("ignition", has_block)] {
                if is_used {
                    let allowed = "must not use Ignition while the feature gate KubeadmBootstrapFormatIgnition is off";
                    let forbidden = IGNITION.because(self.kubeadm(field), ViolationKind::Forbidden, allowed);
                    self.found
                        .push(forbidden.advice("use the format cloud-config, or turn on the feature gate"));
                }
            }
        } else if is_ignition {
            self.ignition_only();
        } else if has_block {
            let allowed = "must be ignition while the block ignition is set";
            let invalid = IGNITION.because(self.kubeadm("format"), ViolationKind::Invalid, allowed);
            let advice = "set the format to ignition, or remove the block";
            self.found
                .push(invalid.got(&Value::from(config.format.as_str())).advice(advice));
        }
    }

    /// What Ignition does not support is absent.
    fn ignition_only(&mut self) {
        let config = &self.spec.kubeadm_config_spec;
        let mut paths = Vec::new();
        let users = config.users.iter().enumerate();
        paths.extend(
            users
                .filter(|(_, user)| user.inactive == Some(true))
                .map(|(index, _)| self.kubeadm("users").index(index).child("inactive")),
        );
        let files = config.files.iter().enumerate();
        paths.extend(
            files
                .filter(|(_, file)| file.encoding.starts_with("gzip"))
                .map(|(index, _)| self.kubeadm("files").index(index).child("encoding")),
        );
        if !config.boot_commands.is_empty() {
            paths.push(self.kubeadm("bootCommands"));
        }
        for (index, filesystem) in config.disk_setup.filesystems.iter().enumerate() {
            let at = self.kubeadm("diskSetup.filesystems").index(index);
            let fields = [
                ("replaceFS", &filesystem.replace_fs),
                ("partition", &filesystem.partition),
            ];
            let used = fields.into_iter().filter(|(_, value)| !value.is_empty());
            paths.extend(used.map(|(field, _)| at.child(field)));
        }
        for path in paths {
            let allowed = "must be absent while the format is ignition";
            let forbidden = IGNITION.because(path, ViolationKind::Forbidden, allowed);
            self.found
                .push(forbidden.advice("remove the field, or use the format cloud-config"));
        }
        for (index, partition) in config.disk_setup.partitions.iter().enumerate() {
            let table = partition.table_type.as_str();
            if !matches!(table, "" | "gpt") {
                let path = self.kubeadm("diskSetup.partitions").index(index).child("tableType");
                let allowed = "must be gpt while the format is ignition";
                let invalid = IGNITION.because(path, ViolationKind::Invalid, allowed);
                self.found.push(invalid.got(&Value::from(table)).advice("set gpt"));
            }
        }
    }

    fn disks(&mut self) {
        for (index, partition) in self.spec.kubeadm_config_spec.disk_setup.partitions.iter().enumerate() {
            let percentages = partition.disk_layout.iter().map(|layout| i64::from(layout.percentage));
            let sum: i64 = percentages.sum();
            if sum > 100 {
                let path = self.kubeadm("diskSetup.partitions").index(index).child("diskLayout");
                let invalid = DISK_LAYOUT.violation(path, ViolationKind::Invalid);
                self.found
                    .push(invalid.got(&Value::from(sum)).advice("make partitions smaller"));
            }
        }
    }

    /// The clients of Cluster API cannot read a token of another form, or a list with it.
    fn tokens(&mut self) {
        let init = &self.spec.kubeadm_config_spec.init_configuration;
        for (index, token) in init.bootstrap_tokens.iter().enumerate() {
            if !is_token(&token.token) {
                let at = self.kubeadm("initConfiguration.bootstrapTokens").index(index);
                let invalid = BOOTSTRAP_TOKEN.violation(at.child("token"), ViolationKind::Invalid);
                let advice = "create one with kubeadm token generate, or remove the token";
                self.found.push(invalid.advice(advice));
            }
        }
    }

    fn discovery(&mut self) {
        let user = &self
            .spec
            .kubeadm_config_spec
            .join_configuration
            .discovery
            .file
            .kube_config
            .user;
        if user.auth_provider != KubeConfigAuthProvider::default() && user.exec != KubeConfigExec::default() {
            let path = self.kubeadm("joinConfiguration.discovery.file.kubeConfig.user");
            let invalid = KUBECONFIG_USER.violation(path, ViolationKind::Invalid);
            self.found.push(invalid.advice("remove one of them"));
        }
    }

    fn timeouts(&mut self) {
        let config = &self.spec.kubeadm_config_spec;
        let sides = [
            ("initConfiguration", &config.init_configuration.timeouts),
            ("joinConfiguration", &config.join_configuration.timeouts),
        ];
        let [init, join] = sides.map(|(_, timeouts)| timeouts.control_plane_component_health_check_seconds);
        if init == join {
            return;
        }
        for (side, timeouts) in sides {
            let path = self
                .kubeadm(side)
                .child("timeouts.controlPlaneComponentHealthCheckSeconds");
            let invalid = HEALTH_CHECK_TIMEOUTS.violation(path, ViolationKind::Invalid);
            let got = timeouts.control_plane_component_health_check_seconds;
            let got = got.map_or_else(|| Value::from("unset"), Value::from);
            self.found
                .push(invalid.got(&got).advice("set the same number, or leave out both"));
        }
    }
}

/// Whether a text is six and sixteen lower-case letters or digits, with a dot between them.
fn is_token(text: &str) -> bool {
    let is_part = |part: &str, length: usize| {
        let mut bytes = part.bytes();
        part.len() == length && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    text.split_once('.')
        .is_some_and(|(id, secret)| is_part(id, 6) && is_part(secret, 16))
}
