//! The record of what a machine was created from: hashes of the provider spec that was sent.
//!
//! A webhook or the API server may store something else than was sent. A machine that was created
//! from the current template is up to date however it is stored, because a machine that is created
//! again from the same template is stored in the same way. The record is an annotation, so that
//! every process knows it. The hashes cover the name of the machine: a copy of a machine under
//! another name has no valid record.
//!
//! The module must never take a machine for up to date if the template, the failure domain of its
//! index, or the meaning of that failure domain changed after the machine was created.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::changes::{Comparison, canonical};
use super::defaults::provider_spec_defaults;
use super::domains::{self, DomainError, FailureDomain, Platform};
use super::spec::Spec;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::machine_openshift_io::machine::Machine;
use crate::model::hex_hash;

/// What a machine was created from; written on creation.
pub const CREATED_FROM: &str = "capstan.dev/created-from";

/// The number of digits of each hash.
const DIGITS: usize = 16;

/// What a machine was created from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedFrom {
    /// The hash of the provider spec without its image.
    provider_spec: String,
    /// The hash of the provider spec with its image.
    with_image: String,
    /// The hash of the failure domain; none without failure domains.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    failure_domain: Option<String>,
    /// The uid of the set; none for a set without one, as in files.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    set: Option<String>,
}

/// The provider spec that is sent for a machine in a failure domain.
///
/// # Errors
/// As [`domains::inject`].
pub fn provider_spec(
    template: &Value,
    domain: Option<&FailureDomain>,
    infrastructure: Option<&Infrastructure>,
) -> Result<Value, DomainError> {
    let mut sent = match domain {
        Some(domain) => domains::inject(template, domain, infrastructure)?,
        None => template.clone(),
    };
    provider_spec_defaults(Platform::of(&sent), &mut sent);
    Ok(sent)
}

impl CreatedFrom {
    /// The record of a machine of this name that a set creates with this provider spec.
    pub(crate) fn of(sent: &Value, domain: Option<&FailureDomain>, name: &str, set: &str) -> Self {
        Self {
            set: Some(set.to_owned()).filter(|uid| !uid.is_empty()),
            provider_spec: hash(sent, name, false),
            with_image: hash(sent, name, true),
            failure_domain: domain.map(hash_of_domain),
        }
    }

    /// The record of a machine; `None` for a machine without one, and for a record that cannot be
    /// read.
    pub(crate) fn read(machine: &Machine) -> Option<Self> {
        serde_json::from_str(machine.metadata.annotations.get(CREATED_FROM)?).ok()
    }

    /// The text of the annotation.
    pub(crate) fn text(&self) -> String {
        json!(self).to_string()
    }

    /// Whether the set with this uid created the machine.
    pub(crate) fn is_of(&self, set: &str) -> bool {
        self.set.as_deref() == Some(set)
    }

    /// Whether a machine of this name in this failure domain is still created from the same.
    pub(super) fn is_current(
        &self,
        spec: &Spec,
        domain: Option<&FailureDomain>,
        infrastructure: Option<&Infrastructure>,
        name: &str,
    ) -> bool {
        let images = spec.comparison().images;
        self.is_from(&spec.template.provider_spec, images, domain, infrastructure, name)
    }

    /// Whether a machine of this name in this failure domain was created from this template.
    pub(crate) fn is_from(
        &self,
        template: &Value,
        images: bool,
        domain: Option<&FailureDomain>,
        infrastructure: Option<&Infrastructure>,
        name: &str,
    ) -> bool {
        let Ok(sent) = provider_spec(template, domain, infrastructure) else {
            return false;
        };
        let recorded = if images { &self.with_image } else { &self.provider_spec };
        *recorded == hash(&sent, name, images)
    }

    /// The failure domain of the set in which the machine was created, unless its definition
    /// changed since. `found` is the failure domain that the stored machine is in.
    pub(super) fn domain<'a>(
        &self,
        spec: &'a Spec,
        found: Option<&'a FailureDomain>,
        infrastructure: Option<&Infrastructure>,
        name: &str,
    ) -> Option<&'a FailureDomain> {
        let recorded = self.failure_domain.as_ref()?;
        if found.is_some_and(|found| hash_of_domain(found) == *recorded) {
            return found;
        }
        let mut listed = spec.failure_domains.iter();
        let listed = listed.find(|domain| hash_of_domain(domain) == *recorded)?;
        self.is_current(spec, Some(listed), infrastructure, name)
            .then_some(listed)
    }
}

/// The hash of a provider spec that is sent for a machine of this name.
fn hash(sent: &Value, name: &str, images: bool) -> String {
    let whole = Comparison { domains: false, images };
    hex_hash(&json!([name, canonical(sent, whole)]), DIGITS)
}

fn hash_of_domain(domain: &FailureDomain) -> String {
    hex_hash(domain.full(), DIGITS)
}

#[cfg(test)]
mod tests;
