//! Decides the next step of the certificate rotation. The pure function [`next`] compares the
//! contents of the Secret with those of the webhook configurations. Each replica calls it after
//! every step and after every restart.
//!
//! Guarantee: every API server accepts the certificate that any replica presents, as long as API
//! servers observe a webhook configuration within [`Profile::settle`] and replicas observe the
//! Secret within [`Profile::retire`]. There are three exceptions: the first installation, since an
//! empty bundle trusts no certificate; a replica that starts after the loss of the Secret; and a
//! Secret that is lost again and again, until more CAs have no key than it adopts (`MOST_ADOPTED`).
//!
//! A CA signs only after it has been in every bundle for `settle`. A replica without a certificate
//! cannot answer at all, so it lets a CA sign as soon as the CA is in every bundle. The other
//! replicas keep their certificate until that CA has been there for `settle`. A CA is removed from
//! the bundles only after the serving certificate has come from another CA for `retire`. A CA that
//! is in a bundle and not in the Secret is copied into the Secret before any bundle is written, so
//! that the loss of the Secret removes no trust.
//!
//! The caller must read the configurations before the Secret, must make each write fail if the
//! object has changed since it was read, and must take one step for each read.

use std::collections::BTreeSet;

use super::issue::DAY;

/// The durations of the rotation, all in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The validity of a new CA.
    pub authority_lifetime: i64,
    /// A new CA is issued when the newest one has less than this time left.
    pub authority_renewal: i64,
    /// The validity of a new serving certificate, limited to that of its CA.
    pub leaf_lifetime: i64,
    /// A new serving certificate is issued when the current one has less than this time left.
    pub leaf_renewal: i64,
    /// How long a CA must be in every bundle before it signs. It covers the delay of API servers
    /// and the clock difference between replicas.
    pub settle: i64,
    /// How long a CA stays trusted after another CA has issued the serving certificate. It covers
    /// the delay with which replicas observe the Secret.
    pub retire: i64,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            authority_lifetime: 730 * DAY,
            authority_renewal: 365 * DAY,
            leaf_lifetime: 90 * DAY,
            leaf_renewal: 30 * DAY,
            settle: 600,
            retire: DAY,
        }
    }
}

/// A CA in the Secret. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Its fingerprint.
    pub id: String,
    /// The end of its validity.
    pub not_after: i64,
    /// Whether the Secret holds its key. A CA without a key is trusted but cannot sign.
    pub signs: bool,
    /// When it was added to the Secret.
    pub added: i64,
    /// Since when it has been in every bundle.
    pub published: Option<i64>,
}

/// The serving certificate in the Secret. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The id of the CA that signed it; empty if the Secret does not hold that CA.
    pub issuer: String,
    /// The end of its validity.
    pub not_after: i64,
    /// When it was added to the Secret.
    pub issued: i64,
    /// Whether it contains every configured name.
    pub names_fit: bool,
}

/// The contents of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The CAs, oldest first.
    pub authorities: Vec<Authority>,
    /// The ids of the CAs that the rotation has removed.
    pub retired: BTreeSet<String>,
    /// The serving certificate.
    pub leaf: Option<Leaf>,
}

/// The contents of one `caBundle`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// The ids of the CA certificates that are valid at present.
    pub trusted: BTreeSet<String>,
    /// Whether the bundle also holds content that is not a valid CA certificate: other data,
    /// expired certificates, or serving certificates.
    pub has_other_content: bool,
}

/// One step of the rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Copy these CA certificates from the bundles into the Secret, without keys.
    Adopt(BTreeSet<String>),
    /// Issue a CA and add it to the Secret.
    AddAuthority,
    /// Record in the Secret since when a CA has been in every bundle; `None` if it no longer is.
    Record {
        /// The id of the CA.
        id: String,
        /// Seconds since 1970.
        published: Option<i64>,
    },
    /// Write [`Held::target`] into every bundle.
    Publish,
    /// Issue a serving certificate and store it in the Secret.
    IssueLeaf {
        /// The id of the CA that signs it.
        issuer: String,
        /// Whether the new certificate keeps the names of the current one. This is so when it is
        /// replaced for its names, since another replica may be configured with the former names.
        keep_names: bool,
    },
    /// Remove a CA from the Secret.
    Retire {
        /// The id of the CA.
        id: String,
    },
    /// There is nothing to do.
    Nothing,
}

impl Held {
    /// The CAs that every bundle must hold.
    #[must_use]
    pub fn target(&self) -> BTreeSet<String> {
        self.authorities.iter().map(|authority| authority.id.clone()).collect()
    }

    /// Whether a replica takes over the certificate of the Secret. A replica that `serves` a valid
    /// certificate waits until every API server trusts the CA of the new one.
    #[must_use]
    pub fn may_be_served(&self, now: i64, profile: &Profile, serves: bool) -> bool {
        let issuer = self.leaf.as_ref().and_then(|leaf| self.authority(&leaf.issuer));
        !serves || self.is_alone(now) || issuer.is_none_or(|issuer| issuer.is_settled(now, profile))
    }

    fn authority(&self, id: &str) -> Option<&Authority> {
        self.authorities.iter().find(|authority| authority.id == id)
    }

    /// Whether there is one CA only.
    fn is_alone(&self, now: i64) -> bool {
        let mut valid = self.authorities.iter().filter(|authority| authority.not_after > now);
        valid.next().is_some() && valid.next().is_none()
    }
}

impl Authority {
    /// Whether every API server trusts the CA.
    fn is_settled(&self, now: i64, profile: &Profile) -> bool {
        self.published.is_some_and(|since| since + profile.settle <= now)
    }
}

/// Returns the next step at `now` (seconds since 1970), from the contents of the Secret and of
/// every bundle in the configurations that exist. `serves` says whether this replica has a
/// certificate that is still valid.
#[must_use]
pub fn next(now: i64, profile: &Profile, held: &Held, bundles: &[Bundle], serves: bool) -> Step {
    adopt(held, bundles)
        .or_else(|| add_authority(now, profile, held))
        .or_else(|| publish(held, bundles))
        .or_else(|| record(now, held, bundles))
        // `retire` comes before the next serving certificate, because it counts from that
        // certificate's date.
        .or_else(|| retire(now, profile, held))
        .or_else(|| issue_leaf(now, profile, held, serves))
        .unwrap_or(Step::Nothing)
}

/// The most CAs without a key that are trusted: the former CAs of an installation that changes to
/// this rotation, or whose Secret was lost. More come from a program that writes the bundles again
/// and again, and they would fill the Secret.
const MOST_ADOPTED: usize = 8;

fn adopt(held: &Held, bundles: &[Bundle]) -> Option<Step> {
    if held.authorities.iter().filter(|authority| !authority.signs).count() >= MOST_ADOPTED {
        return None;
    }
    let known = held.target();
    let foreign: BTreeSet<_> = bundles
        .iter()
        .flat_map(|bundle| &bundle.trusted)
        .filter(|id| !known.contains(*id) && !held.retired.contains(*id))
        .cloned()
        .collect();
    (!foreign.is_empty()).then_some(Step::Adopt(foreign))
}

fn signers(now: i64, held: &Held) -> impl DoubleEndedIterator<Item = &Authority> {
    held.authorities
        .iter()
        .filter(move |authority| authority.signs && authority.not_after > now)
}

fn add_authority(now: i64, profile: &Profile, held: &Held) -> Option<Step> {
    let newest = signers(now, held).next_back();
    newest
        .is_none_or(|newest| newest.not_after - now < profile.authority_renewal)
        .then_some(Step::AddAuthority)
}

fn publish(held: &Held, bundles: &[Bundle]) -> Option<Step> {
    let target = held.target();
    if bundles
        .iter()
        .all(|bundle| !bundle.has_other_content && bundle.trusted == target)
    {
        return None;
    }
    // Another client has removed a CA from a bundle, and an API server may have observed that, so
    // the time in `published` starts again. This does not apply to the CA of the serving
    // certificate: it is in use already, and waiting would not help. Nor does it apply to a CA that
    // never signs: a replica that knows fewer bundles would record the time at once, and none of
    // the two replicas would ever publish.
    let issuer = held.leaf.as_ref().map(|leaf| leaf.issuer.as_str());
    let lost = held.authorities.iter().find(|authority| {
        authority.signs
            && authority.published.is_some()
            && Some(authority.id.as_str()) != issuer
            && bundles.iter().any(|bundle| !bundle.trusted.contains(&authority.id))
    });
    Some(lost.map_or(Step::Publish, |lost| Step::Record {
        id: lost.id.clone(),
        published: None,
    }))
}

fn record(now: i64, held: &Held, bundles: &[Bundle]) -> Option<Step> {
    if bundles.is_empty() {
        return None;
    }
    let unrecorded = held
        .authorities
        .iter()
        .find(|authority| authority.published.is_none())?;
    Some(Step::Record {
        id: unrecorded.id.clone(),
        published: Some(now),
    })
}

fn issue_leaf(now: i64, profile: &Profile, held: &Held, serves: bool) -> Option<Step> {
    let settled = |authority: &&Authority| authority.is_settled(now, profile);
    let present = held.leaf.as_ref().filter(|leaf| leaf.not_after > now);
    // If there is one CA only and no valid serving certificate, a new certificate breaks no client.
    let signer = if present.is_none() && held.is_alone(now) {
        signers(now, held).next_back()
    } else {
        // Without any certificate, this replica cannot answer until one is issued.
        let published = |authority: &&Authority| present.is_none() && !serves && authority.published.is_some();
        let settled = signers(now, held).rfind(settled);
        settled.or_else(|| signers(now, held).rfind(published))
    }?;
    // Near the end of its CA's validity, a serving certificate cannot last longer than the current
    // one, and is not issued again.
    let lasts_longer = |leaf: &Leaf| (now + profile.leaf_lifetime).min(signer.not_after) > leaf.not_after;
    let due = |leaf: &Leaf| leaf.not_after - now < profile.leaf_renewal && lasts_longer(leaf);
    let keep_names = match present {
        None => false,
        Some(leaf) if leaf.issuer != signer.id || due(leaf) => !leaf.names_fit,
        Some(leaf) if !leaf.names_fit => true,
        Some(_) => return None,
    };
    Some(Step::IssueLeaf {
        issuer: signer.id.clone(),
        keep_names,
    })
}

fn retire(now: i64, profile: &Profile, held: &Held) -> Option<Step> {
    let leaf = held.leaf.as_ref()?;
    let issuer = held
        .authorities
        .iter()
        .position(|authority| authority.id == leaf.issuer)?;
    // Before that, some replicas keep their former certificate.
    let settled = held.authorities.get(issuer)?.published? + profile.settle;
    let old = held.authorities.iter().enumerate().find(|(position, authority)| {
        let over = authority.not_after <= now;
        let superseded = *position < issuer || !authority.signs;
        let long_ago = leaf.issued.max(authority.added).max(settled) + profile.retire <= now;
        *position != issuer && (over || superseded && long_ago)
    });
    old.map(|(_, authority)| Step::Retire {
        id: authority.id.clone(),
    })
}

#[cfg(test)]
mod tests;
