//! Rolling updates from the first edit to the last machine.

use crate::world::{Setup, World};

#[tokio::test(flavor = "multi_thread")]
async fn three_machines_are_replaced_one_by_one_with_exactly_the_writes_that_it_takes() {
    let world = World::new(Setup::default()).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    let before = world.writes().unwrap().len();
    world.ask_for("m6i.2xlarge").await.unwrap();
    world.rolled_out("m6i.2xlarge").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    running.controllers.stop().await;
    let writes = world.writes().unwrap().split_off(before);
    let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
    println!("{}", writes.join("\n"));
    assert_eq!(count("create machines "), 3, "{writes:?}");
    assert_eq!(count("delete machines "), 3, "{writes:?}");
    assert_eq!(count("patch machines "), 0, "{writes:?}");
    world.judge().unwrap();
}
