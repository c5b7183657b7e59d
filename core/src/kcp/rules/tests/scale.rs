//! The rules for a Scale, with and without the control plane that it is about.

use super::*;

#[test]
fn a_scale_obeys_the_rules_of_replicas() {
    let scale =
        |replicas: Value| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}});
    let external = with(&valid(), &borrowed(&cluster("etcd/external/endpoints", json!(["a"]))));
    for (object, replicas, count) in [
        (&valid(), json!(5), 0),
        (&valid(), json!(2), 1),
        (&valid(), json!(0), 2),
        (&valid(), Value::Null, 2),
        (&external, json!(2), 0),
        (&external, json!(0), 1),
    ] {
        let found = found(&scale(replicas.clone()), Some(object), "scale", |edit| {
            validate(edit, None, Gates::default())
        });
        assert_eq!(found.len(), count, "{replicas}: {found:?}");
    }
}

/// An API server sends only the Scale before and after the edit. The refusal of an even number is
/// provisional until the control plane was read.
#[test]
fn w132_an_even_scale_is_judged_with_the_control_plane_that_it_is_about() {
    let scale =
        |replicas: i64| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}});
    let external = with(&valid(), &borrowed(&cluster("etcd/external/endpoints", json!(["a"]))));
    let (old, new, none) = (scale(3), scale(2), scale(0));
    let judged = |new: &Value, scaled: Option<&Value>| {
        let mut provisional = Vec::new();
        let found = found(new, Some(&old), "scale", |edit| {
            let verdict = validate(edit, scaled, Gates::default());
            provisional.extend(verdict.violations.iter().map(|violation| violation.is_provisional));
            verdict
        });
        (found, provisional)
    };
    let odd = expected(&[("kcp-replicas-odd", "spec.replicas")]);
    assert_eq!(judged(&new, None), (odd.clone(), vec![true]));
    assert_eq!(judged(&new, Some(&valid())), (odd, vec![false]));
    assert_eq!(judged(&new, Some(&external)), (Vec::new(), Vec::new()));
    // The reasons for 0 differ, too.
    assert_eq!(judged(&none, None).1, [true, true]);
    let reasons = |scaled: &Value| judged(&none, Some(scaled)).0.len();
    assert_eq!((reasons(&external), reasons(&valid())), (1, 2));
}

#[test]
fn w142_a_scale_of_an_unread_control_plane_says_so() {
    let scale =
        |replicas: i64| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}});
    let advice = |scaled: Option<&Value>| {
        let mut found = Vec::new();
        crate::kcp::rules::scale::judge(&scale(4), scaled, &mut found);
        found.remove(0).advice
    };
    assert!(advice(None).contains("could not be read"));
    assert!(advice(Some(&scale(3))).contains("could not be read"));
    assert_eq!(advice(Some(&valid())), "set 1, 3 or 5");
}

/// Cluster API allows this Scale, and refuses every edit after it.
#[test]
fn w141_a_scale_that_makes_the_object_invalid_has_a_warning() {
    let surge = |number: i64| {
        let path = "/spec/rollout/strategy/rollingUpdate/maxSurge";
        with(&valid(), &[("/spec/replicas", json!(3)), (path, json!(number))])
    };
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 1}});
    let warned = |scaled: &Value| {
        let mut warned = false;
        let found = found(&scale, Some(scaled), "scale", |edit| {
            let verdict = validate(edit, None, Gates::default());
            warned = verdict
                .warnings
                .iter()
                .any(|warning| warning.text.contains("kcp-scale-in-replicas"));
            verdict
        });
        assert_eq!(found, []);
        warned
    };
    assert!(warned(&surge(0)) && !warned(&surge(1)));
}

#[test]
fn v49_the_number_of_a_scale_is_a_number() {
    let scale = |replicas: Value| {
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}});
        found(&scale, Some(&valid()), "scale", |edit| {
            validate(edit, None, Gates::default())
        })
    };
    assert_eq!(scale(json!("3")), expected(&[("kcp-field-types", "spec.replicas")]));
    assert_eq!(scale(json!(3.0)), []);
    assert_eq!(scale(Value::Null), scale(json!(0)));
}

#[test]
fn v66_the_number_of_a_scale_has_32_bits() {
    let scale = |replicas: i64| {
        let mut found = Vec::new();
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}});
        crate::kcp::rules::scale::judge(&scale, None, &mut found);
        found.len()
    };
    assert_eq!((scale(3), scale(4_294_967_297)), (0, 1));
}

/// A file with conditions that no API server would store.
#[test]
fn v304_conditions_without_a_field_do_not_hide_the_spec() {
    let condition = json!({"type": "Available", "status": "True"});
    let old = with(
        &valid(),
        &[
            ("/spec/replicas", json!(5)),
            ("/status", json!({ "conditions": [condition] })),
        ],
    );
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 1}});
    let mut warnings = 0;
    let refused = found(&scale, Some(&old), "scale", |edit| {
        let verdict = validate(edit, None, Gates::default());
        warnings = verdict.warnings.len();
        verdict
    });
    assert_eq!((refused.len(), warnings), (0, 1));
    let external = with(&old, &borrowed(&cluster("etcd/external/endpoints", json!(["a"]))));
    let refused = found(&external, Some(&old), "", |edit| validate(edit, None, Gates::default()));
    assert!(!refused.is_empty(), "the kind of etcd does not change");
}

#[test]
fn w189_a_stored_object_that_cannot_be_read_has_a_warning() {
    let old = with(&valid(), &[("/spec/replicas", json!("five"))]);
    let warnings = |old: &Value| {
        let mut warnings = Vec::new();
        let _ = found(&valid(), Some(old), "", |edit| {
            let verdict = validate(edit, None, Gates::default());
            warnings.extend(
                verdict
                    .warnings
                    .iter()
                    .map(|warning| (warning.text.clone(), warning.not_judged)),
            );
            verdict
        });
        warnings
    };
    assert_eq!(warnings(&valid()), []);
    let found = warnings(&old);
    let [(text, true)] = &found[..] else {
        panic!("{found:?}")
    };
    assert!(text.contains("the stored object cannot be read"), "{text}");
}
