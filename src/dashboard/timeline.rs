//! The rollout as a timeline: what is done, what happens now, what it waits for, and what follows.

use maud::{Markup, html};

use super::report::{Report, Step, Wait, domain};

/// The most entries of one kind that are shown at once. The others can be opened.
const SHOWN: usize = 8;

/// The timeline; nothing if there is neither a step nor a wait. `anchor` is the address of the
/// control plane on the page.
pub(super) fn timeline(report: &Report, anchor: &str) -> Markup {
    let (title, steps) = if report.rollout.is_empty() && !report.activation.is_empty() {
        ("After an activation", &report.activation)
    } else {
        ("Rollout", &report.rollout)
    };
    if report.next.is_empty() && steps.is_empty() && report.waits.is_empty() {
        return html! {};
    }
    let is_patch = |step: &&Step| step.action == "patch";
    let patches: Vec<&Step> = report.next.iter().filter(is_patch).collect();
    let now: Vec<&Step> = report.next.iter().filter(|step| !is_patch(step)).collect();
    // A plan lists the steps of now again as the first steps of the rollout.
    let later: Vec<&Step> = steps.iter().skip_while(|step| report.next.contains(step)).collect();
    let waits: Vec<&Wait> = report.waits.iter().collect();
    let key = |part: &str| format!("{anchor}-{part}");
    html! {
        section {
            h3 { (title) }
            ol class="timeline" {
                (done(&report.done()))
                (some(&now, &key("now"), |step| html! { li class="now" { span class="when" { "Now" } " " (step_of(step)) } }))
                (patched(&patches))
                (some(&waits, &key("waits"), |wait| html! { li class="wait" { span class="when" { "Waits" } " " bdi { (wait.message.strip_prefix("waiting ").unwrap_or(&wait.message)) } } }))
                (some(&later, &key("later"), |step| html! { li class="later" { span class="when" { "Next" } " " (step_of(step)) } }))
            }
        }
    }
}

/// The entries of one kind.
fn some<T>(all: &[&T], id: &str, entry: impl Fn(&T) -> Markup) -> Markup {
    // One more entry takes no more space than the line that opens it.
    let shown = if all.len() == SHOWN + 1 {
        all.len()
    } else {
        SHOWN.min(all.len())
    };
    let (first, rest) = all.split_at(shown);
    html! {
        @for one in first { (entry(one)) }
        @if !rest.is_empty() {
            li class="more" {
                details id=(id) {
                    summary { (rest.len()) " more" }
                    ol class="timeline" { @for one in rest { (entry(one)) } }
                }
            }
        }
    }
}

fn done(names: &[&str]) -> Markup {
    let (first, rest) = names.split_at(SHOWN.min(names.len()));
    html! {
        @if !names.is_empty() {
            li class="done" {
                span class="when" { "Done" } " "
                (names_of(first))
                @if !rest.is_empty() { " and " (rest.len()) " more" }
                @if names.len() == 1 { " is up to date" } @else { " are up to date" }
            }
        }
    }
}

fn names_of(names: &[&str]) -> Markup {
    html! {
        @for (position, name) in names.iter().enumerate() {
            @if position > 0 { ", " }
            bdi { (name) }
        }
    }
}

/// Patches of metadata, which replace nothing.
fn patched(steps: &[&Step]) -> Markup {
    match steps {
        [] => html! {},
        [one] => html! { li class="now" { span class="when" { "Now" } " " (step_of(one)) } },
        several => {
            let names: Vec<&str> = several.iter().map(|step| step.subject()).collect();
            let (first, rest) = names.split_at(SHOWN.min(names.len()));
            html! {
                li class="now" {
                    span class="when" { "Now" } " "
                    strong { "patch" } " the metadata of " (names_of(first))
                    @if !rest.is_empty() { " and " (rest.len()) " more" }
                    "; nothing is replaced"
                }
            }
        }
    }
}

fn step_of(step: &Step) -> Markup {
    let place = domain(&step.failure_domain);
    html! {
        strong { (step.action) } @if step.action == "patch" { " the metadata of " } @else { " " } bdi { (step.subject()) }
        @if !place.is_empty() { " in failure domain " bdi { (place) } }
        @if !step.because.is_empty() { span class="because" { "because " bdi { (step.because) } } }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(fields: &Value) -> String {
        let mut plan = json!({"set": "cluster"});
        json_patch::merge(&mut plan, fields);
        timeline(&Report::of(plan, None).unwrap(), "a").into_string()
    }

    #[test]
    fn a_step_of_now_is_not_listed_again_as_a_later_step() {
        let step = |machine: &str| json!({"action": "delete", "machine": machine, "because": "it is outdated"});
        let page = shown(&json!({"next": [step("a")], "rollout": [step("a"), step("b")]}));
        assert_eq!(page.matches(">a<").count(), 1, "{page}");
        assert!(page.contains(">b<"), "{page}");
    }

    #[test]
    fn patches_of_metadata_are_one_entry() {
        let step = |machine: &str| json!({"action": "patch", "machine": machine, "because": "it has no owner"});
        let page = shown(&json!({"next": [step("a"), step("b")]}));
        assert_eq!(page.matches("class=\"now\"").count(), 1, "{page}");
        assert!(page.contains("nothing is replaced"), "{page}");
    }

    #[test]
    fn a_long_rollout_can_be_opened() {
        let step = |number: usize| json!({"action": "delete", "machine": format!("m-{number}")});
        let steps: Vec<Value> = (0..100).map(step).collect();
        let page = shown(&json!({"rollout": steps}));
        let (before, after) = page.split_once("<details").unwrap();
        assert!(before.contains("m-7<") && !before.contains("m-8<"), "{before}");
        assert!(after.contains("92 more") && after.contains("m-99<"), "{after}");
    }
}
