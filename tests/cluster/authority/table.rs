//! The rows of the Converting Machine API to Cluster API enhancement: what is done to which object,
//! with the response to each of three users. The rows are those of the table in
//! `docs/both-apis.md`, and each row has an entry in each direction.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::objects::{
    CLUSTER_API, KINDS, MACHINE_API, cluster_api, cluster_api_resource, machine_api, machine_api_resource, status,
};
use super::world::{SYNC, World};

/// The API of the object that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    MachineApi,
    ClusterApi,
}
use Side::{ClusterApi, MachineApi};

impl Side {
    fn namespace(self) -> &'static str {
        match self {
            MachineApi => MACHINE_API,
            ClusterApi => CLUSTER_API,
        }
    }

    fn resource(self, kind: &str) -> String {
        match self {
            MachineApi => machine_api_resource(kind),
            ClusterApi => cluster_api_resource(kind),
        }
    }
}

/// The objects that exist before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Nothing,
    /// Only the object in Cluster API, unpaused. It is not mirrored.
    ClusterApiAlone,
    /// Only the object in the Machine API, with this authority. Its controllers have stopped if
    /// Cluster API is authoritative.
    MachineApiAlone(&'static str),
    /// The same with the authority ClusterAPI, but its controllers have not stopped yet.
    MachineApiRuns,
    /// Both objects, with this authority.
    Both(&'static str),
    /// Both objects with owners, with this authority.
    Owned(&'static str),
    /// Both objects, of which the conversion failed.
    Unsynchronized,
}
use Given::{Both, ClusterApiAlone, MachineApiAlone, MachineApiRuns, Nothing, Owned, Unsynchronized};

/// The request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The object in the Machine API is created with this authority.
    Create(&'static str),
    /// The object in Cluster API is created, paused or not.
    CreateOther {
        paused: bool,
    },
    /// The object in the Machine API is created with a status.
    CreateForged,
    /// A merge patch of the object, or of its status.
    Patch(&'static str),
    PatchStatus(&'static str),
    Delete,
}
use Action::{Create, CreateForged, CreateOther, Delete, Patch, PatchStatus};

/// The response to one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Allowed without a warning.
    Silent,
    /// Allowed, with this text in a warning.
    Warned(&'static str),
    /// Allowed, and the object has this authority.
    Defaulted(&'static str),
    /// Refused by this rule.
    Refused(&'static str),
}
use Verdict::{Defaulted, Refused, Silent, Warned};

/// Plain user, administrator, sync controller.
const USERS: [&str; 3] = ["alice", "admin", SYNC];

struct Row {
    /// The id in the documentation.
    rule: &'static str,
    side: Side,
    kinds: &'static [&'static str],
    given: Given,
    action: Action,
    /// In the order of [`USERS`].
    verdicts: [Verdict; 3],
}

const MACHINE: &[&str] = &["Machine"];
const PARENTS: &[&str] = &["MachineSet", "MachineHealthCheck"];
const ALL: &[&str] = &KINDS;
/// The warnings for the two kinds of parents differ after these words.
const STAYS: &str = "stays authoritative";
const SPEC: Action = Patch(r#"{"spec": {"fieldOfTomorrow": {"a": 1}}}"#);
const OWN_LABEL: Action = Patch(r#"{"metadata": {"labels": {"example.com/mine": "x"}}}"#);
const RESERVED_LABEL: Action = Patch(r#"{"metadata": {"labels": {"node-role.kubernetes.io/infra": ""}}}"#);
const CRITICAL_LABEL: Action = Patch(r#"{"metadata": {"labels": {"machine.openshift.io/cluster-api-cluster": "x"}}}"#);
const CONFLICTING_LABEL: Action = Patch(r#"{"metadata": {"labels": {"team": "red"}}}"#);
const OWN_ANNOTATION: Action = Patch(r#"{"metadata": {"annotations": {"example.com/mine": "x"}}}"#);
const RESERVED_ANNOTATION: Action = Patch(r#"{"metadata": {"annotations": {"x.openshift.io/a": "x"}}}"#);
const CRITICAL_ANNOTATION: Action =
    Patch(r#"{"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "yes"}}}"#);
const CONFLICTING_ANNOTATION: Action = Patch(r#"{"metadata": {"annotations": {"note": "another"}}}"#);
const UNPAUSE: Action = Patch(r#"{"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}"#);
const TO_MACHINE_API: Action = Patch(r#"{"spec": {"authoritativeAPI": "MachineAPI"}}"#);
const TO_CLUSTER_API: Action = Patch(r#"{"spec": {"authoritativeAPI": "ClusterAPI"}}"#);
const FORGE: Action = PatchStatus(r#"{"status": {"authoritativeAPI": "Migrating"}}"#);

const fn row(
    rule: &'static str,
    side: Side,
    kinds: &'static [&'static str],
    given: Given,
    action: Action,
    verdicts: [Verdict; 3],
) -> Row {
    Row {
        rule,
        side,
        kinds,
        given,
        action,
        verdicts,
    }
}

/// The same verdict for the two users, and one for the sync controller.
const fn except_sync(users: Verdict, sync: Verdict) -> [Verdict; 3] {
    [users, users, sync]
}

/// The same verdict for all three.
const fn all_users(verdict: Verdict) -> [Verdict; 3] {
    [verdict, verdict, verdict]
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("T1",  MachineApi, ALL, Nothing,                       Create("MachineAPI"), all_users(Silent)),
    row("T2",  MachineApi, ALL, ClusterApiAlone,               Create("MachineAPI"), all_users(Refused("authority-create-beside-cluster-api"))),
    row("T3",  MachineApi, ALL, ClusterApiAlone,               Create("ClusterAPI"), all_users(Silent)),
    row("T4",  MachineApi, ALL, Nothing,                       Create("ClusterAPI"), all_users(Silent)),
    row("T5",  MachineApi, ALL, ClusterApiAlone,               Create(""), all_users(Defaulted("ClusterAPI"))),
    row("T6",  MachineApi, ALL, Nothing,                       Create(""), all_users(Defaulted("MachineAPI"))),
    row("T7",  MachineApi, MACHINE, Owned("MachineAPI"),       Delete, except_sync(Warned("and so is Machine NAME in Cluster API"), Silent)),
    row("T7",  MachineApi, MACHINE, Owned("ClusterAPI"),       Delete, except_sync(Warned("and so is Machine NAME in Cluster API"), Silent)),
    row("T8",  MachineApi, MACHINE, Both("MachineAPI"),        Delete, except_sync(Warned("Machine NAME in Cluster API stays without an instance"), Silent)),
    row("T8",  MachineApi, MACHINE, Both("ClusterAPI"),        Delete, except_sync(Warned("only this mirror is deleted; Machine NAME in Cluster API stays authoritative"), Silent)),
    row("T9",  ClusterApi, ALL, Nothing,                       CreateOther { paused: false }, all_users(Silent)),
    row("T9",  ClusterApi, ALL, Nothing,                       CreateOther { paused: true }, all_users(Silent)),
    row("T10", ClusterApi, ALL, MachineApiAlone("MachineAPI"), CreateOther { paused: true }, all_users(Silent)),
    row("T10", ClusterApi, ALL, MachineApiAlone("MachineAPI"), CreateOther { paused: false }, except_sync(Refused("authority-capi-create-unpaused"), Silent)),
    row("T10", ClusterApi, ALL, MachineApiAlone("Migrating"),  CreateOther { paused: false }, except_sync(Refused("authority-capi-create-unpaused"), Silent)),
    row("T10", ClusterApi, ALL, MachineApiAlone(""),           CreateOther { paused: false }, except_sync(Refused("authority-capi-create-unpaused"), Silent)),
    row("T11", ClusterApi, ALL, MachineApiAlone("ClusterAPI"), CreateOther { paused: false }, all_users(Silent)),
    row("T11", ClusterApi, ALL, MachineApiAlone("ClusterAPI"), CreateOther { paused: true }, all_users(Silent)),
    row("T11", ClusterApi, &["Machine", "MachineSet"], MachineApiRuns, CreateOther { paused: false }, except_sync(Refused("authority-capi-create-unpaused"), Silent)),
    row("T12", ClusterApi, MACHINE, Owned("ClusterAPI"),       Delete, except_sync(Warned("and so is Machine NAME in the Machine API"), Silent)),
    row("T12", ClusterApi, MACHINE, Owned("MachineAPI"),       Delete, except_sync(Warned("and so is Machine NAME in the Machine API"), Silent)),
    row("T13", ClusterApi, MACHINE, Both("ClusterAPI"),        Delete, except_sync(Warned("Machine NAME in the Machine API stays, and the sync controller recreates this Machine"), Silent)),
    row("T13", ClusterApi, MACHINE, Both("MachineAPI"),        Delete, except_sync(Warned("only this mirror is deleted, and the sync controller recreates it"), Silent)),

    row("A1",  MachineApi, ALL, Both("ClusterAPI"), SPEC, except_sync(Refused("authority-spec-locked"), Silent)),
    row("A1",  ClusterApi, ALL, Both("MachineAPI"), SPEC, except_sync(Refused("authority-capi-spec-locked"), Silent)),
    row("A1",  MachineApi, ALL, Both("Migrating"),  SPEC, except_sync(Refused("authority-spec-locked"), Silent)),
    row("A1",  ClusterApi, ALL, Both("Migrating"),  SPEC, except_sync(Refused("authority-capi-spec-locked"), Silent)),
    row("A1",  MachineApi, ALL, Both("MachineAPI"), SPEC, all_users(Silent)),
    row("A1",  ClusterApi, ALL, Both("ClusterAPI"), SPEC, except_sync(Warned("the mirror in the Machine API cannot be synchronized"), Silent)),
    row("A2",  MachineApi, ALL, Both("ClusterAPI"), OWN_LABEL, all_users(Silent)),
    row("A2",  ClusterApi, ALL, Both("MachineAPI"), OWN_LABEL, all_users(Silent)),
    row("A3",  MachineApi, ALL, Both("ClusterAPI"), RESERVED_LABEL, except_sync(Refused("authority-reserved-labels"), Silent)),
    row("A3",  ClusterApi, ALL, Both("MachineAPI"), RESERVED_LABEL, except_sync(Refused("authority-capi-reserved-labels"), Silent)),
    row("A3",  MachineApi, ALL, Both("ClusterAPI"), CRITICAL_LABEL, except_sync(Refused("authority-reserved-labels"), Silent)),
    row("A3",  ClusterApi, ALL, Both("MachineAPI"), CRITICAL_LABEL, except_sync(Refused("authority-capi-reserved-labels"), Silent)),
    row("A4",  MachineApi, ALL, Both("ClusterAPI"), CONFLICTING_LABEL, except_sync(Refused("authority-label-conflict"), Silent)),
    row("A4",  ClusterApi, ALL, Both("MachineAPI"), CONFLICTING_LABEL, except_sync(Refused("authority-label-conflict"), Silent)),
    row("A5",  MachineApi, ALL, Both("ClusterAPI"), OWN_ANNOTATION, all_users(Silent)),
    row("A5",  ClusterApi, ALL, Both("MachineAPI"), OWN_ANNOTATION, all_users(Silent)),
    row("A6",  MachineApi, ALL, Both("ClusterAPI"), RESERVED_ANNOTATION, except_sync(Refused("authority-reserved-annotations"), Silent)),
    row("A6",  ClusterApi, ALL, Both("MachineAPI"), RESERVED_ANNOTATION, except_sync(Refused("authority-capi-reserved-annotations"), Silent)),
    row("A6",  MachineApi, ALL, Both("ClusterAPI"), CRITICAL_ANNOTATION, except_sync(Refused("authority-reserved-annotations"), Silent)),
    row("A6",  ClusterApi, ALL, Both("MachineAPI"), CRITICAL_ANNOTATION, except_sync(Refused("authority-capi-reserved-annotations"), Silent)),
    row("A7",  MachineApi, ALL, Both("ClusterAPI"), CONFLICTING_ANNOTATION, except_sync(Refused("authority-annotation-conflict"), Silent)),
    row("A7",  ClusterApi, ALL, Both("MachineAPI"), CONFLICTING_ANNOTATION, except_sync(Refused("authority-annotation-conflict"), Silent)),
    row("A8",  MachineApi, PARENTS, Both("ClusterAPI"), TO_MACHINE_API, all_users(Defaulted("MachineAPI"))),
    row("A8",  MachineApi, MACHINE, Both("ClusterAPI"), TO_MACHINE_API, all_users(Defaulted("MachineAPI"))),
    row("A8",  MachineApi, ALL, Both("Migrating"),  TO_MACHINE_API, all_users(Warned("cancelled"))),
    row("A9",  ClusterApi, ALL, Both("MachineAPI"), UNPAUSE, except_sync(Refused("authority-capi-reserved-annotations"), Silent)),
    row("A9",  ClusterApi, ALL, Both("Migrating"),  UNPAUSE, except_sync(Refused("authority-capi-reserved-annotations"), Silent)),
    row("A10", MachineApi, ALL, Nothing,            CreateForged, except_sync(Warned("status.authoritativeAPI: dropped"), Silent)),
    row("A10", MachineApi, ALL, Both("MachineAPI"), FORGE, except_sync(Refused("authority-status-forged"), Silent)),
    row("A10", MachineApi, ALL, Both("ClusterAPI"), FORGE, except_sync(Refused("authority-status-forged"), Silent)),
    row("A11", MachineApi, PARENTS, Both("ClusterAPI"), Delete, except_sync(Warned(STAYS), Silent)),
    row("A11", ClusterApi, PARENTS, Both("MachineAPI"), Delete, except_sync(Warned(STAYS), Silent)),
    row("A12", MachineApi, ALL, Unsynchronized,             TO_CLUSTER_API, all_users(Warned("FailedToConvert: no such thing"))),
    row("A13", MachineApi, ALL, MachineApiAlone("MachineAPI"), Delete, all_users(Silent)),
    row("A13", ClusterApi, ALL, ClusterApiAlone,    Delete, all_users(Silent)),
    row("A13", MachineApi, PARENTS, Both("MachineAPI"), Delete, except_sync(Warned("is deleted too"), Silent)),
    row("A13", ClusterApi, PARENTS, Both("ClusterAPI"), Delete, except_sync(Warned("is deleted too"), Silent)),
];

/// Rules that apply to one API only, with the API.
const ONE_SIDED: &[(&str, Side)] = &[
    ("A8", MachineApi),
    ("A9", ClusterApi),
    ("A10", MachineApi),
    ("A12", MachineApi),
];

/// The identifiers of the rows in the documentation.
fn documented() -> Vec<String> {
    let page = include_str!("../../../docs/both-apis.md");
    let section = page
        .split("## The document, row by row")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    // A table about other tests follows.
    let section = section.split("| rows | kind |").next().unwrap();
    let cells = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.filter(|cell| *cell != "rule").map(str::to_owned).collect()
}

#[test]
fn the_table_and_the_documentation_have_the_same_rows_in_each_direction() {
    let documented = documented();
    let listed: BTreeSet<&str> = TABLE.iter().map(|row| row.rule).collect();
    assert_eq!(documented.len(), 13 + 13, "{documented:?}");
    for number in 1..=13 {
        assert!(documented.contains(&format!("T{number}")) && documented.contains(&format!("A{number}")));
    }
    assert_eq!(listed, documented.iter().map(String::as_str).collect());
    for rule in documented.iter().filter(|rule| rule.starts_with('A')) {
        let sides: BTreeSet<Side> = TABLE
            .iter()
            .filter(|row| row.rule == rule)
            .map(|row| row.side)
            .collect();
        let one_sided = ONE_SIDED.iter().find(|(name, _)| name == rule);
        let expected = match one_sided {
            Some((_, side)) => BTreeSet::from([*side]),
            None => BTreeSet::from([MachineApi, ClusterApi]),
        };
        assert_eq!(sides, expected, "{rule}");
    }
}

/// The objects that exist before, each with its status. Each row has its own name.
fn given(row: &Row, kind: &str, name: &str, owners: &[Value; 2]) -> Vec<(Value, Option<Value>)> {
    let machine_api_object = |authority: &str, runs: bool| {
        let desired = if authority == "Migrating" {
            "ClusterAPI"
        } else {
            authority
        };
        let mut written_status = status(authority);
        written_status["conditions"][0]["status"] = json!(if runs { "False" } else { "True" });
        let written_status = Some(written_status).filter(|_| !authority.is_empty());
        (machine_api(kind, name, desired), written_status)
    };
    // Both objects, with an equal annotation.
    let both = |authority: &'static str| {
        let provisioned = json!({"initialization": {"infrastructureProvisioned": true}});
        let provisioned = Some(provisioned).filter(|_| kind == "Machine");
        let mut both = vec![
            machine_api_object(authority, authority == "MachineAPI"),
            (cluster_api(kind, name, authority != "ClusterAPI"), provisioned),
        ];
        for (object, _) in &mut both {
            object["metadata"]["annotations"]["note"] = json!("one");
        }
        both
    };
    match row.given {
        Nothing => Vec::new(),
        ClusterApiAlone => vec![(cluster_api(kind, name, false), None)],
        MachineApiAlone(authority) => vec![machine_api_object(authority, authority == "MachineAPI")],
        MachineApiRuns => vec![machine_api_object("ClusterAPI", true)],
        Both(authority) => both(authority),
        Owned(authority) => {
            let mut both = both(authority);
            for ((object, _), owner) in both.iter_mut().zip(owners) {
                object["metadata"]["ownerReferences"] = json!([owner]);
            }
            both
        }
        Unsynchronized => {
            let mut both = both("MachineAPI");
            let condition = json!({"type": "Synchronized", "status": "False", "reason": "FailedToConvert",
                "message": "no such thing"});
            both[0].1.as_mut().unwrap()["conditions"][1] = condition;
            both
        }
    }
}

/// The arguments and the input of kubectl for a dry run.
fn call(row: &Row, kind: &str, name: &str) -> (Vec<String>, String) {
    let (namespace, resource) = (row.side.namespace(), row.side.resource(kind));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let create = |object: Value| {
        let create = ["create", "--dry-run=server", "-o", "yaml", "-f", "-"];
        (words(&create), object.to_string())
    };
    let patch = |patch: &str, more: &[&str]| {
        let patch = [
            "patch",
            "-n",
            namespace,
            &resource,
            name,
            "--dry-run=server",
            "--type=merge",
            "-p",
            patch,
            "-o",
            "yaml",
        ];
        (words(&[&patch[..], more].concat()), String::new())
    };
    match row.action {
        Create(authority) => create(machine_api(kind, name, authority)),
        CreateOther { paused } => create(cluster_api(kind, name, paused)),
        CreateForged => {
            let mut forged = machine_api(kind, name, "MachineAPI");
            forged["status"] = json!({"authoritativeAPI": "ClusterAPI", "synchronizedGeneration": 7});
            create(forged)
        }
        Patch(text) => patch(text, &[]),
        PatchStatus(text) => patch(text, &["--subresource=status"]),
        Delete => {
            let delete = ["delete", "-n", namespace, &resource, name, "--dry-run=server"];
            (words(&delete), String::new())
        }
    }
}

#[tokio::test]
async fn every_row_of_the_document_gets_the_documented_response() {
    let world = World::whole().await;
    world.pair("MachineSet", "table-owner", "MachineAPI").await;
    let cases: Vec<(usize, &Row, &str)> = TABLE
        .iter()
        .enumerate()
        .flat_map(|(number, row)| row.kinds.iter().map(move |kind| (number, row, *kind)))
        .collect();
    let name = |number: usize, row: &Row| format!("table-{}-{number}", row.rule.to_lowercase());
    let owner = async |side: Side| {
        let set = side.resource("MachineSet");
        world.owner(side.namespace(), &set, "table-owner").await
    };
    let owners = [owner(MachineApi).await, owner(ClusterApi).await];
    let objects: Vec<(Value, Option<Value>)> = cases
        .iter()
        .flat_map(|(number, row, kind)| given(row, kind, &name(*number, row), &owners))
        .collect();
    world.store_all(&objects).await;
    // From here on the server's caches contain all objects, so no request is repeated.
    world.settle("table").await;
    let mut wrong = Vec::new();
    for (number, row, kind) in &cases {
        let name = name(*number, row);
        let (arguments, stdin) = call(row, kind, &name);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        for (user, expected) in USERS.iter().zip(row.verdicts) {
            let output = world.run(user, &arguments, &stdin).await;
            let (allowed, stderr) = (output.success(), &output.stderr);
            let right = match expected {
                Silent => allowed && !stderr.contains("Warning"),
                Warned(text) => {
                    let text = text.replace("NAME", &name);
                    let warned = |line: &str| line.starts_with("Warning: ") && line.contains(&text);
                    allowed && stderr.lines().any(warned)
                }
                Defaulted(api) => allowed && output.stdout.contains(&format!("\n  authoritativeAPI: {api}\n")),
                Refused(rule) => !allowed && stderr.contains(&format!("[{rule}]")),
            };
            if !right {
                wrong.push(format!(
                    "{} {kind} as {user}: expected {expected:?}: {output}",
                    row.rule
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len() * 3,
        wrong.join("\n")
    );
}

/// The API server drops a status at creation.
#[tokio::test]
async fn a_status_that_the_sync_controller_sends_at_creation_is_dropped() {
    let world = World::whole().await;
    for kind in KINDS {
        let mut forged = machine_api(kind, "table-forged", "MachineAPI");
        forged["status"] = json!({"authoritativeAPI": "ClusterAPI", "synchronizedGeneration": 7});
        let create = ["create", "--dry-run=server", "-o", "yaml", "-f", "-"];
        let output = world.allows(SYNC, &create, &forged.to_string()).await;
        assert!(!output.stdout.contains("synchronizedGeneration"), "{output}");
    }
}
