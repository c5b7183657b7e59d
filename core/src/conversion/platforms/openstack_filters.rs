//! What the security groups, networks and subnets of OpenStack machines have in common: IDs, tags,
//! projects, and the choice between an ID and a filter.

use serde_json::{Map, Value, json};

use crate::conversion::Api::MachineApi;
use crate::conversion::Severity;
use crate::conversion::pass::Pass;
use crate::conversion::pass::rule::Hand;
use crate::conversion::shape::{Converted, Shape, fault, text};

/// What a UUID must be.
pub(super) const UUID: &str = "must be a UUID";

/// A list of strings in which each stands once.
pub(super) fn unique(value: &Value) -> Converted {
    let converted = Shape::Texts.convert(MachineApi, value)?;
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    let repeats = items
        .iter()
        .enumerate()
        .any(|(index, item)| items.iter().skip(index + 1).any(|other| other == item));
    if repeats {
        return Err(fault("must not contain an entry twice", "remove the duplicate"));
    }
    Ok(converted)
}

/// The project of a security group, a network or a subnet.
pub(super) const PROJECT: Hand = Hand {
    machine_api: &["filter.projectId", "filter.tenantId"],
    cluster_api: &["filter.projectID"],
    about: "filter.tenantId is the former name of filter.projectId, which wins",
    to: |pass| project(pass, "filter.projectID"),
    back: |pass| {
        if let Some(id) = pass.take_text("filter.projectID") {
            pass.put("filter.projectId", id.into());
        }
    },
};

/// Takes the ID of the project in a filter, and writes it to a field of Cluster API.
pub(super) fn project(pass: &mut Pass<'_>, to: &str) {
    let (project, tenant) = (pass.take_text("filter.projectId"), pass.take_text("filter.tenantId"));
    if project.is_some() && tenant.is_some() && project != tenant {
        let path = pass.path("filter.tenantId");
        let reason = "Cluster API selects one project, and projectId wins";
        pass.report(Severity::Loses, path, reason, "remove it");
    }
    if let Some(id) = project.or(tenant) {
        pass.put(to, id.into());
    }
}

/// Writes the project of a filter under its present name.
pub(super) fn normal_project(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(filter)) = fields.get_mut("filter")
        && let Some(tenant) = filter.remove("tenantId")
    {
        filter.entry("projectId").or_insert(tenant);
    }
}

/// Checks that an object of Cluster API is selected by its ID or by a filter.
pub(super) const ONE_SELECTION: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "either an ID or a filter",
    to: |pass| {
        let (id, filter) = (pass.target.contains_key("id"), pass.target.contains_key("filter"));
        if id == filter && pass.issues.is_empty() {
            pass.block(
                "",
                "Cluster API selects it either by an ID or by a filter",
                "set exactly one of them",
            );
        }
    },
    back: |pass| {
        let id = ["uuid", "networkID"]
            .iter()
            .any(|field| pass.target.contains_key(*field));
        let filter = ["name", "filter"].iter().any(|field| pass.target.contains_key(*field));
        if id == filter && pass.issues.is_empty() {
            pass.block("", "must have either an ID or a filter", "set exactly one of them");
        }
    },
};

/// Tags: a text with commas in the Machine API, and a list in Cluster API.
pub(super) const TAGS: Shape = Shape::Codec {
    to: |value| {
        let Some(Value::String(tags)) = text(value)? else {
            return Ok(None);
        };
        let tags: Vec<&str> = tags.split(',').collect();
        if tags.iter().any(|tag| tag.is_empty()) {
            return Err(fault("must be tags separated by one comma each", "correct the tags"));
        }
        unique(&json!(tags))
    },
    back: |value| {
        let Some(list) = unique(value)? else {
            return Ok(None);
        };
        let tags: Vec<&str> = list
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if tags.iter().any(|tag| tag.is_empty() || tag.contains(',')) {
            return Err(fault("a tag must not be empty or contain a comma", "use other tags"));
        }
        Ok(Some(tags.join(",").into()))
    },
    about: "tags separated by commas are a list",
};
