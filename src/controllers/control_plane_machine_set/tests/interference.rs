//! Other programs that undo at once what the controller does.

use super::*;

/// Another controller takes a label of the template from a machine whenever it sees the label.
#[tokio::test(start_paused = true)]
async fn v228_a_label_that_another_program_removes_each_time_is_written_less_and_less_and_reported() {
    let (fake, mut controller) = settled().await;
    set_label(&fake, "team", "red");
    fake.settle(&mut controller).await;
    let before = written(&fake);
    for _ in 0..24 {
        fake.edit(MACHINE, "c-master-0", |machine| {
            machine["metadata"]["labels"].as_object_mut().unwrap().remove("team");
        });
        reconcile_every_ten_seconds(&fake, &mut controller, 1).await;
    }
    // Five at once, and then one in two minutes.
    assert!((5..=7).contains(&(written(&fake) - before)), "{}", written(&fake));
    assert_condition(&fake, "Error=True/ContinuousErrors");
    let set = fake.object(SET, NAME).unwrap()["status"].to_string();
    assert!(
        set.contains("another program undoes each write of metadata.labels.team"),
        "{set}"
    );
}

fn written(fake: &Fake) -> usize {
    let writes = fake.writes().into_iter();
    let labels = writes.filter(|(_, _, content)| content["metadata"]["labels"]["team"] == "red");
    labels.count()
}

/// Another program deletes each new machine.
#[tokio::test(start_paused = true)]
async fn v229_machines_that_another_program_deletes_are_created_less_and_less_often_and_reported() {
    let (fake, mut controller) = settled().await;
    lose(&fake, "c-master-1");
    // The delays are 10, 20, 40, 80, 160 and 300 seconds.
    for _ in 0..30 {
        reconcile_every_ten_seconds(&fake, &mut controller, 2).await;
        tokio::time::advance(Duration::from_secs(20)).await;
        for (verb, object, _) in fake.writes() {
            if let (true, Some(machine)) = (verb == "create", object.strip_prefix("Machine ")) {
                lose(&fake, machine);
            }
        }
    }
    assert!((4..=8).contains(&created(&fake)), "{}", created(&fake));
    assert_condition(&fake, "Error=True/ContinuousErrors");
    let set = fake.object(SET, NAME).unwrap()["status"].to_string();
    assert!(set.contains("another program deletes what was just created"), "{set}");
}

/// A GitOps tool creates the machines of its manifests again, with the old provider spec.
#[tokio::test(start_paused = true)]
async fn v237_machines_that_another_program_creates_again_are_deleted_less_and_less_often_and_reported() {
    let (fake, mut controller, name) = with_replacement().await;
    let manifest = fake.object(MACHINE, "c-master-0").unwrap();
    run(&fake, &name);
    let mut returned = 0;
    for _ in 0..90 {
        reconcile_every_ten_seconds(&fake, &mut controller, 1).await;
        if fake.object(MACHINE, "c-master-0").is_none() {
            returned += 1;
            let mut machine = manifest.clone();
            machine["metadata"]["uid"] = format!("returned-{returned}").into();
            fake.put(MACHINE, "c-master-0", machine);
        }
    }
    assert!((3..=9).contains(&returned), "{returned}");
    assert_condition(&fake, "Error=True/ContinuousErrors");
    let set = fake.object(SET, NAME).unwrap()["status"].to_string();
    assert!(
        set.contains("another program creates again what was deleted, the last one c-master-0"),
        "{set}"
    );
}
