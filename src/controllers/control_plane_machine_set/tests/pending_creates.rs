//! A creation is recorded in the set before it is sent.

use super::fake::shared;
use super::*;
use crate::controllers::control_plane_machine_set::State;
use crate::runtime::{Cluster as _, Moment, Observation, Reconcile as _, Source, Writer};
use capstan_core::cpms::pending_creates;

impl Fake {
    /// How many creations the set records.
    fn recorded(&self) -> usize {
        let set = self
            .watched::<ControlPlaneMachineSet>(SET, NAME)
            .unwrap()
            .content
            .unwrap();
        pending_creates::recorded(&set.metadata).unwrap().len()
    }
}

/// Melee seed 11792: a process was killed before its creation was answered. The next process
/// created another machine, and then the first creation arrived: one machine too many (C13).
#[tokio::test(start_paused = true)]
async fn a_creation_of_the_process_before_is_repeated_or_waited_for() {
    for another in [false, true] {
        let fake = Fake::new();
        let (mut before, _registry) = fake.controller();
        fake.settle(&mut before).await;
        fake.world(|world| world.silent = true);
        fake.want("n2-standard-8");
        fake.reconcile(&mut before).await;
        let writes = fake.writes().into_iter().rev();
        let last: Vec<&str> = writes
            .map(|(verb, ..)| verb)
            .skip_while(|verb| *verb != "unanswered create")
            .take(2)
            .collect();
        assert_eq!(last, ["unanswered create", "patch"], "the creation is recorded first");
        drop(before);
        fake.world(|world| (world.silent, world.writes) = (false, Vec::new()));
        if another {
            // The plan now replaces another machine first.
            fake.edit(NODE, "c-master-1", |node| {
                node["status"]["conditions"][0]["status"] = json!("False");
            });
        }
        let (mut after, _registry) = fake.controller();
        fake.settle(&mut after).await;
        let made = || {
            fake.writes()
                .iter()
                .any(|(verb, what, _)| *verb == "create" && what.starts_with(MACHINE))
        };
        assert_eq!(made(), !another);
        let creating = "Creating=True/MachineRequested".to_owned();
        assert!(
            fake.conditions(SET, NAME).contains(&creating),
            "the first request may still create a machine"
        );
        fake.pass(250);
        tokio::time::advance(Duration::from_secs(250)).await;
        fake.settle(&mut after).await;
        assert!(made() && !fake.conditions(SET, NAME).contains(&creating));
    }
}

#[tokio::test]
async fn a_creation_is_not_recorded_in_a_set_that_changed_since_it_was_read() {
    let fake = Fake::new();
    let (mut controller, _registry) = fake.controller();
    fake.settle(&mut controller).await;
    fake.want("n2-standard-8");
    let (shared, _registry) = shared("test");
    let (sets, object) = (&shared.controller, shared.controller.object());
    let moment = Moment {
        time: fake.now(),
        instant: fake.instant(),
        seen: fake.instant(),
    };
    let mut state = State::default();
    let observed = sets.observe(&object, &fake.view(), Source::Live, &mut state, moment);
    let Observation::Found(observed) = observed else {
        panic!("{observed:?}");
    };
    assert_eq!(sets.plan(&observed, &mut state, moment)[0].action, "create");
    let record = sets.before(&observed, 0, &mut state, moment).unwrap();
    fake.edit(SET, NAME, |set| {
        set["metadata"]["labels"] = json!({"changed": "by-another-leader"});
    });
    let refused = Writer::new(fake.clone()).write(&record).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
}

/// Standstill seeds 737 and 2420: a leader was paused between the record and the creation, while
/// another leader replaced the same machine (C13, C1).
#[tokio::test(start_paused = true)]
async fn a_replica_that_was_paused_for_a_minute_reads_again_before_it_creates_or_deletes() {
    let fake = Fake::new();
    let (mut controller, _registry) = fake.controller();
    fake.settle(&mut controller).await;
    fake.want("n2-standard-8");
    fake.world(|world| world.stall = Duration::from_secs(60));
    fake.reconcile(&mut controller).await;
    let made = || {
        let writes = fake.writes().into_iter();
        writes
            .filter(|(verb, what, _)| *verb == "create" && what.starts_with(MACHINE))
            .count()
    };
    assert_eq!(fake.recorded(), 1);
    assert_eq!(made(), 0);
    let told = fake.world(|world| world.events.last().and_then(|event| event.message.clone()));
    assert!(told.is_some_and(|told| told.contains("the plan is 60 s old")));
    fake.world(|world| world.stall = Duration::from_secs(59));
    fake.reconcile(&mut controller).await;
    assert_eq!(made(), 1, "the record is still there, and the machine is created");
}

/// Melee seed 9826: a creation was not answered, and was sent again. The next leader deleted the
/// machine and created another, and then the first creation arrived: one machine too many (C13).
#[tokio::test(start_paused = true)]
async fn a_creation_that_may_happen_twice_is_known_to_the_next_leader() {
    let fake = Fake::new();
    let (mut first, _registry) = fake.controller();
    fake.settle(&mut first).await;
    fake.world(|world| world.silent = true);
    fake.want("n2-standard-8");
    fake.reconcile(&mut first).await;
    fake.world(|world| world.silent = false);
    fake.settle(&mut first).await;
    let creations = || {
        let writes = fake.writes().into_iter();
        writes
            .filter(|(verb, what, _)| *verb == "create" && what.starts_with(MACHINE))
            .count()
    };
    assert_eq!(creations(), 1);
    let creating = "Creating=True/MachineRequested".to_owned();
    assert!(
        fake.conditions(SET, NAME).contains(&creating),
        "although the machine exists"
    );
    let made = fake.made();
    fake.world(|world| world.objects.remove(&(MACHINE, made)));
    fake.edit(NODE, "c-master-1", |node| {
        node["status"]["conditions"][0]["status"] = json!("False");
    });
    let (mut next, _registry) = fake.controller();
    fake.settle(&mut next).await;
    assert_eq!(creations(), 1, "with that machine there would be one too many");
    fake.pass(250);
    tokio::time::advance(Duration::from_secs(250)).await;
    fake.settle(&mut next).await;
    assert_eq!(creations(), 2);
}

/// Standstill seed 25639: a leader found the record of another leader for the same machine, and
/// made none of its own. The other had never sent its creation, removed the record and created
/// another machine, and then there was one too many (C13).
#[tokio::test(start_paused = true)]
async fn a_record_of_another_process_does_not_replace_the_own_record() {
    let fake = Fake::new();
    let (mut other, _registry) = fake.controller();
    fake.settle(&mut other).await;
    fake.want("n2-standard-8");
    fake.world(|world| world.stall = Duration::from_secs(60));
    fake.reconcile(&mut other).await;
    assert_eq!(fake.recorded(), 1);
    fake.pass(60);
    fake.world(|world| (world.stall, world.silent) = (Duration::ZERO, true));
    let (mut own, _registry) = fake.controller_of("own");
    fake.reconcile(&mut own).await;
    assert_eq!(fake.recorded(), 2);
    // The machine is no longer needed, and the second creation was sent.
    fake.want("n2-standard-4");
    fake.settle(&mut other).await;
    assert_eq!(fake.recorded(), 1);
    fake.pass(250);
    tokio::time::advance(Duration::from_secs(250)).await;
    fake.settle(&mut other).await;
    assert_eq!(fake.recorded(), 0);
}

/// A policy refuses the adoption of a machine with 403 while another index is repaired.
#[tokio::test(start_paused = true)]
async fn a_refused_adoption_is_reported_and_the_records_of_a_repair_are_removed_after_it() {
    let (fake, mut controller) = settled().await;
    fake.world(|world| world.refuses_owners = true);
    fake.edit(MACHINE, "c-master-0", |machine| remove(machine, "ownerReferences"));
    lose(&fake, "c-master-1");
    let records = |fake: &Fake| fake.object(SET, NAME).unwrap()["metadata"]["annotations"].to_string();
    for second in (0..150).step_by(10) {
        fake.reconcile(&mut controller).await;
        let is_reported = fake
            .conditions(SET, NAME)
            .iter()
            .any(|one| one.starts_with("Error=True"));
        assert_eq!(is_reported, second >= 80, "after {second} s");
        fake.pass(10);
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    assert_eq!(created(&fake), 1);
    assert!(fake.events("Failed") >= 1);
    // Another write is due, so that the record stays.
    assert!(records(&fake).contains("pending-creations"), "{}", records(&fake));
    fake.world(|world| world.refuses_owners = false);
    let made = fake.made();
    fake.edit(MACHINE, &made, |machine| {
        machine["status"] = json!({"phase": "Running", "nodeRef": {"name": "new"}});
    });
    reconcile_every_ten_seconds(&fake, &mut controller, 30).await;
    assert!(!records(&fake).contains("pending-creations"), "{}", records(&fake));
    assert_condition(&fake, "Error=False/AsExpected");
}
