//! The contents of the Secret, and how a step changes them. All state is one JSON document under
//! [`STATE`], so that a reader never sees a partial change. `ca.crt`, `tls.crt` and `tls.key` are
//! copies for users and other programs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::tls::inspect::{self, Facts};
use crate::tls::issue::{self, Leaf, Names};
use crate::tls::rotation::{self, Held, Step};

/// The key of the Secret that holds the state.
const STATE: &str = "state.json";
/// How many removed CAs are remembered, so that a replica with an old view does not add them again.
const REMEMBERED: usize = 16;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Stored {
    authorities: Vec<StoredAuthority>,
    #[serde(default)]
    retired: Vec<String>,
    leaf: Option<StoredLeaf>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredAuthority {
    certificate: String,
    key: Option<Key>,
    added: i64,
    published: Option<i64>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Key(String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredLeaf {
    #[serde(flatten)]
    pair: Leaf,
    issued: i64,
}

fn one(pem: &str) -> Result<Facts, String> {
    inspect::certificates(pem.as_bytes())
        .map_err(|error| error.to_string())?
        .into_iter()
        .next()
        .ok_or_else(|| "a certificate is missing".to_owned())
}

impl Stored {
    /// Reads the state. A Secret without data, such as one from a manifest, has the empty state.
    pub(super) fn read(secret: &Secret) -> Result<Self, String> {
        match secret.data.as_ref().and_then(|data| data.get(STATE)) {
            // The parser's message may quote a key, so the error holds only the position.
            Some(state) => serde_json::from_slice(&state.0)
                .map_err(|error| format!("{STATE}, line {} column {}", error.line(), error.column())),
            None => Ok(Self::default()),
        }
    }

    pub(super) fn write(&self, secret: &mut Secret) -> Result<(), String> {
        let state = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        let mut data = BTreeMap::from([
            (STATE.to_owned(), ByteString(state)),
            ("ca.crt".to_owned(), ByteString(self.bundle().into_bytes())),
        ]);
        if let Some(leaf) = self.leaf() {
            data.insert("tls.crt".to_owned(), ByteString(leaf.certificate.clone().into_bytes()));
            data.insert("tls.key".to_owned(), ByteString(leaf.key.clone().into_bytes()));
        }
        secret.data.get_or_insert_default().extend(data);
        Ok(())
    }

    pub(super) fn leaf(&self) -> Option<&Leaf> {
        self.leaf.as_ref().map(|leaf| &leaf.pair)
    }

    /// All CA certificates as PEM, for the `caBundle`.
    pub(super) fn bundle(&self) -> String {
        self.authorities
            .iter()
            .map(|authority| authority.certificate.as_str())
            .collect()
    }

    /// The state without keys and certificates, for [`rotation::next`].
    pub(super) fn held(&self, names: &Names) -> Result<Held, String> {
        let mut authorities = Vec::new();
        let mut by_key = BTreeMap::new();
        for authority in &self.authorities {
            let facts = one(&authority.certificate)?;
            by_key.insert(facts.key_id, facts.fingerprint.clone());
            authorities.push(rotation::Authority {
                id: facts.fingerprint,
                not_after: facts.not_after,
                signs: authority.key.is_some(),
                added: authority.added,
                published: authority.published,
            });
        }
        let leaf = match &self.leaf {
            Some(leaf) => {
                let facts = one(&leaf.pair.certificate)?;
                Some(rotation::Leaf {
                    issuer: by_key.remove(&facts.authority_key_id).unwrap_or_default(),
                    not_after: facts.not_after,
                    issued: leaf.issued,
                    names_fit: names.as_slice().iter().all(|name| facts.names.contains(name)),
                })
            }
            None => None,
        };
        Ok(Held {
            authorities,
            retired: self.retired.iter().cloned().collect(),
            leaf,
        })
    }

    fn find(&mut self, id: &str) -> Option<&mut StoredAuthority> {
        self.authorities
            .iter_mut()
            .find(|one_of| one(&one_of.certificate).is_ok_and(|facts| facts.fingerprint == id))
    }

    /// Applies a step to the state. `trusted` holds every bundle; [`Step::Adopt`] copies from them.
    pub(super) fn change<'a>(
        &mut self,
        step: &Step,
        trusted: impl Iterator<Item = &'a [u8]>,
        now: i64,
        settings: &Settings,
    ) -> Result<(), super::Error> {
        let profile = &settings.profile;
        match step {
            Step::Adopt(ids) => self.adopt(ids, trusted, now),
            Step::AddAuthority => {
                let made = issue::Authority::issue("capstan webhook authority", now, profile.authority_lifetime)?;
                self.authorities.push(StoredAuthority {
                    certificate: made.certificate,
                    key: Some(Key(made.key)),
                    added: now,
                    published: None,
                });
            }
            Step::Record { id, published } => {
                if let Some(authority) = self.find(id) {
                    authority.published = *published;
                }
            }
            Step::IssueLeaf { issuer, keep_names } => self.issue(issuer, *keep_names, now, settings)?,
            Step::Retire { id } => {
                self.authorities
                    .retain(|gone| one(&gone.certificate).is_ok_and(|facts| facts.fingerprint != *id));
                self.retired.push(id.clone());
                let forgotten = self.retired.len().saturating_sub(REMEMBERED);
                self.retired.drain(..forgotten);
            }
            Step::Publish | Step::Nothing => {}
        }
        Ok(())
    }

    fn adopt<'a>(&mut self, ids: &BTreeSet<String>, trusted: impl Iterator<Item = &'a [u8]>, now: i64) {
        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject;
        let mut missing = ids.clone();
        for der in trusted.flat_map(CertificateDer::pem_slice_iter).flatten() {
            let pem = pem(&der);
            if one(&pem).is_ok_and(|facts| missing.remove(&facts.fingerprint)) {
                // They go first, because they are older than the CAs issued here, and never sign.
                self.authorities.insert(
                    0,
                    StoredAuthority {
                        certificate: pem,
                        key: None,
                        added: now,
                        published: None,
                    },
                );
            }
        }
    }

    fn issue(&mut self, issuer: &str, keep_names: bool, now: i64, settings: &Settings) -> Result<(), super::Error> {
        let missing = || super::Error::Secret("it does not hold the key of the CA that must sign".to_owned());
        let signer = self.find(issuer).ok_or_else(missing)?;
        let key = signer.key.clone().ok_or_else(missing)?;
        let authority = issue::Authority {
            certificate: signer.certificate.clone(),
            key: key.0,
        };
        let not_after = one(&authority.certificate).map_err(super::Error::Secret)?.not_after;
        let lifetime = settings.profile.leaf_lifetime.min(not_after - now);
        let former = self
            .leaf()
            .filter(|_| keep_names)
            .and_then(|leaf| one(&leaf.certificate).ok());
        let former = former.map(|facts| facts.names).unwrap_or_default();
        let names = Names::new(settings.names.as_slice().iter().cloned().chain(former))?;
        self.leaf = Some(StoredLeaf {
            pair: authority.leaf(&names, now, lifetime)?,
            issued: now,
        });
        Ok(())
    }
}

/// Encodes DER as PEM, with 64 characters a line (RFC 7468).
fn pem(der: &[u8]) -> String {
    let base64 = match serde_json::to_value(ByteString(der.to_vec())) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    };
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for (index, character) in base64.chars().enumerate() {
        if index > 0 && index % 64 == 0 {
            text.push('\n');
        }
        text.push(character);
    }
    text.push_str("\n-----END CERTIFICATE-----\n");
    text
}
