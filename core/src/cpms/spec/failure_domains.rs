//! The failure domains of a set: the list of the platform, checked entry by entry.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::context::{ParseContext, Violations};
use crate::api::machine_openshift_io::control_plane_machine_set::{FailureDomains, MAX_FAILURE_DOMAINS};
use crate::cpms::domains::{self, FailureDomain, Platform};
use crate::cpms::fields;
use crate::cpms::stored_form::normalized;
use crate::model::{FieldPath, Violation, ViolationKind};
use crate::platforms::schema::UnknownFields;

/// The failure domains in order and without duplicates, completed from the provider spec; `None` if
/// the list cannot be read. `path` is the path of the machine template. The work grows linearly
/// with the list, apart from sorting.
pub(super) fn failure_domains(
    domains: &FailureDomains,
    path: &FieldPath,
    provider_spec: Option<&Value>,
    context: &ParseContext<'_>,
    found: &mut Violations,
) -> Option<Vec<FailureDomain>> {
    let path = path.child("failureDomains");
    let Some(platform) = platform(domains, &path, found) else {
        return domains.platform.is_empty().then(Vec::new);
    };
    for other in Platform::ALL.into_iter().filter(|other| *other != platform) {
        forbid_member(domains, other, &path, found);
    }
    check_platform(platform, provider_spec, &path, found);
    let path = path.child(platform.member());
    let entries = domains::entries(domains, platform).unwrap_or_default();
    if !has_allowed_length(&entries, platform, &path, found) {
        return None;
    }
    // The keys of the template may be in another case than those of a stored machine.
    let template = provider_spec.map(|spec| normalized(spec.clone(), UnknownFields::Drop));
    let mut listed: BTreeSet<FailureDomain> = BTreeSet::new();
    for (position, entry) in entries.into_iter().enumerate() {
        let path = path.index(position);
        check_entry(platform, &entry, &path, context, found);
        let domain = FailureDomain::new(platform, entry);
        let domain = match &template {
            Some(spec) => domains::into_complete(domain, spec),
            None => domain,
        };
        // A name is the key of its list. A zone may be repeated, and counts once.
        if platform.by_name() && listed.contains(&domain) {
            let violation = Violation::new(
                "cpms-failure-domain",
                path,
                ViolationKind::Duplicate,
                "must have a unique name",
            );
            found.add(violation.got(domain.entry()));
        }
        listed.insert(domain);
    }
    Some(listed.into_iter().collect())
}

/// Whether the list has an allowed length. A longer list is refused as a whole: OpenShift's CRD has
/// no maximum, and each entry costs time.
fn has_allowed_length(entries: &[Value], platform: Platform, path: &FieldPath, found: &mut Violations) -> bool {
    let violation = match entries.len() {
        0 => Violation::new(
            "cpms-failure-domains",
            path.clone(),
            ViolationKind::Required,
            format!("must have at least one failure domain when platform is {platform}"),
        )
        .advice("list the failure domains, or remove failureDomains"),
        1..=MAX_FAILURE_DOMAINS => return true,
        length => Violation::new(
            "cpms-failure-domains",
            path.clone(),
            ViolationKind::TooMany,
            format!("must have at most {MAX_FAILURE_DOMAINS} items"),
        )
        .got(&json!(length))
        .advice("list only the failure domains that the control plane uses"),
    };
    found.add(violation);
    false
}

/// The platform that the set names; `None` for a set without failure domains, or of an unknown
/// platform.
fn platform(domains: &FailureDomains, path: &FieldPath, found: &mut Violations) -> Option<Platform> {
    let platform = Platform::from_name(&domains.platform);
    if platform.is_some() {
        return platform;
    }
    if domains.platform.is_empty() {
        // An empty platform means no failure domains. A list next to it would be ignored.
        for other in Platform::ALL {
            forbid_member(domains, other, path, found);
        }
        return None;
    }
    let names: Vec<String> = Platform::ALL
        .iter()
        .map(|platform| format!("{:?}", platform.name()))
        .collect();
    found.add(
        Violation::new(
            "cpms-platform",
            path.child("platform"),
            ViolationKind::NotSupported,
            format!("must be one of {}", names.join(", ")),
        )
        .got(&json!(domains.platform))
        .advice("remove failureDomains on a platform without them"),
    );
    None
}

/// The failure domains and the provider spec must be of one platform.
fn check_platform(platform: Platform, provider_spec: Option<&Value>, path: &FieldPath, found: &mut Violations) {
    let Some(spec) = provider_spec.filter(|spec| Platform::of(spec) != Some(platform)) else {
        return;
    };
    let kind = fields::text(spec, &["kind"]).unwrap_or_default();
    found.add(
        Violation::new(
            "cpms-platform-agrees",
            path.child("platform"),
            ViolationKind::Invalid,
            format!(
                "must be the platform of the provider spec: failure domains of {platform} require kind {}",
                platform.kind()
            ),
        )
        .got(&json!(platform.name()))
        .advice(format!("the provider spec has kind {kind:?}")),
    );
}

fn check_entry(
    platform: Platform,
    entry: &Value,
    path: &FieldPath,
    context: &ParseContext<'_>,
    found: &mut Violations,
) {
    for fault in domains::check(platform, entry, context.infrastructure) {
        let got = fault
            .path
            .split('.')
            .filter(|part| !part.is_empty())
            .try_fold(entry, |value, field| value.get(field));
        let path = if fault.path.is_empty() {
            path.clone()
        } else {
            path.child(&fault.path)
        };
        let violation = Violation::new("cpms-failure-domain", path, fault.kind, fault.allowed).advice(fault.advice);
        found.add(match got {
            Some(got) => violation.got(got),
            None => violation,
        });
    }
}

fn forbid_member(domains: &FailureDomains, platform: Platform, path: &FieldPath, found: &mut Violations) {
    if domains::entries(domains, platform).is_some() {
        let member = platform.member();
        let allowed = format!("must not be set unless platform is {platform}");
        let kind = ViolationKind::Forbidden;
        found.add(Violation::new(
            "cpms-failure-domains",
            path.child(member),
            kind,
            allowed,
        ));
    }
}
