//! Traces of whole rollouts, one line for each step, with simulated machines.
//!
//! `create`, `delete` and `patch` are the steps of the plan, with their reasons. A dot marks a
//! change by the provider. `say` is a condition that changed. `wait` and `note` follow when nothing
//! more happens.

use std::fmt::Write;

use serde_json::json;

use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSetStatus;
use crate::cpms::plan::Action;
use crate::cpms::samples::short;
use crate::cpms::simulation::{Event, NEW, OLD, World};
use crate::cpms::status::{Counts, status};
use crate::cpms::{plan, spec};

struct Trace {
    world: World,
    status: Option<ControlPlaneMachineSetStatus>,
    text: String,
}

impl Trace {
    fn new(zones: &str, wanted: &str) -> Self {
        Self {
            world: World::new(zones, wanted),
            status: None,
            text: String::new(),
        }
    }

    /// Adds the action of a user.
    fn person(&mut self, what: &str) {
        writeln!(self.text, "  * {what}").unwrap();
    }

    /// Runs until nothing more happens.
    fn run(&mut self) {
        self.run_until(|_| false);
        self.end();
    }

    fn run_steps(&mut self, steps: usize) {
        let mut left = steps;
        self.run_until(|world| {
            // Counted before each plan, so that the run stops after that many disruptive steps.
            let disruptive = world.plan().disruptive().is_some();
            if left == 0 {
                return true;
            }
            left -= usize::from(disruptive);
            false
        });
    }

    fn run_until(&mut self, mut stop: impl FnMut(&World) -> bool) {
        for _ in 0..300 {
            if stop(&self.world) {
                return;
            }
            let plan = self.world.plan();
            self.record_conditions();
            if !plan.steps.is_empty() {
                for step in &plan.steps {
                    let domain = step.failure_domain().map_or("-".to_owned(), ToString::to_string);
                    let machine = step.machine().map_or("the set".to_owned(), short);
                    let action = step.verb();
                    writeln!(self.text, "{action} {machine} in {domain}: {}", short(&step.because)).unwrap();
                    self.world.apply(step);
                }
                self.world.pass(1);
                continue;
            }
            if let Some(event) = self.world.events().first().cloned() {
                if matches!(event, Event::Ready(_) | Event::Removed(_)) {
                    writeln!(self.text, "  · {event}").unwrap();
                }
                self.world.pass(60);
                self.world.happen(&event);
                continue;
            }
            match plan.reconcile_at {
                Some(until) if self.world.now < until => self.world.now = until,
                _ => return,
            }
        }
        panic!("no end:\n{}", self.text);
    }

    fn record_conditions(&mut self) {
        let (spec, state) = (self.world.spec(), self.world.state());
        let plan = plan::plan(&spec, &state, self.world.now);
        let new = status(&spec, &state, &plan, self.status.as_ref(), None, self.world.now);
        for condition in &new.conditions {
            let before = self
                .status
                .as_ref()
                .and_then(|status| status.conditions.iter().find(|before| before.type_ == condition.type_));
            let same =
                before.is_some_and(|before| (&before.status, &before.reason) == (&condition.status, &condition.reason));
            let usual = matches!(
                condition.reason.as_str(),
                "AsExpected" | "AllReplicasAvailable" | "AllReplicasUpdated"
            );
            if !(same || (before.is_none() && usual)) {
                let message = if condition.status == "False" || condition.type_ == "Degraded" {
                    format!(": {}", short(&condition.message))
                } else {
                    String::new()
                };
                writeln!(
                    self.text,
                    "  say {}={} {}{}",
                    condition.type_,
                    condition.status,
                    condition.reason,
                    message.trim_end_matches(": ")
                )
                .unwrap();
            }
        }
        self.status = Some(new);
    }

    fn end(&mut self) {
        self.record_conditions();
        let plan = self.world.plan();
        for wait in &plan.waits {
            writeln!(self.text, "wait {}: {}", wait.reason.name(), short(&wait.message)).unwrap();
        }
        for note in &plan.notes {
            writeln!(self.text, "note {}", short(note)).unwrap();
        }
        let state = self.world.state();
        let machines: Vec<String> = state
            .machines
            .iter()
            .map(|machine| {
                let zone = machine.domain.as_ref().map_or("-".to_owned(), ToString::to_string);
                let marks = [
                    (!machine.is_ready(), " not ready"),
                    (!machine.is_current(), " outdated"),
                    (machine.is_deleting(), " deleting"),
                ];
                let marks: String = marks.iter().filter(|(on, _)| *on).map(|(_, text)| *text).collect();
                format!("{} in {zone}{marks}", short(&machine.name))
            })
            .collect();
        let counts = Counts::of(&state, self.world.now);
        writeln!(
            self.text,
            "end {}; {} machines, {} ready, {} updated, {} unavailable",
            machines.join(", "),
            counts.replicas,
            counts.ready,
            counts.updated,
            counts.unavailable
        )
        .unwrap();
    }
}

const M0: &str = "ocp-x7k2p-master-0";
const M1: &str = "ocp-x7k2p-master-1";
const M2: &str = "ocp-x7k2p-master-2";

/// The newest machine.
fn newest(trace: &Trace) -> String {
    let machine = trace.world.observed.machines.last().unwrap();
    machine.metadata.name().to_owned()
}

macro_rules! golden {
    ($($name:ident($zones:literal, $wanted:expr): $script:expr;)*) => {$(
        #[test]
        fn $name() {
            let mut trace = Trace::new($zones, $wanted);
            let script: fn(&mut Trace) = $script;
            script(&mut trace);
            insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
                insta::assert_snapshot!(stringify!($name), trace.text);
            });
        }
    )*};
}

golden! {
    a_control_plane_in_its_desired_state_is_not_changed("a b c", OLD): Trace::run;
    a_changed_instance_type_replaces_three_machines_one_by_one("a b c", NEW): Trace::run;
    a_changed_instance_type_replaces_five_machines_one_by_one("a b c a b", NEW): |t| {
        t.world.zones("a b c");
        t.run();
    };
    three_machines_are_spread_over_two_zones("a b a", NEW): |t| {
        t.world.zones("a b");
        t.run();
    };
    without_failure_domains_machines_are_created_from_the_template("a a a", NEW): |t| {
        t.world.template().as_object_mut().unwrap().remove("failureDomains");
        t.world.template()["spec"]["providerSpec"]["value"]["placement"]["availabilityZone"] = json!("us-east-1a");
        t.run();
    };
    a_prefix_names_new_machines("a b c", OLD): |t| {
        t.world.set["spec"]["machineNamePrefix"] = json!("control.plane");
        t.world.delete(M1);
        t.run();
    };
    a_deleted_machine_is_replaced_in_its_index("a b c", OLD): |t| {
        t.person("deletes machine 1");
        t.world.delete(M1);
        t.run();
    };
    three_machines_that_are_deleted_together_are_replaced_one_after_the_other("a b c", OLD): |t| {
        t.person("deletes all machines");
        for name in [M0, M1, M2] {
            t.world.delete(name);
        }
        t.run();
    };
    with_on_delete_three_deleted_machines_are_replaced_one_after_the_other("a b c", NEW): |t| {
        t.world.strategy("OnDelete");
        t.person("deletes all machines");
        for name in [M0, M1, M2] {
            t.world.delete(name);
        }
        t.run();
    };
    on_delete_waits_for_its_user("a b c", NEW): |t| {
        t.world.strategy("OnDelete");
        t.run();
        t.person("deletes machine 1");
        t.world.delete(M1);
        t.run();
    };
    a_paused_rollout_replaces_nothing("a b c", NEW): |t| {
        t.world.annotate(spec::PAUSED_ROLLOUT, "");
        t.run();
        t.person("removes the annotation");
        t.world.set["metadata"].as_object_mut().unwrap().remove("annotations");
        t.run();
    };
    a_paused_rollout_still_repairs("a b c", NEW): |t| {
        t.world.annotate(spec::PAUSED_ROLLOUT, "true");
        t.person("deletes machine 2");
        t.world.delete(M2);
        t.run();
    };
    a_rollout_that_is_paused_during_a_replacement_keeps_both_machines("a b c", NEW): |t| {
        t.run_steps(1);
        t.person("pauses");
        t.world.annotate(spec::PAUSED_ROLLOUT, "true");
        t.run();
        t.person("resumes");
        t.world.annotate(spec::PAUSED_ROLLOUT, "False");
        t.run();
    };
    b24_a_canary_stops_after_one_machine("a b c", NEW): |t| {
        t.world.annotate(spec::ROLLOUT_LIMIT, "1");
        t.run();
        t.person("raises the limit to 3");
        t.world.annotate(spec::ROLLOUT_LIMIT, "3");
        t.run();
    };
    an_unhealthy_etcd_member_delays_a_rollout("a b c", NEW): |t| {
        t.world.etcd("True", "EtcdMembersAvailable: 2 of 3 members are available, node-2 is unhealthy");
        t.run();
        t.person("brings the member back");
        t.world.etcd("True", "EtcdMembersAvailable: 3 members are available");
        t.run();
    };
    an_etcd_member_that_fails_during_a_replacement_keeps_the_old_machine("a b c", NEW): |t| {
        t.run_steps(1);
        t.world.etcd("False", "EtcdMembersAvailable: 1 of 4 members are available");
        t.run();
        t.world.etcd("True", "EtcdMembersAvailable: 4 members are available");
        t.person("brings the members back");
        t.run();
    };
    an_unhealthy_etcd_member_does_not_delay_the_repair_of_its_machine("a b c", OLD): |t| {
        t.world.etcd("True", "EtcdMembersAvailable: 2 of 3 members are available, node-1 is unhealthy");
        t.world.node_down(M1);
        t.person("deletes machine 1, whose node is down");
        t.world.delete(M1);
        t.run();
    };
    b1_a_machine_without_its_node_object_is_replaced_after_its_deletion("a b c", OLD): |t| {
        t.world.node_gone(M1);
        t.world.fail(M1, "instance i-1 does not exist");
        t.record_conditions();
        t.person("a health check deletes machine 1");
        t.world.delete(M1);
        t.run();
    };
    b5_the_old_machine_stays_while_its_replacement_is_not_ready("a b c", NEW): |t| {
        t.run_until(|world| world.observed.machines.len() == 4 && world.observed.nodes.len() == 4);
        t.world.pass(3600);
        // The node never becomes ready.
        t.end();
    };
    b4_machines_of_a_former_set_are_adopted("a b c", OLD): |t| {
        for name in [M0, M1, M2] {
            t.world.machine(name).metadata.owner_references[0].uid = "former-uid".to_owned();
        }
        t.run();
    };
    b6_a_machine_of_another_owner_stops_the_rollout("a b c", NEW): |t| {
        t.world.machine(M2).metadata.owner_references[0].kind = "MachineSet".to_owned();
        t.run();
        t.person("removes that owner");
        t.world.machine(M2).metadata.owner_references.clear();
        t.run();
    };
    b15_an_empty_index_is_filled_before_a_rollout_starts("a b c", NEW): |t| {
        t.world.observed.machines.pop();
        t.world.observed.nodes.pop();
        t.run();
    };
    machines_without_an_owner_are_adopted_first("a b c", NEW): |t| {
        t.world.set["metadata"].as_object_mut().unwrap().remove("finalizers");
        for name in [M0, M1, M2] {
            t.world.machine(name).metadata.owner_references.clear();
        }
        t.run_steps(1);
    };
    b22_machines_without_numbers_get_their_index_once("a b c", NEW): |t| {
        t.world.observed.machines.clear();
        t.world.observed.nodes.clear();
        for (name, zone) in [("ocp-x7k2p-master-blue", "c"), ("ocp-x7k2p-master-red", "a"), ("ocp-x7k2p-master-dun", "b")] {
            t.world.add(name, zone, OLD);
        }
        t.run();
    };
    indexes_that_do_not_start_at_zero_stay("a b c", NEW): |t| {
        t.world.observed.machines.clear();
        t.world.observed.nodes.clear();
        for (name, zone) in [("ocp-x7k2p-master-3", "a"), ("ocp-x7k2p-master-4", "b"), ("ocp-x7k2p-master-5", "c")] {
            t.world.add(name, zone, OLD);
        }
        t.run();
    };
    a_failed_replacement_degrades_the_set_until_it_is_deleted("a b c", NEW): |t| {
        t.run_steps(1);
        let name = newest(t);
        t.person("the cloud has no capacity");
        t.world.fail(&name, "InsufficientInstanceCapacity");
        t.run();
        t.person("deletes the failed machine");
        t.world.delete(&name);
        t.world.machine(&name).spec.lifecycle_hooks = None;
        t.run();
    };
    a_machine_that_fails_in_an_empty_index_is_reported_too("a b c", OLD): |t| {
        t.world.observed.machines.pop();
        t.world.observed.nodes.pop();
        t.run_steps(1);
        let name = newest(t);
        t.world.fail(&name, "quota exceeded");
        t.run();
    };
    a_corrected_template_deletes_the_failed_machine("a b c", "m6i.typo"): |t| {
        t.run_steps(1);
        let name = newest(t);
        t.world.fail(&name, "no such instance type");
        t.run();
        t.person("corrects the template");
        t.world.want(NEW);
        t.run();
    };
    a_template_change_while_a_replacement_starts_deletes_the_replacement("a b c", NEW): |t| {
        t.run_steps(1);
        t.person("changes the template again");
        t.world.want("m6i.2xlarge");
        t.run();
    };
    a_template_change_after_a_replacement_is_ready_deletes_the_replacement("a b c", NEW): |t| {
        t.run_until(|world| world.plan().disruptive().is_some_and(|step| matches!(step.action, Action::Delete { .. })));
        t.person("changes the template again");
        t.world.want("m6i.2xlarge");
        t.run();
    };
    a_reverted_template_stops_the_rollout("a b c", NEW): |t| {
        t.run_until(|world| world.observed.machines.len() == 3 && newest_is_new(world));
        t.person("reverts the template");
        t.world.want(OLD);
        t.run();
    };
    a_change_to_on_delete_during_a_replacement_leaves_both_machines("a b c", NEW): |t| {
        t.run_until(|world| world.plan().disruptive().is_some_and(|step| matches!(step.action, Action::Delete { .. })));
        t.person("switches to OnDelete");
        t.world.strategy("OnDelete");
        t.run();
        t.person("deletes machine 0");
        t.world.delete(M0);
        t.run();
    };
    a_change_to_rolling_update_starts_the_rollout("a b c", NEW): |t| {
        t.world.strategy("OnDelete");
        t.run();
        t.person("switches to RollingUpdate");
        t.world.strategy("RollingUpdate");
        t.run();
    };
    a_zone_that_is_removed_moves_its_machine("a b c", OLD): |t| {
        t.world.zones("a b");
        t.run();
    };
    a_new_zone_that_sorts_first_moves_no_machine("b c d", OLD): |t| {
        t.world.zones("a b c d");
        t.run();
    };
    a_new_zone_that_improves_the_spread_moves_one_machine("a b a", OLD): |t| {
        t.world.zones("a b c");
        t.run();
    };
    zones_that_change_during_a_rollout_are_used("a b c", NEW): |t| {
        t.run_steps(1);
        t.person("replaces zone a by d");
        t.world.zones("b c d");
        t.run();
    };
    b20_an_unmanaged_node_degrades_the_set("a b c", NEW): |t| {
        let since = t.world.now;
        t.world.set_node("stranger", "True", since);
        t.run();
    };
    an_additional_index_degrades_the_set("a b c", NEW): |t| {
        t.world.add("ocp-x7k2p-master-3", "a", OLD);
        t.run();
    };
    a_set_without_a_ready_machine_is_degraded("a b c", NEW): |t| {
        for name in [M0, M1, M2] {
            t.world.node_gone(name);
        }
        t.end();
    };
    a_set_without_a_machine_is_degraded("a b c", NEW): |t| {
        t.world.observed.machines.clear();
        t.world.observed.nodes.clear();
        t.run();
    };
    recreate_deletes_the_old_machine_first("a b c", NEW): |t| {
        recreate(t);
        t.run();
    };
    recreate_waits_while_another_machine_is_not_ready("a b c", NEW): |t| {
        recreate(t);
        t.world.machine(M1).spec.provider_spec.value.as_mut().unwrap()["instanceType"] = json!(NEW);
        t.world.node_down(M1);
        t.end();
    };
    recreate_creates_a_machine_after_the_deleted_one_is_gone("a b c", OLD): |t| {
        recreate(t);
        t.world.delete(M1);
        t.run();
    };
    b16_labels_and_annotations_of_the_template_are_applied_in_place("a b c", OLD): |t| {
        t.world.template()["metadata"]["labels"]["team"] = json!("infra");
        t.world.template()["metadata"]["annotations"] = json!({"note": "rack 7"});
        t.run();
    };
    an_image_change_rolls_nothing("a b c", OLD): |t| {
        t.world.template()["spec"]["providerSpec"]["value"]["ami"]["id"] = json!("ami-9");
        t.run();
    };
    b16_an_image_change_rolls_with_the_annotation("a b c", OLD): |t| {
        t.world.template()["spec"]["providerSpec"]["value"]["ami"]["id"] = json!("ami-9");
        t.world.annotate("capstan.dev/roll-on-image-change", "true");
        t.run();
    };
    an_inactive_set_takes_no_step("a b c", NEW): |t| {
        t.world.set["spec"]["state"] = json!("Inactive");
        t.world.set["metadata"].as_object_mut().unwrap().remove("finalizers");
        t.world.machine(M1).metadata.owner_references.clear();
        t.run();
    };
    b3_a_set_that_is_deleted_releases_all_machines_first("a b c", NEW): |t| {
        t.world.machine(M1).metadata.labels.clear();
        t.world.machine(M2).metadata.owner_references.clear();
        t.person("deletes the set; machine 1 lost its labels");
        t.world.set["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
        t.run();
    };
    b14_a_machine_that_loses_its_labels_is_reported("a b c", OLD): |t| {
        t.world.machine(M1).metadata.labels.clear();
        t.run();
    };
    a_new_machine_that_loses_its_labels_is_not_created_twice("a b c", NEW): |t| {
        t.run_steps(1);
        let name = t.world.observed.machines.last().unwrap().metadata.name().to_owned();
        t.person("takes the labels off the new machine");
        let labels = std::mem::take(&mut t.world.machine(&name).metadata.labels);
        t.run();
        t.person("puts them back");
        t.world.machine(&name).metadata.labels = labels;
        t.run();
    };
    an_outdated_machine_that_is_not_ready_is_replaced_first("a b c", NEW): |t| {
        t.world.node_gone(M1);
        t.run();
    };
    a_rollout_waits_for_a_machine_that_is_not_ready("a b c", NEW): |t| {
        t.world.want(OLD);
        t.world.node_gone(M2);
        t.world.machine(M1).spec.provider_spec.value.as_mut().unwrap()["instanceType"] = json!("m5.large");
        t.end();
    };
    a_second_machine_of_an_index_is_removed("a b c", OLD): |t| {
        t.world.add("ocp-x7k2p-master-extra-1", "b", OLD);
        t.run();
    };
    b24_a_passed_deadline_is_reported("a b c", NEW): |t| {
        t.world.annotate(spec::PROGRESS_DEADLINE, "30m");
        t.run_steps(1);
        t.record_conditions();
        t.world.pass(3600);
        t.end();
    };
    a_user_deletes_the_old_machine_before_its_replacement_is_ready("a b c", NEW): |t| {
        t.run_steps(1);
        t.person("deletes machine 0");
        t.world.delete(M0);
        t.run();
    };
    a_user_deletes_a_replacement_before_it_is_ready("a b c", NEW): |t| {
        t.run_steps(1);
        let name = newest(t);
        t.person("deletes the replacement");
        t.world.delete(&name);
        t.world.machine(&name).spec.lifecycle_hooks = None;
        t.run();
    };
    two_machines_that_are_lost_together_are_created_one_after_the_other("a b c", OLD): |t| {
        for _ in 0..2 {
            t.world.observed.machines.pop();
            t.world.observed.nodes.pop();
        }
        t.run();
    };
}

fn recreate(trace: &mut Trace) {
    trace.world.gates.recreate = true;
    trace.world.annotate(spec::RECREATE_ACKNOWLEDGED, spec::RECREATE_RISK);
    trace.world.strategy("Recreate");
}

fn newest_is_new(world: &World) -> bool {
    let machine = world.observed.machines.last().unwrap();
    machine
        .metadata
        .creation_timestamp
        .is_some_and(|created| created > world.ago(7200))
}
