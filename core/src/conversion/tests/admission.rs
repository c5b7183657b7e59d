//! What admission asks the conversion for.

use serde_json::json;

use super::samples::samples;
use crate::conversion::{Context, Lookup, convert, hand_over, issues};

#[test]
fn what_is_not_known_is_not_an_issue() {
    for sample in samples() {
        let machine = sample.machine(&sample.provider_spec);
        assert_eq!(issues(&machine), [], "{}", sample.platform);
    }
}

#[test]
fn infrastructure_alone_has_the_issues_that_it_has_with_its_machine() {
    for sample in samples() {
        let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
        let mut infrastructure = there.objects[1].clone();
        assert_eq!(issues(&infrastructure), [], "{}", sample.platform);
        infrastructure["spec"]["fieldOfTomorrow"] = json!(1);
        let alone = issues(&infrastructure);
        let context = Context {
            infrastructure_machine: Lookup::Found(&infrastructure),
            ..sample.context()
        };
        let whole = convert(&there.objects[0], &context).issues;
        assert_eq!(alone[0].path.as_str(), "spec.fieldOfTomorrow");
        assert_eq!(
            whole[0].path.as_str(),
            format!("{} spec.fieldOfTomorrow", infrastructure["kind"].as_str().unwrap())
        );
    }
}

#[test]
fn machines_of_bare_metal_convert_but_are_not_handed_over() {
    for sample in samples() {
        let machine = sample.machine(&sample.provider_spec);
        assert_eq!(hand_over(&machine).is_some(), sample.platform == "bare-metal");
    }
}
