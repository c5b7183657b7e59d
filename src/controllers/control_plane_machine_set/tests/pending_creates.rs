//! Creations are recorded in the set before they are sent.

use capstan_core::api::kinds::MACHINES;
use capstan_core::cpms::pending_creates;
use capstan_core::cpms::plan::{Action, Step};

use super::*;

impl Fake {
    /// How many creations are recorded in the set.
    fn recorded(&self) -> usize {
        let set = self.seen::<ControlPlaneMachineSet>(SET, NAME).unwrap().content.unwrap();
        pending_creates::recorded(&set).unwrap().len()
    }
}

/// Melee seed 11792: a process was killed before its creation was answered, the next one made another machine, and then the
/// first creation arrived: one machine too many (C13).
#[tokio::test(start_paused = true)]
async fn what_a_process_before_asked_for_is_asked_for_again_or_given_four_minutes() {
    for another in [false, true] {
        let fake = Fake::new();
        let (mut before, _registry) = fake.controller();
        fake.settle(&mut before).await;
        fake.world(|world| world.silent = true);
        fake.want("n2-standard-8");
        fake.turn(&mut before).await;
        let writes = fake.writes().into_iter().rev();
        let last: Vec<&str> = writes
            .map(|(verb, ..)| verb)
            .skip_while(|verb| *verb != "ask for")
            .take(2)
            .collect();
        assert_eq!(last, ["ask for", "patch"], "it is recorded first");
        drop(before);
        fake.world(|world| (world.silent, world.writes) = (false, Vec::new()));
        if another {
            // Its machine goes first now.
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
            fake.says(SET, NAME).contains(&creating),
            "the first request may still make one"
        );
        fake.pass(250);
        tokio::time::advance(Duration::from_secs(250)).await;
        fake.settle(&mut after).await;
        assert!(made() && !fake.says(SET, NAME).contains(&creating));
    }
}

#[tokio::test]
async fn nothing_is_asked_for_by_who_saw_another_version_of_the_set() {
    let fake = Fake::new();
    let (mut controller, _registry) = fake.controller();
    fake.settle(&mut controller).await;
    let set = fake.seen::<ControlPlaneMachineSet>(SET, NAME).unwrap().content.unwrap();
    let step = Step {
        action: Action::Create {
            machine: Box::default(),
            failure_domain: None,
        },
        subject: MACHINES.object("openshift-machine-api", "c-master-new-0"),
        index: Some(0),
        because: String::new(),
        precondition: None,
    };
    fake.edit(SET, NAME, |set| {
        set["metadata"]["labels"] = json!({"who": "another leader"});
    });
    let refused = controller.writer.record("test", &set, &step).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
}

/// Standstill seeds 737 and 2420: a leader stood still between what it wrote down and the creation, while another replaced
/// the same machine (C13, C1).
#[tokio::test(start_paused = true)]
async fn who_stood_still_for_a_minute_makes_and_deletes_nothing_before_it_looked_again() {
    let fake = Fake::new();
    let (mut controller, _registry) = fake.controller();
    fake.settle(&mut controller).await;
    fake.want("n2-standard-8");
    fake.world(|world| world.stall = Duration::from_secs(60));
    fake.turn(&mut controller).await;
    let made = || {
        let writes = fake.writes().into_iter();
        writes
            .filter(|(verb, what, _)| *verb == "create" && what.starts_with(MACHINE))
            .count()
    };
    assert_eq!(fake.recorded(), 1);
    assert_eq!(made(), 0);
    let told = fake.world(|world| world.told.last().and_then(|event| event.message.clone()));
    assert!(told.is_some_and(|told| told.contains("was read 60s ago")));
    fake.world(|world| world.stall = Duration::from_secs(59));
    fake.turn(&mut controller).await;
    assert_eq!(made(), 1, "what was written down stands there, and is asked for");
}

/// Melee seed 9826: a creation was not answered, and asked for again. The next leader removed the machine and made another,
/// and then the first creation arrived: one machine too many (C13).
#[tokio::test(start_paused = true)]
async fn a_creation_that_may_come_a_second_time_is_known_to_the_next_leader() {
    let fake = Fake::new();
    let (mut first, _registry) = fake.controller();
    fake.settle(&mut first).await;
    fake.world(|world| world.silent = true);
    fake.want("n2-standard-8");
    fake.turn(&mut first).await;
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
        fake.says(SET, NAME).contains(&creating),
        "although the machine is there"
    );
    let made = fake.made();
    fake.world(|world| world.objects.remove(&(MACHINE, made)));
    fake.edit(NODE, "c-master-1", |node| {
        node["status"]["conditions"][0]["status"] = json!("False");
    });
    let (mut next, _registry) = fake.controller();
    fake.settle(&mut next).await;
    assert_eq!(creations(), 1, "with that machine it would be one too many");
    fake.pass(250);
    tokio::time::advance(Duration::from_secs(250)).await;
    fake.settle(&mut next).await;
    assert_eq!(creations(), 2);
}

/// Standstill seed 25639: a leader found the request of another for the same machine, and wrote down none of its own. The other
/// had never sent his, took it away and made another machine, and then there was one too many (C13).
#[tokio::test(start_paused = true)]
async fn what_another_wrote_down_does_not_stand_for_the_own_request() {
    let fake = Fake::new();
    let (mut other, _registry) = fake.controller();
    fake.settle(&mut other).await;
    fake.want("n2-standard-8");
    fake.world(|world| world.stall = Duration::from_secs(60));
    fake.turn(&mut other).await;
    assert_eq!(fake.recorded(), 1);
    fake.pass(60);
    fake.world(|world| (world.stall, world.silent) = (Duration::ZERO, true));
    let (mut own, _registry) = fake.controller_of("own");
    fake.turn(&mut own).await;
    assert_eq!(fake.recorded(), 2);
    // Nobody needs it any more, and the second was sent.
    fake.want("n2-standard-4");
    fake.settle(&mut other).await;
    assert_eq!(fake.recorded(), 1);
    fake.pass(250);
    tokio::time::advance(Duration::from_secs(250)).await;
    fake.settle(&mut other).await;
    assert_eq!(fake.recorded(), 0);
}
