//! How the configuration of CoreDNS changes with its version: options and plugins that a version
//! does not have any more are removed or replaced, and the defaults that it needs are added.
//!
//! A configuration that no rule concerns stays as it is, with its comments. A deprecated option
//! stays until a version ignores or refuses it. Source: the release notes of CoreDNS, as
//! corefile-migration 1.0.34 applies them.

use super::corefile::{Corefile, Line, Plugin, Server};
use crate::kcp::version::Version;

/// A change that the versions from the first to the last one make.
struct Rule {
    first: [u64; 3],
    last: [u64; 3],
    apply: fn(&mut Corefile) -> Result<(), String>,
}

const fn rule(first: [u64; 3], last: [u64; 3], apply: fn(&mut Corefile) -> Result<(), String>) -> Rule {
    Rule { first, last, apply }
}

/// The version of a rule that concerns all later versions.
const NEWEST: [u64; 3] = [u64::MAX, 0, 0];

/// The rules, in the order of their first versions.
const RULES: &[Rule] = &[
    rule([1, 1, 4], [1, 3, 1], without_https_google),
    rule([1, 2, 1], [1, 2, 1], add_loop),
    rule([1, 4, 0], NEWEST, one_endpoint),
    rule([1, 4, 0], [1, 4, 0], split_stub_domains),
    rule([1, 5, 0], [1, 7, 1], without_upstream),
    rule([1, 5, 0], [1, 5, 0], proxy_to_forward),
    rule([1, 5, 0], [1, 5, 0], add_ready),
    rule([1, 5, 0], [1, 5, 0], split_stub_domains),
    rule([1, 6, 0], [1, 7, 1], without_resync_period),
    rule([1, 6, 5], [1, 6, 5], add_lameduck),
    rule([1, 7, 0], [1, 7, 0], add_max_concurrent),
    rule([1, 8, 0], [1, 8, 0], transfer_plugin),
];

/// The configuration for another version.
///
/// # Errors
/// Why the configuration cannot be migrated.
pub(super) fn migrate(from: &Version, to: &Version, text: &str) -> Result<String, String> {
    let refused = |problem: String| format!("the Corefile {problem}");
    let before = Corefile::parse(text).map_err(refused)?;
    let mut file = before.clone();
    // A version between the two lies in the range of the rule.
    let concerned = RULES
        .iter()
        .filter(|rule| from.core < to.core && from.core < rule.last && rule.first <= to.core);
    for rule in concerned {
        (rule.apply)(&mut file).map_err(refused)?;
    }
    Ok(if file == before { text.to_owned() } else { file.text() })
}

fn plugins<'f>(file: &'f mut Corefile, name: &'static str) -> impl Iterator<Item = &'f mut Plugin> {
    let plugins = file.servers.iter_mut().flat_map(|server| &mut server.plugins);
    plugins.filter(move |plugin| plugin.name == name)
}

fn without_option(file: &mut Corefile, plugin: &'static str, option: &str) {
    for plugin in plugins(file, plugin) {
        plugin.options.retain(|one| one.name != option);
    }
}

fn without_https_google(file: &mut Corefile) -> Result<(), String> {
    let is_google = |option: &Line| {
        option.name == "protocol" && option.arguments.first().map(String::as_str) == Some("https_google")
    };
    for proxy in plugins(file, "proxy") {
        proxy.options.retain(|option| !is_google(option));
    }
    Ok(())
}

fn add_loop(file: &mut Corefile) -> Result<(), String> {
    add(file, "loop", |server| server.has("forward") || server.has("proxy"));
    Ok(())
}

fn add_ready(file: &mut Corefile) -> Result<(), String> {
    add(file, "ready", |server| server.has("kubernetes"));
    Ok(())
}

/// Adds a plugin to the server blocks that need it and do not have it.
fn add(file: &mut Corefile, plugin: &str, needs: impl Fn(&Server) -> bool) {
    let servers = file.servers.iter_mut();
    for server in servers.filter(|server| !server.has(plugin) && needs(server)) {
        server.plugins.push(Plugin::new(plugin, &[]));
    }
}

fn one_endpoint(file: &mut Corefile) -> Result<(), String> {
    for kubernetes in plugins(file, "kubernetes") {
        for option in kubernetes.options.iter_mut().filter(|option| option.name == "endpoint") {
            option.arguments.truncate(1);
        }
    }
    Ok(())
}

fn without_upstream(file: &mut Corefile) -> Result<(), String> {
    without_option(file, "kubernetes", "upstream");
    Ok(())
}

fn without_resync_period(file: &mut Corefile) -> Result<(), String> {
    without_option(file, "kubernetes", "resyncperiod");
    Ok(())
}

/// The plugin `proxy` became `forward`, which has other options.
fn proxy_to_forward(file: &mut Corefile) -> Result<(), String> {
    for plugin in plugins(file, "proxy") {
        plugin.name = String::from("forward");
        plugin.options = plugin.options.iter().filter_map(of_forward).collect();
    }
    Ok(())
}

fn of_forward(option: &Line) -> Option<Line> {
    let arguments: Vec<&str> = option.arguments.iter().map(String::as_str).collect();
    match (option.name.as_str(), arguments.as_slice()) {
        ("policy", ["least_conn"]) | ("protocol", ["force_tcp", _, ..]) => Some(Line::new("force_tcp", &[])),
        ("fail_timeout" | "max_fails" | "health_check" | "spray" | "protocol", _) => None,
        _ => Some(option.clone()),
    }
}

/// A server block forwards one zone. Others get a block of their own.
fn split_stub_domains(file: &mut Corefile) -> Result<(), String> {
    let mut added = Vec::new();
    for server in &mut file.servers {
        let is_default = matches!(server.zones.as_slice(), [zone] if matches!(zone.as_str(), "." | ".:53"));
        let mut kept = Vec::new();
        for mut plugin in std::mem::take(&mut server.plugins) {
            if plugin.name != "forward" {
                kept.push(plugin);
                continue;
            }
            let zone = plugin.arguments.first_mut();
            let zone = zone.ok_or("must name the zone of each plugin forward")?;
            if zone == "." {
                kept.push(plugin);
                continue;
            }
            if !is_default {
                return Err(format!(
                    "must forward {zone} in the block of the zone \".\": other blocks are not split"
                ));
            }
            let zones = vec![std::mem::replace(zone, String::from("."))];
            let others = [
                Plugin::new("loop", &[]),
                Plugin::new("errors", &[]),
                Plugin::new("cache", &["30"]),
            ];
            added.push(Server {
                zones,
                plugins: [plugin].into_iter().chain(others).collect(),
            });
        }
        server.plugins = kept;
    }
    file.servers.extend(added);
    Ok(())
}

fn add_lameduck(file: &mut Corefile) -> Result<(), String> {
    for health in plugins(file, "health").filter(|plugin| !plugin.has("lameduck")) {
        health.options.push(Line::new("lameduck", &["5s"]));
    }
    Ok(())
}

fn add_max_concurrent(file: &mut Corefile) -> Result<(), String> {
    for forward in plugins(file, "forward").filter(|plugin| !plugin.has("max_concurrent")) {
        forward.options.push(Line::new("max_concurrent", &["1000"]));
    }
    Ok(())
}

/// The option `transfer` of the plugin `kubernetes` became a plugin.
fn transfer_plugin(file: &mut Corefile) -> Result<(), String> {
    for server in &mut file.servers {
        let mut found = None;
        for kubernetes in server.plugins.iter_mut().filter(|plugin| plugin.name == "kubernetes") {
            let zone = kubernetes.arguments.first().cloned();
            let options = std::mem::take(&mut kubernetes.options);
            let (transfers, rest): (Vec<Line>, Vec<Line>) =
                options.into_iter().partition(|option| option.name == "transfer");
            kubernetes.options = rest;
            let targets = transfers.into_iter().next_back();
            let targets: Option<Vec<String>> = targets.map(|line| line.arguments.into_iter().skip(1).collect());
            found = zone.zip(targets).filter(|(_, targets)| !targets.is_empty()).or(found);
        }
        if let Some((zone, targets)) = found {
            server.plugins.push(Plugin {
                name: String::from("transfer"),
                arguments: vec![zone],
                options: vec![Line {
                    name: String::from("to"),
                    arguments: targets,
                }],
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated(from: &str, to: &str, text: &str) -> Result<String, String> {
        migrate(&Version::strict(from).unwrap(), &Version::strict(to).unwrap(), text)
    }

    #[test]
    fn the_configuration_of_an_old_kubernetes_reaches_a_new_core_dns() {
        let old = ".:53 {
    errors
    health
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        upstream
        resyncperiod 30s
        endpoint a b
        transfer to 10.0.0.1 10.0.0.2
        fallthrough in-addr.arpa ip6.arpa
    }
    prometheus :9153
    proxy example.org 10.1.0.1 {
        policy least_conn
        max_fails 3
    }
    proxy . /etc/resolv.conf {
        protocol https_google
    }
    cache 30
}
";
        let new = ".:53 {
    errors
    health {
        lameduck 5s
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        endpoint a
        fallthrough in-addr.arpa ip6.arpa
    }
    prometheus :9153
    forward . /etc/resolv.conf {
        max_concurrent 1000
    }
    cache 30
    loop
    ready
    transfer cluster.local {
        to 10.0.0.1 10.0.0.2
    }
}

example.org {
    forward . 10.1.0.1 {
        force_tcp
        max_concurrent 1000
    }
    loop
    errors
    cache 30
}
";
        assert_eq!(migrated("1.1.3", "1.12.1", old).unwrap(), new);
        // Nothing is left to migrate.
        assert_eq!(migrated("1.1.3", "1.12.1", new).unwrap(), new);
        assert_eq!(migrated("1.8.0", "1.12.1", new).unwrap(), new);
    }

    #[test]
    fn a_configuration_that_stays_keeps_its_comments() {
        let text = "# ours\n.:53 {\n  forward . /etc/resolv.conf # fast\n}\n";
        assert_eq!(migrated("1.8.0", "1.12.1", text).unwrap(), text);
        assert_eq!(migrated("1.6.5", "1.6.5", text).unwrap(), text);
        assert!(migrated("1.6.5", "1.7.0", text).unwrap().contains("max_concurrent"));
    }

    #[test]
    fn a_stub_domain_in_another_block_is_refused() {
        let refused = migrated("1.3.1", "1.4.0", "a.example.org {\n forward b.example.org 10.0.0.1\n}").unwrap_err();
        assert!(refused.contains("b.example.org"), "{refused}");
    }
}
