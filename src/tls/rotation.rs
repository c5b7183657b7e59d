//! What to do next about the authorities, the leaf, and who trusts them: one pure function, [`next`], over what the
//! Secret and the webhook configurations hold. It is asked again after every step, by every replica, after every restart.
//!
//! What it promises: as long as an API server sees a configuration within [`Profile::settle`] and a replica sees the
//! Secret within [`Profile::retire`], the certificate that any replica presents verifies under the bundle that any API
//! server holds. The first installation is the exception: a bundle that is still empty trusts nobody.
//!
//! How: an authority signs only after it has been seen in every bundle for `settle`. It is taken out of the bundles only
//! after the leaf has come from another one for `retire`. An authority that stands in a bundle and not in the Secret is
//! taken into the Secret before any bundle is written, so that a lost Secret loses no trust.
//!
//! What the caller owes: the configurations are read before the Secret; every write fails if what it changes was changed
//! since it was read; one step a reading.

use std::collections::BTreeSet;

use super::issue::DAY;

/// The times of rotation, all in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// For how long a new authority holds.
    pub authority_lifetime: i64,
    /// The next authority is made when the newest has less than this left.
    pub authority_renewal: i64,
    /// For how long a new leaf holds, at most as long as its authority.
    pub leaf_lifetime: i64,
    /// The next leaf is made when the present one has less than this left.
    pub leaf_renewal: i64,
    /// How long an authority stands in every bundle before it signs: the time API servers take to see it, and by how
    /// much the clocks of replicas may differ.
    pub settle: i64,
    /// How long an authority stays trusted after the leaf has come from another: the time replicas take to see the leaf.
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

/// An authority in the Secret. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Its fingerprint.
    pub id: String,
    /// When it ends.
    pub not_after: i64,
    /// Its key is there. Without, it is only trusted.
    pub signs: bool,
    /// When it came into the Secret.
    pub added: i64,
    /// Since when it has stood in every bundle.
    pub published: Option<i64>,
}

/// The leaf in the Secret. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The id of the authority that signed it; empty if it is none of those in the Secret.
    pub issuer: String,
    /// When it ends.
    pub not_after: i64,
    /// When it came into the Secret.
    pub issued: i64,
    /// It has every name that is wanted.
    pub names_fit: bool,
}

/// What the Secret holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Oldest first.
    pub authorities: Vec<Authority>,
    /// Ids of those that were taken out on purpose.
    pub retired: BTreeSet<String>,
    /// What is presented.
    pub leaf: Option<Leaf>,
}

/// What one `caBundle` holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Ids of the certificates in it that hold now.
    pub trusted: BTreeSet<String>,
    /// Something else is in it as well: garbage, or certificates whose time is over.
    pub rest: bool,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take these from the bundles into the Secret, without keys.
    Adopt(BTreeSet<String>),
    /// Make the next authority and put it into the Secret.
    AddAuthority,
    /// Write down in the Secret since when the authority has stood in every bundle; `None`: it doesn't any more.
    Record {
        /// Which.
        id: String,
        /// Seconds since 1970.
        published: Option<i64>,
    },
    /// Write into every bundle what [`Held::target`] says.
    Publish,
    /// Make a new leaf and put it into the Secret.
    IssueLeaf {
        /// The id of the authority that signs it.
        issuer: String,
        /// The names of the present leaf stay in it: it is replaced for its names, and a replica may want the old ones.
        keep_names: bool,
    },
    /// Take the authority out of the Secret.
    Retire {
        /// Which.
        id: String,
    },
    /// All is well.
    Nothing,
}

impl Held {
    /// What every bundle should hold.
    #[must_use]
    pub fn target(&self) -> BTreeSet<String> {
        self.authorities.iter().map(|authority| authority.id.clone()).collect()
    }
}

/// The next step at `now` (seconds since 1970), given what the Secret holds and every bundle of the configurations that
/// exist.
#[must_use]
pub fn next(now: i64, profile: &Profile, held: &Held, bundles: &[Bundle]) -> Step {
    adopt(held, bundles)
        .or_else(|| add_authority(now, profile, held))
        .or_else(|| publish(held, bundles))
        .or_else(|| record(now, held, bundles))
        // Before the next leaf, since its date is what the time of retiring is counted from.
        .or_else(|| retire(now, profile, held))
        .or_else(|| issue_leaf(now, profile, held))
        .unwrap_or(Step::Nothing)
}

fn adopt(held: &Held, bundles: &[Bundle]) -> Option<Step> {
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
    if bundles.iter().all(|bundle| !bundle.rest && bundle.trusted == target) {
        return None;
    }
    // Somebody took it out, and an API server may have seen that: the time begins anew. Not for the one that signed what
    // is presented, since waiting would help nobody.
    let issuer = held.leaf.as_ref().map(|leaf| leaf.issuer.as_str());
    let lost = held.authorities.iter().find(|authority| {
        authority.published.is_some()
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

fn issue_leaf(now: i64, profile: &Profile, held: &Held) -> Option<Step> {
    let settled = |authority: &&Authority| authority.published.is_some_and(|since| since + profile.settle <= now);
    let present = held.leaf.as_ref().filter(|leaf| leaf.not_after > now);
    // When one authority is all there is and nothing valid is presented, nobody can be hurt by the new leaf.
    let alone = held
        .authorities
        .iter()
        .filter(|authority| authority.not_after > now)
        .count()
        == 1;
    let signer = if present.is_none() && alone {
        signers(now, held).next_back()
    } else {
        signers(now, held).rfind(settled)
    }?;
    // Near the end of its authority a leaf cannot be made to last longer, and then it isn't made again.
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
    let old = held.authorities.iter().enumerate().find(|(position, authority)| {
        let over = authority.not_after <= now;
        let superseded = *position < issuer || !authority.signs;
        let long_ago = leaf.issued.max(authority.added) + profile.retire <= now;
        *position != issuer && (over || superseded && long_ago)
    });
    old.map(|(_, authority)| Step::Retire {
        id: authority.id.clone(),
    })
}

#[cfg(test)]
mod tests;
