//! The flags of the webhook server, read from its Deployment. They tell which features the server
//! has, and so which webhooks may be in force.
//!
//! This module must never report that a feature is absent when it cannot read the flags: the caller
//! would remove webhooks that are in force.

use capstan_core::admission::Feature;
use serde_json::Value;

/// The name of the container in the manifests.
const CONTAINER: &str = "webhook";
/// The name of the program.
const PROGRAM: &str = "capstan";
/// The subcommand of the webhook server. Its flags follow it.
const SUBCOMMAND: &str = "serve";

/// The flags of a webhook server.
#[derive(Clone, Debug)]
pub(super) struct ServerFlags<'a>(Vec<&'a str>);

impl<'a> ServerFlags<'a> {
    /// Reads the flags from the Deployment of a server. The container is the one with the name of
    /// the manifests, or else the only one that runs the server.
    ///
    /// # Errors
    /// No container runs the server, or several do, or a variable gives the name of a flag. The
    /// error is a clause about the Deployment.
    pub(super) fn of(server: &'a Value) -> Result<Self, String> {
        let flags = Self::of_container(server)?;
        // The value of a flag may have variables: no feature depends on it.
        let name = |flag: &'a str| flag.split_once('=').map_or(flag, |(name, _)| name);
        match flags.0.iter().find(|flag| has_variable(name(flag))) {
            Some(flag) => Err(unknown(flag)),
            None => Ok(flags),
        }
    }

    fn of_container(server: &'a Value) -> Result<Self, String> {
        let containers = server.pointer("/spec/template/spec/containers");
        let containers = || containers.and_then(Value::as_array).into_iter().flatten();
        if let Some(container) = containers().find(|container| has_name(container)) {
            let flags = flags(container);
            return flags
                .ok_or_else(|| format!("its container {CONTAINER} does not run {PROGRAM} {SUBCOMMAND} itself"));
        }
        let running: Vec<Self> = containers().filter_map(flags).collect();
        match <[Self; 1]>::try_from(running) {
            Ok([only]) => Ok(only),
            Err(several) if several.is_empty() => Err(format!(
                "it has no container {CONTAINER}, and none runs {PROGRAM} {SUBCOMMAND} itself"
            )),
            Err(several) => Err(format!(
                "it has no container {CONTAINER}, and {} run {PROGRAM} {SUBCOMMAND}",
                several.len()
            )),
        }
    }

    /// Whether a flag without a value is set.
    fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    /// Whether the server has the webhooks of a feature.
    pub(super) fn serve(&self, feature: Feature) -> bool {
        match feature {
            Feature::Admission => true,
            feature if feature.is_controllers() => false,
            feature => self.has(&format!("--{}", feature.name())),
        }
    }

    /// Whether a flag has a value, which may be unknown.
    pub(super) fn has_value(&self, name: &str) -> bool {
        self.raw(name).next().is_some()
    }

    /// The values of a flag. The kubelet replaces `$$` by `$`.
    ///
    /// # Errors
    /// A value has a part that the kubelet replaces by the value of a variable. The error is a
    /// clause about the Deployment.
    pub(super) fn values(&self, name: &str) -> Result<Vec<String>, String> {
        let known = |value: &str| match has_variable(value) {
            true => Err(unknown(&format!("{name}={value}"))),
            false => Ok(value.replace("$$", "$")),
        };
        self.raw(name).map(known).collect()
    }

    /// The values of a flag as they are written: a part of the flag, or the next argument.
    fn raw(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let next = self.0.iter().skip(1).map(Some).chain([None]);
        std::iter::zip(&self.0, next).filter_map(move |(flag, next)| match flag.strip_prefix(name)? {
            "" => next.copied(),
            rest => rest.strip_prefix('='),
        })
    }
}

fn has_name(container: &Value) -> bool {
    container.get("name").and_then(Value::as_str) == Some(CONTAINER)
}

/// Whether the kubelet replaces a part of the text by the value of a variable. `$$(` stands for
/// `$(`.
fn has_variable(text: &str) -> bool {
    text.replace("$$", "").contains("$(")
}

fn unknown(argument: &str) -> String {
    format!("its argument {argument} has the value of a variable, which is not known")
}

/// The arguments after the subcommand of the server; `None` if the container does not run it. The
/// kubelet appends `args` to `command`. Only the program may precede the subcommand: what a shell
/// passes to the server is not known.
fn flags(container: &Value) -> Option<ServerFlags<'_>> {
    let list = |field| container.get(field).and_then(Value::as_array).into_iter().flatten();
    let mut arguments = list("command").chain(list("args")).filter_map(Value::as_str);
    let first = arguments.next()?;
    let is_program = first.rsplit('/').next() == Some(PROGRAM);
    let subcommand = if is_program { arguments.next()? } else { first };
    if subcommand != SUBCOMMAND {
        return None;
    }
    Some(ServerFlags(arguments.collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn features(containers: &Value) -> Result<Vec<&'static str>, String> {
        let server = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let flags = ServerFlags::of(&server)?;
        let features = Feature::ALL.into_iter().filter(|feature| flags.serve(*feature));
        Ok(features.map(Feature::name).collect())
    }

    #[test]
    fn w110_the_flags_of_the_server_are_found_beside_other_containers_and_in_its_command() {
        let sidecar = json!({"name": "proxy", "image": "envoy", "args": ["--config", "x"]});
        let server = json!({"name": "webhook", "args": ["serve", "--control-plane", "--machine-pools"]});
        let command = json!({"name": "webhook", "args": [],
            "command": ["/capstan", "serve", "--control-plane", "--machine-pools"]});
        let both = json!({"name": "webhook", "command": ["/capstan", "serve"],
            "args": ["--control-plane", "--machine-pools"]});
        let renamed = json!({"name": "capstan", "args": ["serve", "--control-plane", "--machine-pools"]});
        let other = json!({"name": "proxy", "args": ["serve", "--mirroring"]});
        for containers in [
            json!([server]),
            json!([sidecar, server]),
            json!([other, server]),
            json!([sidecar, command]),
            json!([both]),
            json!([sidecar, renamed]),
        ] {
            let found = features(&containers).unwrap();
            assert_eq!(found, ["admission", "control-plane", "machine-pools"], "{containers}");
        }
    }

    #[test]
    fn w110_no_feature_counts_as_dropped_if_the_flags_cannot_be_read() {
        let shell = json!({"name": "webhook", "command": ["sh", "-c", "capstan serve --control-plane"]});
        let renamed = json!({"name": "capstan", "args": ["serve"]});
        let other = json!({"name": "proxy", "args": ["serve"]});
        let wrapped = json!({"name": "webhook", "command": ["sh", "-c", "exec capstan serve --control-plane \"$@\""],
            "args": ["serve", "--namespace=a"]});
        let variable = json!({"name": "webhook", "args": ["serve", "$(FEATURE)"]});
        for (containers, reason) in [
            (
                json!([shell, other]),
                "its container webhook does not run capstan serve itself",
            ),
            (
                json!([wrapped]),
                "its container webhook does not run capstan serve itself",
            ),
            (
                json!([variable]),
                "its argument $(FEATURE) has the value of a variable, which is not known",
            ),
            (
                json!([{"name": "proxy"}]),
                "it has no container webhook, and none runs capstan serve itself",
            ),
            (
                json!([renamed, other]),
                "it has no container webhook, and 2 run capstan serve",
            ),
            (
                Value::Null,
                "it has no container webhook, and none runs capstan serve itself",
            ),
        ] {
            assert_eq!(features(&containers).unwrap_err(), reason, "{containers}");
        }
    }

    #[test]
    fn the_value_of_a_flag_is_a_part_of_it_or_the_next_argument() {
        let server = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "webhook", "args": ["serve", "--a=$$(b)", "--ab", "c", "--a", "d"]}]}}}});
        let flags = ServerFlags::of(&server).unwrap();
        assert_eq!(flags.values("--a").unwrap(), ["$(b)", "d"]);
        assert!(flags.has_value("--ab") && !flags.has_value("--b"));
    }

    #[test]
    fn w125_a_value_with_a_variable_is_not_known() {
        let server = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "webhook", "args": ["serve", "--enforcement=$(MODE)", "--namespace=$(POD_NAMESPACE)"]}]}}}});
        let flags = ServerFlags::of(&server).unwrap();
        assert_eq!(
            flags.values("--enforcement").unwrap_err(),
            "its argument --enforcement=$(MODE) has the value of a variable, which is not known"
        );
        assert!(flags.has_value("--namespace"));
        assert!(flags.values("--sync-identity").unwrap().is_empty());
    }
}
