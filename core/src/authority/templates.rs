//! The infrastructure templates of a mirrored MachineSet: which one its mirror in Cluster API
//! refers to, and which ones are not needed any more.
//!
//! Templates are immutable in Cluster API. So a change of the MachineSet in the Machine API makes a
//! new template, whose name has a hash of its content (decision 14). The template that the mirror
//! refers to stays while it has the same content, whatever its name is: a user may have made it
//! while Cluster API was authoritative.
//!
//! Must never: delete a template that a MachineSet refers to, or one that a user made.

use serde_json::Value;

use super::TEMPLATE_SET;
use super::difference::Difference;
use super::pair::{FullObject, Pair, Part, Write};
use super::pause;
use crate::api::machine_openshift_io::authority::MIRRORED;
use crate::conversion::{self, Context};

/// The template that the mirror should refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Template {
    /// The wanted template does not exist.
    Create,
    /// The template with this name has the wanted content.
    Stored(String),
    /// The template with the wanted name cannot be used. The text tells why.
    Unusable(String),
}

/// Finds the stored template for a wanted one.
pub(super) fn choose(pair: &Pair, wanted: &Value, context: &Context<'_>) -> Template {
    let name = |object: &FullObject| object.text("/metadata/name").unwrap_or_default().to_owned();
    let text = |at: &str| wanted.pointer(at).and_then(Value::as_str);
    let spec = |object: &Value| conversion::normalise(object, context).get("spec").cloned();
    let is_same = |object: &&FullObject| {
        object.text("/kind") == text("/kind") && !object.member.deleting && spec(&object.value) == spec(wanted)
    };
    if let Some(known) = pair.infrastructure.as_ref().filter(is_same) {
        return Template::Stored(name(known));
    }
    let mut stored = pair.infrastructure.iter().chain(&pair.templates);
    let Some(known) = stored.find(|known| known.text("/metadata/name") == text("/metadata/name")) else {
        return Template::Create;
    };
    if known.member.deleting {
        return Template::Unusable(format!("{} is being deleted", pause::title(known)));
    }
    let none = Value::Null;
    let of = |object: &Value| object.get("spec").cloned().unwrap_or_default();
    let difference = Difference::between(&of(wanted), known.value.get("spec").unwrap_or(&none), "spec");
    match difference.missing.first() {
        None => Template::Stored(name(known)),
        Some(field) => Template::Unusable(format!(
            "{field}: {} has another value than the MachineSet, and a template cannot be changed",
            pause::title(known)
        )),
    }
}

/// Deletes the next template that the sync controller made for this MachineSet, and that no
/// MachineSet of Cluster API refers to any more.
pub(super) fn unused(pair: &Pair) -> Option<Write> {
    let is_made = |object: &FullObject| {
        let label = object.member.labels.get(TEMPLATE_SET);
        label == Some(&pair.name) && object.annotation(MIRRORED).is_some()
    };
    let is_used = |object: &FullObject| {
        let name = object.text("/metadata/name").unwrap_or_default();
        pair.templates_in_use.iter().any(|used| used == name)
    };
    let mut templates = pair.templates.iter().enumerate();
    let (at, template) = templates
        .find(|(_, object)| pair.is_set() && is_made(object) && !is_used(object) && !object.member.deleting)?;
    let because = "no MachineSet refers to this infrastructure template";
    Some(Write::delete(Part::Template(at), template, because))
}

/// Deletes the next template of a MachineSet that does not exist in Cluster API any more.
pub(super) fn left_over(pair: &Pair) -> Option<Write> {
    pair.cluster_api.is_none().then(|| unused(pair)).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::authority::spec::Kind;

    fn template(name: &str, is_made: bool, instance: &str) -> FullObject {
        let annotations = is_made.then(|| json!({MIRRORED: "{}"}));
        FullObject::from(
            json!({"kind": "AWSMachineTemplate", "metadata": {"name": name, "uid": name,
            "resourceVersion": "1", "labels": {TEMPLATE_SET: "s"}, "annotations": annotations},
            "spec": {"template": {"spec": {"instanceType": instance}}}}),
        )
    }

    fn pair(infrastructure: Option<FullObject>, templates: Vec<FullObject>) -> Pair {
        Pair {
            kind: Kind::MachineSet,
            name: String::from("s"),
            infrastructure,
            templates,
            templates_in_use: vec![String::from("s-00000001")],
            ..Pair::default()
        }
    }

    #[test]
    fn only_a_template_that_nothing_uses_and_no_user_made_is_deleted() {
        let kept = vec![template("s-00000001", true, "a"), template("by-hand", false, "a")];
        assert_eq!(unused(&pair(None, kept.clone())), None);
        let mut all = kept;
        all.push(template("s-00000002", true, "a"));
        let write = unused(&pair(None, all));
        assert_eq!(write.map(|write| write.part), Some(Part::Template(2)));
    }

    #[test]
    fn a_template_is_chosen_by_its_content_and_then_by_its_name() {
        let wanted = template("s-00000003", false, "a").value;
        let choose = |pair: &Pair| choose(pair, &wanted, &Context::default());
        let by_hand = || Some(template("by-hand", false, "a"));
        assert_eq!(
            choose(&pair(by_hand(), Vec::new())),
            Template::Stored(String::from("by-hand"))
        );
        let other = || Some(template("by-hand", false, "b"));
        assert_eq!(choose(&pair(other(), Vec::new())), Template::Create);
        let named = vec![template("s-00000003", true, "a")];
        assert_eq!(
            choose(&pair(other(), named)),
            Template::Stored(String::from("s-00000003"))
        );
        let foreign = vec![template("s-00000003", false, "b")];
        assert!(matches!(choose(&pair(other(), foreign)), Template::Unusable(_)));
    }
}
