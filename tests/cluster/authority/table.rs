//! The document, row by row: one table of what is done to what, with the answer to each of three users. The rows are those of
//! "The document, row by row" in `docs/both-apis.md`; none is without an entry, in no direction.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::objects::{
    CLUSTER_API, KINDS, MACHINE_API, cluster_api, cluster_api_resource, machine_api, machine_api_resource, status,
};
use super::world::{SYNC, World};

/// Whose object it is that something is done to.
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

/// What is there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Nothing,
    /// Cluster API's half alone, unpaused: it leads itself.
    ClusterApiAlone,
    /// The Machine API's half alone, of which this API leads; its controllers have stopped where it does not lead.
    MachineApiAlone(&'static str),
    /// The same, but its controllers have not stopped yet.
    MachineApiRuns,
    /// Both halves, of which this API leads.
    Both(&'static str),
    /// Both halves with owners, likewise.
    Owned(&'static str),
    /// Both halves, which the conversion could not make alike.
    Unlike,
}
use Given::{Both, ClusterApiAlone, MachineApiAlone, MachineApiRuns, Nothing, Owned, Unlike};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The Machine API's half is created with this authority.
    Create(&'static str),
    /// Cluster API's half is created, paused or not.
    CreateOther {
        paused: bool,
    },
    /// The Machine API's half is created with a status.
    CreateForged,
    /// A merge patch of the object, or of its status.
    Patch(&'static str),
    PatchStatus(&'static str),
    Delete,
}
use Action::{Create, CreateForged, CreateOther, Delete, Patch, PatchStatus};

/// The answer to one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Allowed, and nothing is said.
    Silent,
    /// Allowed, and these words are in a warning.
    Told(&'static str),
    /// Allowed, and the object comes with this authority.
    Filled(&'static str),
    /// Refused by this rule.
    Refused(&'static str),
}
use Verdict::{Filled, Refused, Silent, Told};

/// Plain user, administrator, sync controller.
const USERS: [&str; 3] = ["alice", "admin", SYNC];

struct Row {
    /// As in the documentation.
    rule: &'static str,
    side: Side,
    kinds: &'static [&'static str],
    given: Given,
    action: Action,
    /// In the order of [`USERS`].
    answers: [Verdict; 3],
}

const MACHINE: &[&str] = &["Machine"];
const PARENTS: &[&str] = &["MachineSet", "MachineHealthCheck"];
const ALL: &[&str] = &KINDS;
/// What is said of a copy of a MachineHealthCheck differs in its last word.
const STAYS: &str = "leads";
const SPEC: Action = Patch(r#"{"spec": {"fieldOfTomorrow": {"a": 1}}}"#);
const OWN_LABEL: Action = Patch(r#"{"metadata": {"labels": {"example.com/mine": "x"}}}"#);
const RESERVED_LABEL: Action = Patch(r#"{"metadata": {"labels": {"node-role.kubernetes.io/infra": ""}}}"#);
const CRITICAL_LABEL: Action = Patch(r#"{"metadata": {"labels": {"machine.openshift.io/cluster-api-cluster": "x"}}}"#);
const LABEL_OF_THE_OTHER: Action = Patch(r#"{"metadata": {"labels": {"team": "red"}}}"#);
const OWN_ANNOTATION: Action = Patch(r#"{"metadata": {"annotations": {"example.com/mine": "x"}}}"#);
const RESERVED_ANNOTATION: Action = Patch(r#"{"metadata": {"annotations": {"x.openshift.io/a": "x"}}}"#);
const CRITICAL_ANNOTATION: Action =
    Patch(r#"{"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "yes"}}}"#);
const ANNOTATION_OF_THE_OTHER: Action = Patch(r#"{"metadata": {"annotations": {"note": "another"}}}"#);
const UNPAUSE: Action = Patch(r#"{"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}"#);
const TO_MACHINE_API: Action = Patch(r#"{"spec": {"authoritativeAPI": "MachineAPI"}}"#);
const TO_CLUSTER_API: Action = Patch(r#"{"spec": {"authoritativeAPI": "ClusterAPI"}}"#);
const DECIDE: Action = PatchStatus(r#"{"status": {"authoritativeAPI": "Migrating"}}"#);

const fn row(
    rule: &'static str,
    side: Side,
    kinds: &'static [&'static str],
    given: Given,
    action: Action,
    answers: [Verdict; 3],
) -> Row {
    Row {
        rule,
        side,
        kinds,
        given,
        action,
        answers,
    }
}

/// Two users alike, and the sync controller.
const fn but_for_sync(users: Verdict, sync: Verdict) -> [Verdict; 3] {
    [users, users, sync]
}

/// Everybody alike.
const fn everybody(verdict: Verdict) -> [Verdict; 3] {
    [verdict, verdict, verdict]
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("T1",  MachineApi, ALL, Nothing,                       Create("MachineAPI"), everybody(Silent)),
    row("T2",  MachineApi, ALL, ClusterApiAlone,               Create("MachineAPI"), everybody(Refused("authority-create-beside-cluster-api"))),
    row("T3",  MachineApi, ALL, ClusterApiAlone,               Create("ClusterAPI"), everybody(Silent)),
    row("T4",  MachineApi, ALL, Nothing,                       Create("ClusterAPI"), everybody(Silent)),
    row("T5",  MachineApi, ALL, ClusterApiAlone,               Create(""), everybody(Filled("ClusterAPI"))),
    row("T6",  MachineApi, ALL, Nothing,                       Create(""), everybody(Filled("MachineAPI"))),
    row("T7",  MachineApi, MACHINE, Owned("MachineAPI"),       Delete, but_for_sync(Told("and Cluster API's Machine NAME with it"), Silent)),
    row("T7",  MachineApi, MACHINE, Owned("ClusterAPI"),       Delete, but_for_sync(Told("and Cluster API's Machine NAME with it"), Silent)),
    row("T8",  MachineApi, MACHINE, Both("MachineAPI"),        Delete, but_for_sync(Told("Cluster API's Machine NAME stays, without an instance"), Silent)),
    row("T8",  MachineApi, MACHINE, Both("ClusterAPI"),        Delete, but_for_sync(Told("only this copy is deleted; Cluster API's Machine NAME stays, leads"), Silent)),
    row("T9",  ClusterApi, ALL, Nothing,                       CreateOther { paused: false }, everybody(Silent)),
    row("T9",  ClusterApi, ALL, Nothing,                       CreateOther { paused: true }, everybody(Silent)),
    row("T10", ClusterApi, ALL, MachineApiAlone("MachineAPI"), CreateOther { paused: true }, everybody(Silent)),
    row("T10", ClusterApi, ALL, MachineApiAlone("MachineAPI"), CreateOther { paused: false }, but_for_sync(Refused("authority-capi-create-unpaused"), Silent)),
    row("T10", ClusterApi, ALL, MachineApiAlone("Migrating"),  CreateOther { paused: false }, but_for_sync(Refused("authority-capi-create-unpaused"), Silent)),
    row("T10", ClusterApi, ALL, MachineApiAlone(""),           CreateOther { paused: false }, but_for_sync(Refused("authority-capi-create-unpaused"), Silent)),
    row("T11", ClusterApi, ALL, MachineApiAlone("ClusterAPI"), CreateOther { paused: false }, everybody(Silent)),
    row("T11", ClusterApi, ALL, MachineApiAlone("ClusterAPI"), CreateOther { paused: true }, everybody(Silent)),
    row("T11", ClusterApi, &["Machine", "MachineSet"], MachineApiRuns, CreateOther { paused: false }, but_for_sync(Refused("authority-capi-create-unpaused"), Silent)),
    row("T12", ClusterApi, MACHINE, Owned("ClusterAPI"),       Delete, but_for_sync(Told("and the Machine API's Machine NAME with it"), Silent)),
    row("T12", ClusterApi, MACHINE, Owned("MachineAPI"),       Delete, but_for_sync(Told("and the Machine API's Machine NAME with it"), Silent)),
    row("T13", ClusterApi, MACHINE, Both("ClusterAPI"),        Delete, but_for_sync(Told("the Machine API's Machine NAME stays, and this Machine is made again"), Silent)),
    row("T13", ClusterApi, MACHINE, Both("MachineAPI"),        Delete, but_for_sync(Told("only this copy is deleted, and made again"), Silent)),

    row("A1",  MachineApi, ALL, Both("ClusterAPI"), SPEC, but_for_sync(Refused("authority-spec-locked"), Silent)),
    row("A1",  ClusterApi, ALL, Both("MachineAPI"), SPEC, but_for_sync(Refused("authority-capi-spec-locked"), Silent)),
    row("A1",  MachineApi, ALL, Both("Migrating"),  SPEC, but_for_sync(Refused("authority-spec-locked"), Silent)),
    row("A1",  ClusterApi, ALL, Both("Migrating"),  SPEC, but_for_sync(Refused("authority-capi-spec-locked"), Silent)),
    row("A1",  MachineApi, ALL, Both("MachineAPI"), SPEC, everybody(Silent)),
    row("A1",  ClusterApi, ALL, Both("ClusterAPI"), SPEC, but_for_sync(Told("the Machine API's copy stops following"), Silent)),
    row("A2",  MachineApi, ALL, Both("ClusterAPI"), OWN_LABEL, everybody(Silent)),
    row("A2",  ClusterApi, ALL, Both("MachineAPI"), OWN_LABEL, everybody(Silent)),
    row("A3",  MachineApi, ALL, Both("ClusterAPI"), RESERVED_LABEL, but_for_sync(Refused("authority-reserved-labels"), Silent)),
    row("A3",  ClusterApi, ALL, Both("MachineAPI"), RESERVED_LABEL, but_for_sync(Refused("authority-capi-reserved-labels"), Silent)),
    row("A3",  MachineApi, ALL, Both("ClusterAPI"), CRITICAL_LABEL, but_for_sync(Refused("authority-reserved-labels"), Silent)),
    row("A3",  ClusterApi, ALL, Both("MachineAPI"), CRITICAL_LABEL, but_for_sync(Refused("authority-capi-reserved-labels"), Silent)),
    row("A4",  MachineApi, ALL, Both("ClusterAPI"), LABEL_OF_THE_OTHER, but_for_sync(Refused("authority-label-conflict"), Silent)),
    row("A4",  ClusterApi, ALL, Both("MachineAPI"), LABEL_OF_THE_OTHER, but_for_sync(Refused("authority-label-conflict"), Silent)),
    row("A5",  MachineApi, ALL, Both("ClusterAPI"), OWN_ANNOTATION, everybody(Silent)),
    row("A5",  ClusterApi, ALL, Both("MachineAPI"), OWN_ANNOTATION, everybody(Silent)),
    row("A6",  MachineApi, ALL, Both("ClusterAPI"), RESERVED_ANNOTATION, but_for_sync(Refused("authority-reserved-annotations"), Silent)),
    row("A6",  ClusterApi, ALL, Both("MachineAPI"), RESERVED_ANNOTATION, but_for_sync(Refused("authority-capi-reserved-annotations"), Silent)),
    row("A6",  MachineApi, ALL, Both("ClusterAPI"), CRITICAL_ANNOTATION, but_for_sync(Refused("authority-reserved-annotations"), Silent)),
    row("A6",  ClusterApi, ALL, Both("MachineAPI"), CRITICAL_ANNOTATION, but_for_sync(Refused("authority-capi-reserved-annotations"), Silent)),
    row("A7",  MachineApi, ALL, Both("ClusterAPI"), ANNOTATION_OF_THE_OTHER, but_for_sync(Refused("authority-annotation-conflict"), Silent)),
    row("A7",  ClusterApi, ALL, Both("MachineAPI"), ANNOTATION_OF_THE_OTHER, but_for_sync(Refused("authority-annotation-conflict"), Silent)),
    row("A8",  MachineApi, PARENTS, Both("ClusterAPI"), TO_MACHINE_API, everybody(Filled("MachineAPI"))),
    row("A8",  MachineApi, MACHINE, Both("ClusterAPI"), TO_MACHINE_API, everybody(Filled("MachineAPI"))),
    row("A8",  MachineApi, ALL, Both("Migrating"),  TO_MACHINE_API, everybody(Told("cancelled"))),
    row("A9",  ClusterApi, ALL, Both("MachineAPI"), UNPAUSE, but_for_sync(Refused("authority-capi-reserved-annotations"), Silent)),
    row("A9",  ClusterApi, ALL, Both("Migrating"),  UNPAUSE, but_for_sync(Refused("authority-capi-reserved-annotations"), Silent)),
    row("A10", MachineApi, ALL, Nothing,            CreateForged, but_for_sync(Refused("authority-status-at-creation"), Silent)),
    row("A10", MachineApi, ALL, Both("MachineAPI"), DECIDE, but_for_sync(Refused("authority-status-forged"), Silent)),
    row("A10", MachineApi, ALL, Both("ClusterAPI"), DECIDE, but_for_sync(Refused("authority-status-forged"), Silent)),
    row("A11", MachineApi, PARENTS, Both("ClusterAPI"), Delete, but_for_sync(Told(STAYS), Silent)),
    row("A11", ClusterApi, PARENTS, Both("MachineAPI"), Delete, but_for_sync(Told(STAYS), Silent)),
    row("A12", MachineApi, ALL, Unlike,             TO_CLUSTER_API, everybody(Told("FailedToConvert: no such thing"))),
    row("A13", MachineApi, ALL, MachineApiAlone("MachineAPI"), Delete, everybody(Silent)),
    row("A13", ClusterApi, ALL, ClusterApiAlone,    Delete, everybody(Silent)),
    row("A13", MachineApi, PARENTS, Both("MachineAPI"), Delete, but_for_sync(Told("is deleted with it"), Silent)),
    row("A13", ClusterApi, PARENTS, Both("ClusterAPI"), Delete, but_for_sync(Told("is deleted with it"), Silent)),
];

/// Rules that only one of the two halves can break, and the half.
const ONE_SIDED: &[(&str, Side)] = &[
    ("A8", MachineApi),
    ("A9", ClusterApi),
    ("A10", MachineApi),
    ("A12", MachineApi),
];

/// The identifiers of the rows in the documentation.
fn documented() -> Vec<String> {
    let page = include_str!("../../../docs/both-apis.md");
    let section = page.split("## The document, row by row").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.filter(|cell| *cell != "rule").map(str::to_owned).collect()
}

#[test]
fn every_row_of_the_document_has_an_entry_in_each_direction_and_every_entry_a_row() {
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

/// What is given, under a name of the row's own: objects, each with its status.
fn given(row: &Row, kind: &str, name: &str, owners: &[Value; 2]) -> Vec<(Value, Option<Value>)> {
    let ours = |leads: &str, runs: bool| {
        let wanted = if leads == "Migrating" { "ClusterAPI" } else { leads };
        let mut decided = status(leads);
        decided["conditions"][0]["status"] = json!(if runs { "False" } else { "True" });
        let decided = Some(decided).filter(|_| !leads.is_empty());
        (machine_api(kind, name, wanted), decided)
    };
    // Both halves, with an annotation that is alike.
    let both = |leads: &'static str| {
        let provisioned = json!({"initialization": {"infrastructureProvisioned": true}});
        let provisioned = Some(provisioned).filter(|_| kind == "Machine");
        let mut both = vec![
            ours(leads, leads == "MachineAPI"),
            (cluster_api(kind, name, leads != "ClusterAPI"), provisioned),
        ];
        for (object, _) in &mut both {
            object["metadata"]["annotations"]["note"] = json!("one");
        }
        both
    };
    match row.given {
        Nothing => Vec::new(),
        ClusterApiAlone => vec![(cluster_api(kind, name, false), None)],
        MachineApiAlone(leads) => vec![ours(leads, leads == "MachineAPI")],
        MachineApiRuns => vec![ours("ClusterAPI", true)],
        Both(leads) => both(leads),
        Owned(leads) => {
            let mut both = both(leads);
            for ((object, _), owner) in both.iter_mut().zip(owners) {
                object["metadata"]["ownerReferences"] = json!([owner]);
            }
            both
        }
        Unlike => {
            let mut both = both("MachineAPI");
            let condition = json!({"type": "Synchronized", "status": "False", "reason": "FailedToConvert",
                "message": "no such thing"});
            both[0].1.as_mut().unwrap()["conditions"][1] = condition;
            both
        }
    }
}

/// The arguments and the input of kubectl. Nothing is stored.
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
async fn every_row_of_the_document_is_answered_as_it_says() {
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
    // From here on nothing is waited for: the server knows all of it.
    world.settle("table").await;
    let mut wrong = Vec::new();
    for (number, row, kind) in &cases {
        let name = name(*number, row);
        let (arguments, stdin) = call(row, kind, &name);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        for (user, expected) in USERS.iter().zip(row.answers) {
            let output = world.run(user, &arguments, &stdin).await;
            let (allowed, said) = (output.success(), &output.stderr);
            let right = match expected {
                Silent => allowed && !said.contains("Warning"),
                Told(words) => {
                    let words = words.replace("NAME", &name);
                    let told = |line: &str| line.starts_with("Warning: ") && line.contains(&words);
                    allowed && said.lines().any(told)
                }
                Filled(api) => allowed && output.stdout.contains(&format!("\n  authoritativeAPI: {api}\n")),
                Refused(rule) => !allowed && said.contains(&format!("[{rule}]")),
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

/// What is dropped for the sync controller is not stored either.
#[tokio::test]
async fn a_status_at_creation_is_dropped_for_whom_it_is_not_refused() {
    let world = World::whole().await;
    for kind in KINDS {
        let mut forged = machine_api(kind, "table-forged", "MachineAPI");
        forged["status"] = json!({"authoritativeAPI": "ClusterAPI", "synchronizedGeneration": 7});
        let create = ["create", "--dry-run=server", "-o", "yaml", "-f", "-"];
        let output = world.allows(SYNC, &create, &forged.to_string()).await;
        assert!(!output.stdout.contains("synchronizedGeneration"), "{output}");
    }
}
