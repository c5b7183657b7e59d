//! The dashboard in a real browser, beside a cluster: `World::new` starts it with
//! `ControlPlane::start`. The browser is Chromium, driven with WebDriver.
//!
//! Screenshots are kept in `target/browser`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test reports a failure by a panic"
)]
// A test binary exports nothing.
#![allow(unreachable_pub)]

mod dashboard;
mod driver;
mod objects;
#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "../rollout/platforms.rs"]
mod platforms;
mod relay;
#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "../rollout/world.rs"]
mod world;

use capstan_sandbox::control_plane::{AuditEvent, ControlPlane, Options};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use dashboard::Dashboard;
use driver::{Browser, Colors};
use relay::Relay;
use world::{Setup, World};

const TEMPLATE: &str = "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value/instanceType";

/// The user of the dashboard. It may write everything, so that only the page itself prevents
/// writes.
const USER: &str = "the-user-of-the-page";

/// The context of the cluster, which is not the current one of the kubeconfig.
const CONTEXT: &str = "the-cluster-of-the-page";

#[tokio::test(flavor = "multi_thread")]
async fn a_user_follows_a_rollout_and_tries_edits_in_a_browser() {
    let world = World::new(Setup::default()).await.unwrap();
    objects::create_cluster_api(&world).await;
    let running = world.start_controllers("one").await.unwrap();
    let up_to_date = "Progressing=False/AllReplicasUpdated";
    world.wait_for_condition(up_to_date).await.unwrap();
    running.controllers.stop().await;
    let kubeconfig = world.plane.kubeconfig_for(USER, &["system:masters"]).unwrap();
    let kubeconfig = dashboard::with_context(&kubeconfig, CONTEXT);
    let kubeconfig = kubeconfig.path().to_str().unwrap();
    let page = Dashboard::start(&["--min-ready=0s", "--kubeconfig", kubeconfig, "--context", CONTEXT]).await;
    let browser = Browser::start().await;
    browser.open(&page.address).await;
    browser.shows(CONTEXT).await;
    browser.shows("All machines are up to date").await;
    browser.shows("connected").await;
    the_page_shows_every_control_plane_and_both_apis(&browser).await;
    browser.screenshot("calm").await;
    edits_are_judged(&browser).await;
    looks(&browser, "live").await;

    let link = "a[href='#control-plane-0']";
    browser.focus(link).await;
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    browser.shows("Rolling out a change: 0 of 3 up to date").await;
    browser.shows("instanceType m6i.xlarge → m6i.2xlarge").await;
    assert!(browser.has_focus(link).await, "an update must keep the keyboard focus");
    let spoken = browser.text_of("#announcement").await;
    assert!(
        spoken.contains("0 of 3 up to date") && spoken.contains("The controller creates prod-"),
        "{spoken}"
    );
    browser.screenshot("rollout").await;
    browser.first_screen("rollout-first-screen").await;
    // Without the limit, the page may be complete before the browser sees one machine of three.
    world.edit(&limit(&json!("1"))).await.unwrap();
    let running = world.start_controllers("one").await.unwrap();
    browser.shows("Paused by the rollout limit: 1 of 3 up to date").await;
    browser
        .shows("raise or remove the annotation capstan.dev/rollout-limit")
        .await;
    browser.screenshot("rollout-limited").await;
    world.edit(&limit(&json!(null))).await.unwrap();
    browser.shows("All machines are up to date").await;
    browser.shows("Latest events").await;
    // Without an Active set, the ControlPlane beside it creates two more machines, and replaces the
    // others: it has the old instance type.
    let sets = world.api("controlplanemachinesets");
    sets.delete("cluster", &DeleteParams::default()).await.unwrap();
    browser.shows("Rolling out a change: 0 of 5 up to date").await;
    running.controllers.stop().await;
    let scaled = browser.text_of("article[aria-label='ControlPlane cluster']").await;
    for text in ["because 3 of 5 machines exist", "m6i.2xlarge → m6i.xlarge"] {
        assert!(scaled.contains(text), "{text}: {scaled}");
    }
    browser.screenshot("control-plane").await;

    for loaded in browser.loaded().await {
        let host = page.address.split('/').nth(2).unwrap();
        assert!(loaded.starts_with(&format!("http://{host}/")), "{loaded}");
    }
    another_origin_reads_nothing(&browser, &page).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
    browser.stop().await;
    let sent: Vec<AuditEvent> = world.plane.audit_events().unwrap();
    let sent: Vec<&AuditEvent> = sent.iter().filter(|event| event.user.username == USER).collect();
    assert!(
        sent.iter().any(|event| event.verb == "watch"),
        "the audit log has the page"
    );
    let reads = ["get", "list", "watch"];
    let writes: Vec<&&AuditEvent> = sent
        .iter()
        .filter(|event| !reads.contains(&event.verb.as_str()))
        .collect();
    assert!(writes.is_empty(), "the page must write nothing: {writes:?}");
    world.check_invariants().unwrap();
}

/// The edit that limits a rollout.
fn limit(machines: &Value) -> Value {
    json!({"metadata": {"annotations": {"capstan.dev/rollout-limit": machines}}})
}

async fn the_page_shows_every_control_plane_and_both_apis(browser: &Browser) {
    let overview = browser.text_of(".overview").await;
    for text in [
        "ControlPlaneMachineSet cluster: all machines are up to date",
        "No action is needed for the control plane. You must act on MachineSet edge.",
        "Not in use: ControlPlane cluster.",
        "ControlPlaneMachineSet cluster\tAll machines are up to date",
        "ControlPlane cluster\tUnused: ControlPlaneMachineSet cluster manages the machines",
        "KubeadmControlPlane workload\tRolling out a change: 0 of 3 up to date",
        "MachinePool pool",
        "MachineSet edge\tNot synchronized between the Machine API and Cluster API\tYou: Correct the object of the \
         Machine API. The field spec.x cannot be converted",
        "Other objects in both APIs\t1 pair, 1 in migration, 0 with a problem",
    ] {
        assert!(overview.contains(text), "{text:?}: {overview:?}");
    }
    // The instance without a Machine is known from its infrastructure machine.
    let pool = browser.text_of("article[aria-label='MachinePool pool']").await;
    assert!(pool.contains("pool-0") && pool.contains("pool-1"), "{pool}");
    let scaled = browser.text_of("article[aria-label='ControlPlane cluster']").await;
    for text in [
        "Unused: ControlPlaneMachineSet cluster manages the machines",
        "keep one of the two: delete this ControlPlane, or wait until the rollout of the set is complete",
    ] {
        assert!(scaled.contains(text), "{text}: {scaled}");
    }
    // The set manages the machines, and only its card has them.
    assert!(!scaled.contains("prod-x7k2p-master-0"), "{scaled}");
    // The version of the KubeadmControlPlane is newer than that of its machines.
    browser
        .shows("The machines differ from the template: version v1.33.0 → v1.34.0.")
        .await;
    let mirrored = browser.text_of(".mirrored").await;
    for text in [
        "MachineSet workers",
        "authoritative\tmirror",
        "authoritative\tdoes not exist",
        "to Cluster API: begins, and locks both objects",
        "no: the field spec.x cannot be converted",
        "2 pairs, 1 in migration, 1 with a problem.",
    ] {
        assert!(mirrored.contains(text), "{text}: {mirrored}");
    }
}

async fn edits_are_judged(browser: &Browser) {
    browser.try_edit("a: [").await;
    browser.shows("must be valid YAML").await;
    browser
        .click("button[data-object='ControlPlaneMachineSet/cluster']")
        .await;
    browser.has_manifest("name: cluster").await;
    let stored = browser.manifest().await;
    assert!(!stored.contains("managedFields"), "{stored}");
    let edited = |from: &str, to: &str| {
        assert_eq!(stored.matches(from).count(), 1, "{stored}");
        stored.replace(from, to)
    };
    browser.try_edit(&edited("replicas: 3", "replicas: 5")).await;
    browser.shows("Would be refused: ControlPlaneMachineSet cluster").await;
    browser.shows("cpms-replicas-immutable").await;
    browser.window("edit-refused").await;
    browser.try_edit(&edited("m6i.xlarge", "m6i.4xlarge")).await;
    browser
        .shows("Would be allowed, with warnings: ControlPlaneMachineSet cluster")
        .await;
    browser.shows("instanceType m6i.xlarge → m6i.4xlarge").await;
    let verdict = browser.text_of("#verdict").await;
    let forecast = browser.text_of("#forecast").await;
    for text in ["Nothing was sent", "delete", "0 of 3 up to date"] {
        assert!(forecast.contains(text), "{text}: {forecast}");
    }
    // The warnings and the forecast have one name for each new machine.
    let (_, after) = verdict.split_once("prod-x7k2p-master-0 is replaced by ").unwrap();
    let new = after.split_whitespace().next().unwrap();
    assert!(
        forecast.contains(&format!("The controller creates {new} ")),
        "{new}: {forecast}"
    );
    browser.window("edit-rolls").await;
    browser.clear_edit().await;
}

/// Every page is readable in light and dark mode, and on a phone.
async fn looks(browser: &Browser, name: &str) {
    for colors in [Colors::Light, Colors::Dark] {
        browser.set_colors(colors).await;
        assert_eq!(browser.background().await, colors.background(), "{name}");
        assert_eq!(browser.unreadable().await, Vec::<Value>::new(), "{name} {colors:?}");
    }
    browser.screenshot(&format!("{name}-dark")).await;
    browser.set_colors(Colors::Light).await;
    for width in [320, 360] {
        browser.set_width(Some(width)).await;
        assert_eq!(browser.scroll_width().await, width, "{name} must not scroll sideways");
    }
    assert_eq!(browser.too_small().await, Vec::<Value>::new(), "{name}");
    browser.screenshot(&format!("{name}-phone")).await;
    browser.first_screen(&format!("{name}-phone-first-screen")).await;
    browser.set_width(None).await;
}

/// A page of another origin knows the address, and reads nothing.
async fn another_origin_reads_nothing(browser: &Browser, page: &Dashboard) {
    let own = browser.read_everything(&page.address).await;
    for (way, read) in own.as_object().unwrap() {
        assert!(read.as_str().unwrap().len() > 2, "the own page reads by {way}: {own}");
    }
    let other = driver::serve_empty_page().await;
    browser.open(&other).await;
    let read = browser.read_everything(&page.address).await;
    for (way, read) in read.as_object().unwrap() {
        assert!(["", "failed"].contains(&read.as_str().unwrap()), "{way}: {read}");
    }
    // The name of another site that resolves to this machine.
    browser
        .open(&page.address.replace("127.0.0.1", "rebound.example"))
        .await;
    let rebound = browser.text_of("html").await;
    assert!(
        !rebound.contains("Capstan") && !rebound.contains("prod-x7k2p"),
        "{rebound}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_stay_text() {
    let file = objects::hostile_file();
    let page = Dashboard::start(&["--filename", file.path().to_str().unwrap()]).await;
    let browser = Browser::start().await;
    browser.open(&page.address).await;
    browser.shows(objects::MARKUP).await;
    browser
        .shows(&objects::RIGHT_TO_LEFT.replace('\u{202e}', "\u{fffd}"))
        .await;
    browser.lacks("\u{202e}").await;
    browser.shows(objects::LONG).await;
    browser.shows("from files, not live").await;
    assert_eq!(browser.scripts().await, 1, "the page has its own script only");
    assert!(!browser.is_attacked().await, "a name must not run as a script");
    let manifest = std::fs::read_to_string(file.path()).unwrap();
    browser.try_edit(&manifest).await;
    browser.shows("ControlPlaneMachineSet cluster (update)").await;
    assert!(!browser.is_attacked().await && browser.scripts().await == 1);
    looks(&browser, "hostile").await;
    a_keyboard_is_enough(&browser).await;
    for part in ["report.html", "view.svg"] {
        browser.open(&format!("{}{part}", page.address)).await;
        assert!(!browser.is_attacked().await, "{part}");
        if part == "report.html" {
            browser.set_width(Some(1200)).await;
            assert_eq!(browser.scroll_width().await, 1200, "{part} must not scroll sideways");
            browser.set_width(None).await;
        }
        browser.screenshot(&format!("hostile-{}", part.replace('.', "-"))).await;
    }
    browser.stop().await;
}

/// Tab reaches each control, the focus is visible, and Enter tries the edit.
async fn a_keyboard_is_enough(browser: &Browser) {
    assert_eq!(
        browser.nameless().await,
        Vec::<String>::new(),
        "each control has a name"
    );
    browser.focus("nav a").await;
    let mut reached = vec!["#edit-title".to_owned()];
    while !reached.iter().any(|name| name == "manifest") {
        browser.press(&['\u{e004}']).await;
        let (name, outline) = browser.focused().await;
        assert!(outline, "the focus on {name:?} must be visible");
        assert!(reached.len() < 100, "Tab must reach the form: {reached:?}");
        reached.push(name);
    }
    for name in ["report.html", "#edit-title", "Old and new revision"] {
        assert!(reached.iter().any(|other| other == name), "{name}: {reached:?}");
    }
    let select_all = "document.activeElement.select()";
    browser.run(select_all, Vec::new()).await;
    browser.press(&['a', ':', ' ', '[', '\u{e004}', '\u{e007}']).await;
    browser.shows("must be valid YAML").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_says_that_a_cluster_is_empty_that_its_api_server_is_gone_and_that_it_is_cut_off_itself() {
    let mut plane = ControlPlane::start(Options::default()).await.unwrap();
    let kubeconfig = plane.kubeconfig().unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let page = Dashboard::start(&["--kubeconfig", kubeconfig]).await;
    let mut relay = Relay::start(&page.address).await;
    let browser = Browser::start().await;
    browser.open(&relay.address(&page.address)).await;
    browser.shows("Nothing to show here").await;
    browser.shows("connected").await;
    browser.screenshot("empty").await;

    relay.cut();
    browser.shows("disconnected; the page shows the last state").await;
    plane
        .apply_yaml(&world::read("manifests/crds/machine.openshift.io_controlplanemachinesets.yaml").unwrap())
        .await
        .unwrap();
    let namespace = format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {}}}}}",
        world::NAMESPACE
    );
    plane.apply_yaml(&namespace).await.unwrap();
    plane
        .apply_yaml(include_str!("../fixtures/aws/set.yaml"))
        .await
        .unwrap();
    relay.resume().await;
    browser.shows("ControlPlaneMachineSet cluster").await;
    browser.lacks("Nothing to show here").await;
    assert_eq!(browser.text_of("#connection").await, "connected");

    let api_server = plane.processes()[0].to_string();
    let killed = tokio::process::Command::new("kill")
        .args(["-9", &api_server])
        .status()
        .await;
    assert!(killed.unwrap().success());
    browser.shows("The API server has not answered since").await;
    browser.shows("the cluster does not respond").await;
    browser.shows("ControlPlaneMachineSet cluster").await;
    browser.screenshot("api-server-gone").await;
    // A backup starts the servers again.
    plane.back_up("again").await.unwrap();
    browser.lacks("The API server has not answered since").await;

    // A dashboard that was started again has another token.
    let listen = page.address.split('/').nth(2).unwrap().to_owned();
    page.stop().await;
    browser.shows("disconnected").await;
    let _again = Dashboard::start(&["--kubeconfig", kubeconfig, "--listen", &listen]).await;
    browser.shows("Start capstan dashboard again").await;
    browser.stop().await;
}
