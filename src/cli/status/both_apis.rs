//! `capstan status --both-apis`: one line for each Machine, MachineSet, and MachineHealthCheck that
//! exists in the Machine API and in Cluster API.

use std::collections::BTreeMap;

use anyhow::Context as _;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::authority::overview::{Row, row};
use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::Kind;
use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::cli::cluster::CONNECT;
use crate::cli::observe::ObservedCluster;
use crate::runtime::api;

/// The kinds, in both APIs.
const KINDS: [(Kind, &KindInfo, &KindInfo); 3] = [
    (Kind::MachineSet, &kinds::MACHINE_SETS, &kinds::CLUSTER_API_MACHINE_SETS),
    (Kind::Machine, &kinds::MACHINES, &kinds::CLUSTER_API_MACHINES),
    (
        Kind::MachineHealthCheck,
        &kinds::MACHINE_HEALTH_CHECKS,
        &kinds::CLUSTER_API_MACHINE_HEALTH_CHECKS,
    ),
];
/// How many objects one request lists.
const PAGE: u32 = 500;

/// The rows of a cluster.
///
/// # Errors
/// The cluster cannot be read.
pub(super) async fn rows(cluster: &ObservedCluster) -> anyhow::Result<Vec<Row>> {
    let client = cluster.connection().connect(CONNECT).await?.client;
    let scope = cluster.scope();
    let mut rows = Vec::new();
    for (kind, machine_api, cluster_api) in KINDS {
        let mirrors = list(&client, cluster_api, &scope.authority.cluster_api_namespace).await?;
        for (name, object) in list(&client, machine_api, &scope.namespace).await? {
            let mirror = mirrors.get(&name);
            let is_mirrored = object.member.status_authority.is_some() || mirror.is_some();
            if is_mirrored {
                rows.push(row(kind, &object, mirror));
            }
        }
    }
    Ok(rows)
}

/// The objects of a kind, by name. A kind that the cluster does not serve has none.
async fn list(client: &kube::Client, kind: &KindInfo, namespace: &str) -> anyhow::Result<BTreeMap<String, FullObject>> {
    let objects: kube::Api<DynamicObject> = api(client, kind, Some(namespace));
    let mut found = BTreeMap::new();
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = match objects.list(&parameters).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(found),
            Err(error) => return Err(error).with_context(|| format!("listing {}", kind.plural)),
        };
        for object in page.items {
            let name = object.metadata.name.clone().unwrap_or_default();
            let value: Value = serde_json::to_value(object).with_context(|| format!("reading {} {name}", kind.kind))?;
            found.insert(name, FullObject::from(value));
        }
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => parameters = parameters.continue_token(&more),
            None => return Ok(found),
        }
    }
}

/// The rows as JSON.
pub(super) fn as_json(rows: &[Row]) -> Value {
    json!({"pairs": rows.iter().map(Row::to_value).collect::<Vec<_>>()})
}

/// The rows as a table.
pub(super) fn as_text(rows: &[Row], now: Timestamp) -> String {
    if rows.is_empty() {
        return String::from("No object exists in both APIs\n");
    }
    let head = [
        "KIND",
        "NAME",
        "AUTHORITATIVE",
        "SYNCHRONIZED",
        "PAUSED",
        "REQUESTED",
        "SINCE",
        "REASON",
    ];
    let mut lines: Vec<[String; 8]> = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| cells(row, now)));
    let mut widths = [0; 8];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let joined = cells.collect::<Vec<_>>().join("  ");
        text.push_str(joined.trim_end());
        text.push('\n');
    }
    text
}

fn cells(row: &Row, now: Timestamp) -> [String; 8] {
    let paused = match row.paused.is_empty() {
        true => String::from("-"),
        false => row.paused.join(","),
    };
    let since = row.since.map_or_else(|| String::from("-"), |since| age(since, now));
    [
        row.kind.to_owned(),
        row.name.clone(),
        row.authoritative.clone(),
        row.synchronized.clone(),
        paused,
        row.requested.unwrap_or("-").to_owned(),
        since,
        row.reason.clone(),
    ]
}

/// A time that has passed, as kubectl shows it: `5s`, `12m`, `3h`, `4d`.
fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_second() - since.as_second()).max(0);
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_pair() {
        let row = Row {
            kind: "Machine",
            name: String::from("a"),
            authoritative: String::from("MachineAPI"),
            synchronized: String::from("False"),
            paused: vec!["ClusterAPI"],
            requested: Some("ClusterAPI"),
            since: Timestamp::from_second(1000).ok(),
            reason: String::from("R: spec.x: m"),
        };
        let text = as_text(&[row], Timestamp::from_second(1000 + 3 * 3600).unwrap());
        let expected = "\
KIND     NAME  AUTHORITATIVE  SYNCHRONIZED  PAUSED      REQUESTED   SINCE  REASON
Machine  a     MachineAPI     False         ClusterAPI  ClusterAPI  3h     R: spec.x: m
";
        assert_eq!(text, expected);
        assert_eq!(as_text(&[], Timestamp::UNIX_EPOCH), "No object exists in both APIs\n");
    }
}
