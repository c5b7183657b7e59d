//! Failure domains: one comparable value for six platforms, and its conversion into and from a
//! provider spec.
//!
//! Every function returns a value or a [`DomainError`] for any JSON, and does not panic
//! (OpenShift's operator dereferences nil pointers, defect B12). `placement` decides the failure
//! domain of each machine.
//!
//! Source: the ControlPlaneMachineSet enhancement, "Failure domains"; vSphere and Nutanix as
//! OpenShift serves them (decision 4).

mod aws;
mod azure;
mod gcp;
mod nutanix;
mod openstack;
mod vsphere;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::machine_openshift_io::control_plane_machine_set::FailureDomains;
use crate::cpms::fields;
use crate::model::{ViolationKind, canonical_json};
use crate::platforms::{self, ProviderSpec};

/// A platform on which machines can be spread over failure domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Platform {
    /// Amazon Web Services.
    Aws,
    /// Microsoft Azure.
    Azure,
    /// Google Cloud.
    Gcp,
    /// OpenStack.
    OpenStack,
    /// VMware vSphere.
    VSphere,
    /// Nutanix.
    Nutanix,
}

impl Platform {
    /// All platforms, in the order of messages.
    pub const ALL: [Self; 6] = [
        Self::Aws,
        Self::Azure,
        Self::Gcp,
        Self::OpenStack,
        Self::VSphere,
        Self::Nutanix,
    ];

    /// The infrastructure platform type, as in `failureDomains.platform`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "AWS",
            Self::Azure => "Azure",
            Self::Gcp => "GCP",
            Self::OpenStack => "OpenStack",
            Self::VSphere => "VSphere",
            Self::Nutanix => "Nutanix",
        }
    }

    /// The platform of an infrastructure platform type.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|platform| platform.name() == name)
    }

    /// The kind of the platform's provider spec.
    pub fn kind(self) -> &'static str {
        self.provider_spec().kind
    }

    /// The platform's provider spec.
    pub fn provider_spec(self) -> ProviderSpec {
        match self {
            Self::Aws => platforms::aws::PROVIDER_SPEC,
            Self::Azure => platforms::azure::PROVIDER_SPEC,
            Self::Gcp => platforms::gcp::PROVIDER_SPEC,
            Self::OpenStack => platforms::openstack::PROVIDER_SPEC,
            Self::VSphere => platforms::vsphere::PROVIDER_SPEC,
            Self::Nutanix => platforms::nutanix::PROVIDER_SPEC,
        }
    }

    /// The platform of a provider spec's kind; `None` for kinds without failure domains.
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|platform| platform.kind() == kind)
    }

    /// The platform of a provider spec; `None` for kinds without failure domains.
    pub fn of(provider_spec: &Value) -> Option<Self> {
        Self::from_kind(fields::text(provider_spec, &["kind"])?)
    }

    /// The member of `failureDomains` with the list of this platform.
    pub fn member(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
            Self::OpenStack => "openstack",
            Self::VSphere => "vsphere",
            Self::Nutanix => "nutanix",
        }
    }

    /// Whether a failure domain is only a name that the Infrastructure `cluster` defines.
    pub fn by_name(self) -> bool {
        matches!(self, Self::VSphere | Self::Nutanix)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A failure domain. Two failure domains are equal if they describe the same location in different
/// notations. A clone shares its content.
#[derive(Clone, Debug)]
pub struct FailureDomain(Arc<Domain>);

#[derive(Debug)]
struct Domain {
    platform: Platform,
    /// The entry of the set.
    entry: Value,
    /// The known fields. Fields that the entry lacks have the values of the template.
    full: Value,
    /// `full` as canonical text, which is compared.
    key: String,
}

impl FailureDomain {
    /// A failure domain from an entry of a set.
    pub fn new(platform: Platform, entry: Value) -> Self {
        let full = match platform {
            Platform::Aws => aws::normal(&entry),
            Platform::Azure => azure::normal(&entry),
            Platform::Gcp => gcp::normal(&entry),
            Platform::OpenStack => openstack::normal(&entry),
            Platform::VSphere => vsphere::normal(&entry),
            Platform::Nutanix => nutanix::normal(&entry),
        };
        Self::with_full(platform, entry, full)
    }

    fn with_full(platform: Platform, entry: Value, full: Value) -> Self {
        let key = canonical_json(&full);
        Self(Arc::new(Domain {
            platform,
            entry,
            full,
            key,
        }))
    }

    /// The platform.
    pub fn platform(&self) -> Platform {
        self.0.platform
    }

    /// The entry of the set. For a failure domain that was read from a machine, the entry that a
    /// set would have.
    pub fn entry(&self) -> &Value {
        &self.0.entry
    }

    /// The entry. Fields that it lacks have the values of the template.
    pub fn full(&self) -> &Value {
        &self.0.full
    }

    /// The zone, or the name of a failure domain that the Infrastructure defines; `None` if the
    /// failure domain leaves it open.
    pub fn zone(&self) -> Option<&str> {
        let path = match self.0.platform {
            Platform::Aws => "/placement/availabilityZone",
            Platform::Azure | Platform::Gcp => "/zone",
            Platform::OpenStack => "/availabilityZone",
            Platform::VSphere | Platform::Nutanix => "/name",
        };
        self.0.full.pointer(path)?.as_str().filter(|zone| !zone.is_empty())
    }

    /// The location within a sentence: `us-east-1a`, but `zone 1`, because a number alone is
    /// unclear.
    pub fn place(&self) -> String {
        let label = self.label();
        if label.starts_with(|first: char| first.is_ascii_digit()) {
            format!("zone {label}")
        } else {
            label
        }
    }

    /// A short text for messages: `us-east-1a`, or `us-east-1a/subnet-1`.
    pub fn label(&self) -> String {
        let entry = match self.0.platform {
            // The values of the template are the same in all failure domains, and would only
            // lengthen the label.
            Platform::Aws if aws::normal(&self.0.entry).get("placement").is_some() => &self.0.entry,
            _ => &self.0.full,
        };
        match self.0.platform {
            Platform::Aws => aws::label(entry),
            Platform::Azure => azure::label(&self.0.entry),
            Platform::Gcp => gcp::label(entry),
            Platform::OpenStack => openstack::label(&self.0.entry),
            Platform::VSphere => vsphere::label(entry),
            Platform::Nutanix => nutanix::label(entry),
        }
    }
}

impl PartialEq for FailureDomain {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.cmp(other) == Ordering::Equal
    }
}

impl Eq for FailureDomain {}

impl PartialOrd for FailureDomain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FailureDomain {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        (self.0.platform, &self.0.key).cmp(&(other.0.platform, &other.0.key))
    }
}

impl fmt::Display for FailureDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

/// Why a failure domain cannot be written into a provider spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// The provider spec is not a JSON object.
    #[error("the provider spec is not an object")]
    NotAnObject,
    /// The provider spec is of another platform.
    #[error("a failure domain of platform {domain} cannot be used with a provider spec of kind {kind:?}")]
    OtherPlatform {
        /// Platform of the failure domain.
        domain: Platform,
        /// Kind of the provider spec; empty if it has none.
        kind: String,
    },
    /// The Infrastructure `cluster`, which defines the name, is unknown.
    #[error("failure domain {name:?} is defined in the Infrastructure `cluster`, which is not known")]
    NoInfrastructure {
        /// Name of the failure domain.
        name: String,
    },
    /// The Infrastructure `cluster` does not define the name.
    #[error("failure domain {name:?} is not defined in the Infrastructure `cluster` (defined: {})", known.join(", "))]
    Undefined {
        /// Name of the failure domain.
        name: String,
        /// The defined names, in order.
        known: Vec<String>,
    },
}

/// A field of a failure domain that is not valid. It becomes a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryFault {
    /// Path within the entry, with dots; empty for the entry itself.
    pub path: String,
    /// The kind of the violation.
    pub kind: ViolationKind,
    /// What is allowed, as a clause.
    pub allowed: String,
    /// What to do instead; may be empty.
    pub advice: String,
}

impl EntryFault {
    fn new(path: &str, kind: ViolationKind, allowed: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            allowed: allowed.into(),
            advice: String::new(),
        }
    }

    fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }
}

/// The entries of the set for its platform, in their order, including duplicates. Empty for other
/// platforms.
pub fn list(domains: &FailureDomains) -> Vec<FailureDomain> {
    let Some(platform) = Platform::from_name(&domains.platform) else {
        return Vec::new();
    };
    entries(domains, platform)
        .unwrap_or_default()
        .into_iter()
        .map(|entry| FailureDomain::new(platform, entry))
        .collect()
}

/// The list of one platform as JSON; `None` if the set has none.
pub fn entries(domains: &FailureDomains, platform: Platform) -> Option<Vec<Value>> {
    fn as_json<T: serde::Serialize>(list: Option<&Vec<T>>) -> Option<Vec<Value>> {
        // The keys of wire types are strings, so that this cannot fail. A null is an entry without
        // fields.
        Some(
            list?
                .iter()
                .map(|entry| serde_json::to_value(entry).unwrap_or_default())
                .collect(),
        )
    }
    match platform {
        Platform::Aws => as_json(domains.aws.as_ref()),
        Platform::Azure => as_json(domains.azure.as_ref()),
        Platform::Gcp => as_json(domains.gcp.as_ref()),
        Platform::OpenStack => as_json(domains.openstack.as_ref()),
        Platform::VSphere => as_json(domains.vsphere.as_ref()),
        Platform::Nutanix => as_json(domains.nutanix.as_ref()),
    }
}

/// The provider spec of a machine in `domain`: the provider spec of the template, with the fields
/// that the failure domain sets.
pub fn inject(
    provider_spec: &Value,
    domain: &FailureDomain,
    infrastructure: Option<&Infrastructure>,
) -> Result<Value, DomainError> {
    comparable(provider_spec, domain)?;
    let mut spec = provider_spec.clone();
    match domain.0.platform {
        Platform::Aws => aws::inject(&mut spec, &domain.0.full),
        Platform::Azure => azure::inject(&mut spec, &domain.0.full),
        Platform::Gcp => gcp::inject(&mut spec, &domain.0.full),
        Platform::OpenStack => openstack::inject(&mut spec, &domain.0.full),
        Platform::VSphere => vsphere::inject(&mut spec, &domain.0.full, infrastructure)?,
        Platform::Nutanix => nutanix::inject(&mut spec, &domain.0.full, infrastructure)?,
    }
    Ok(spec)
}

/// Whether a machine with this provider spec can be in `domain`, that is, whether [`inject`]
/// succeeds.
pub fn fits(
    provider_spec: &Value,
    domain: &FailureDomain,
    infrastructure: Option<&Infrastructure>,
) -> Result<(), DomainError> {
    if domain.platform().by_name() {
        // Only a look-up shows whether the name is defined.
        return inject(provider_spec, domain, infrastructure).map(drop);
    }
    comparable(provider_spec, domain)
}

/// Whether a provider spec and a failure domain are of one platform.
fn comparable(provider_spec: &Value, domain: &FailureDomain) -> Result<(), DomainError> {
    if !provider_spec.is_object() {
        return Err(DomainError::NotAnObject);
    }
    if Platform::of(provider_spec) != Some(domain.0.platform) {
        return Err(DomainError::OtherPlatform {
            domain: domain.0.platform,
            kind: fields::text(provider_spec, &["kind"]).unwrap_or_default().to_owned(),
        });
    }
    Ok(())
}

/// The failure domain of a machine with this provider spec; `None` if the provider spec names none,
/// or if its platform has none.
pub fn extract(provider_spec: &Value, infrastructure: Option<&Infrastructure>) -> Option<FailureDomain> {
    let platform = Platform::of(provider_spec)?;
    let entry = match platform {
        Platform::Aws => aws::extract(provider_spec),
        Platform::Azure => Some(azure::extract(provider_spec)),
        Platform::Gcp => gcp::extract(provider_spec),
        Platform::OpenStack => openstack::extract(provider_spec),
        Platform::VSphere => vsphere::extract(provider_spec, infrastructure),
        Platform::Nutanix => nutanix::extract(provider_spec, infrastructure),
    }?;
    Some(FailureDomain::new(platform, entry))
}

/// The failure domain with the values of the template for fields that its entry lacks, so that it
/// can be compared with the failure domain of a machine.
pub fn complete(domain: &FailureDomain, template: &Value) -> FailureDomain {
    into_complete(domain.clone(), template)
}

/// The same for a failure domain that the caller no longer needs.
pub(super) fn into_complete(domain: FailureDomain, template: &Value) -> FailureDomain {
    if Platform::of(template) != Some(domain.0.platform) {
        return domain;
    }
    let full = match domain.0.platform {
        Platform::Aws => aws::complete(&domain.0.full, template),
        Platform::Azure => Some(azure::complete(&domain.0.full, template)),
        Platform::OpenStack => Some(openstack::complete(&domain.0.full, template)),
        // The entry has one field or a name, so that nothing is added.
        Platform::Gcp | Platform::VSphere | Platform::Nutanix => None,
    };
    match full {
        Some(full) => {
            let platform = domain.0.platform;
            let entry = Arc::try_unwrap(domain.0).map_or_else(|shared| shared.entry.clone(), |own| own.entry);
            FailureDomain::with_full(platform, entry, full)
        }
        None => domain,
    }
}

/// The fields of a provider spec that [`complete`] reads.
pub(super) fn completing_fields(platform: Platform) -> &'static [&'static str] {
    match platform {
        Platform::Aws => &["placement", "subnet"],
        Platform::Azure => &["zone", "subnet"],
        Platform::OpenStack => &["availabilityZone", "rootVolume"],
        Platform::Gcp | Platform::VSphere | Platform::Nutanix => &[],
    }
}

/// The provider spec without the fields that a failure domain sets. The machines of a set share the
/// rest.
pub fn strip(provider_spec: &Value) -> Value {
    let mut spec = provider_spec.clone();
    strip_in_place(&mut spec);
    spec
}

/// Removes the fields that a failure domain sets from a provider spec.
pub(super) fn strip_in_place(spec: &mut Value) {
    match Platform::of(spec) {
        Some(Platform::Aws) => aws::strip(spec),
        Some(Platform::Azure) => azure::strip(spec),
        Some(Platform::Gcp) => gcp::strip(spec),
        Some(Platform::OpenStack) => openstack::strip(spec),
        Some(Platform::VSphere) => vsphere::strip(spec),
        Some(Platform::Nutanix) => nutanix::strip(spec),
        None => {}
    }
}

/// Leaves out of a comparison what a failure domain does not take over from the template: on
/// vSphere, devices beyond those of the machine, and all devices without addresses from pools.
pub(super) fn leave_out_other_devices(template: &mut Value, machine: &mut Value) {
    if [&*template, &*machine]
        .into_iter()
        .all(|spec| Platform::of(spec) == Some(Platform::VSphere))
    {
        vsphere::leave_out_other_devices(template, machine);
    }
}

/// The violations of an entry. Names are looked up only if the Infrastructure is known.
pub fn check(platform: Platform, entry: &Value, infrastructure: Option<&Infrastructure>) -> Vec<EntryFault> {
    match platform {
        Platform::Aws => aws::check(entry),
        Platform::Azure => azure::check(entry),
        Platform::Gcp => gcp::check(entry),
        Platform::OpenStack => openstack::check(entry),
        Platform::VSphere => named(entry, infrastructure.map(vsphere::names)),
        Platform::Nutanix => named(entry, infrastructure.map(nutanix::names)),
    }
}

/// The names of failure domains that the Infrastructure defines for the platform; empty for a
/// platform without names.
pub fn defined_names(platform: Platform, infrastructure: &Infrastructure) -> Vec<String> {
    match platform {
        Platform::VSphere => vsphere::names(infrastructure),
        Platform::Nutanix => nutanix::names(infrastructure),
        _ => Vec::new(),
    }
}

fn named(entry: &Value, known: Option<Vec<String>>) -> Vec<EntryFault> {
    let Some(name) = fields::text(entry, &["name"]) else {
        return vec![EntryFault::new(
            "name",
            ViolationKind::Required,
            "must be the name of a failure domain of the Infrastructure `cluster`",
        )];
    };
    match known {
        Some(known) if !known.iter().any(|defined| defined == name) => vec![
            EntryFault::new(
                "name",
                ViolationKind::Invalid,
                "must be a failure domain that the Infrastructure `cluster` defines",
            )
            .advice(if known.is_empty() {
                "it defines no failure domain".to_owned()
            } else {
                format!("it defines {}", known.join(", "))
            }),
        ],
        _ => Vec::new(),
    }
}

fn lookup_error(name: &str, known: Option<Vec<String>>) -> DomainError {
    match known {
        None => DomainError::NoInfrastructure { name: name.to_owned() },
        Some(known) => DomainError::Undefined {
            name: name.to_owned(),
            known,
        },
    }
}

#[cfg(test)]
pub(in crate::cpms) mod tests;
