//! An AdmissionReview as it comes over the wire: read once from its first byte to its last, the texts of the envelope by
//! borrowing, the objects as [`ReadObjects`] says.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::objects::{Objects, ReadOld};
use super::tree::{Text, Without};

/// The envelope of a review, with its request read as `R`.
#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "R: Deserialize<'de>"))]
pub(super) struct Envelope<'a, R> {
    #[serde(rename = "apiVersion", borrow)]
    pub(super) api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    pub(super) request: Option<R>,
}

/// What is in a request beside its objects.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) uid: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) kind: GroupVersionKind<'a>,
    #[serde(borrow)]
    pub(super) resource: GroupVersionResource<'a>,
    #[serde(borrow, default)]
    pub(super) sub_resource: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) operation: Cow<'a, str>,
    #[serde(default)]
    pub(super) user_info: UserInfo,
    #[serde(default)]
    pub(super) dry_run: Option<bool>,
    #[serde(default)]
    pub(super) options: Option<DeleteOptions>,
}

/// A group, a version and a kind.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct GroupVersionKind<'a> {
    /// Empty for the core group.
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    /// The version.
    #[serde(borrow, default)]
    pub version: Cow<'a, str>,
    /// The kind.
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
}

/// The objects of a request, left as text.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Texts<'a> {
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) old_object: Option<&'a RawValue>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct GroupVersionResource<'a> {
    #[serde(borrow, default)]
    pub(super) group: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) resource: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UserInfo {
    pub(super) username: String,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeleteOptions {
    pub(super) propagation_policy: Option<String>,
    /// The field that `propagationPolicy` replaced; still served.
    pub(super) orphan_dependents: Option<bool>,
}

/// How the objects of a review are read.
#[derive(Clone, Copy)]
pub(super) struct ReadObjects<'k> {
    /// What the old object probably is.
    pub(super) known: Option<&'k Value>,
    /// What is left out.
    pub(super) unread: Without<'static>,
}

/// A review, and its objects.
pub(super) type Review<'a, 'k> = Envelope<'a, (Wire<'a>, Objects<'k>)>;

impl<'k> ReadObjects<'k> {
    /// Reads a review.
    ///
    /// # Errors
    /// It is none, or one of its objects cannot be read.
    pub(super) fn read<'a>(self, body: &'a str) -> Result<Review<'a, 'k>, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(body);
        let review = ReviewSeed(self).deserialize(&mut reader)?;
        reader.end().map(|()| review)
    }
}

struct ReviewSeed<'k>(ReadObjects<'k>);

impl<'de, 'k> DeserializeSeed<'de> for ReviewSeed<'k> {
    type Value = Review<'de, 'k>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, 'k> Visitor<'de> for ReviewSeed<'k> {
    type Value = Review<'de, 'k>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an AdmissionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let (mut api_version, mut kind, mut request) = (None, None, None);
        while let Some(Text(name)) = entries.next_key()? {
            match name.as_ref() {
                "apiVersion" if api_version.is_none() => api_version = Some(entries.next_value()?),
                "kind" if kind.is_none() => kind = Some(entries.next_value()?),
                "request" if request.is_none() => request = Some(entries.next_value_seed(RequestSeed(self.0))?),
                "apiVersion" | "kind" | "request" => return Err(Error::custom(format!("duplicate field `{name}`"))),
                _ => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        let Text(api_version) = api_version.ok_or_else(|| Error::missing_field("apiVersion"))?;
        let Text(kind) = kind.ok_or_else(|| Error::missing_field("kind"))?;
        Ok(Envelope {
            api_version,
            kind,
            request: request.flatten(),
        })
    }
}

struct RequestSeed<'k>(ReadObjects<'k>);

impl<'de, 'k> DeserializeSeed<'de> for RequestSeed<'k> {
    type Value = Option<(Wire<'de>, Objects<'k>)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, 'k> Visitor<'de> for RequestSeed<'k> {
    type Value = Option<(Wire<'de>, Objects<'k>)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a request")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Self::Value, A::Error> {
        let mut objects = Objects::default();
        let wire = Wire::deserialize(MapAccessDeserializer::new(Apart {
            entries,
            read: self.0,
            seen: [false; 2],
            objects: &mut objects,
        }))?;
        Ok(Some((wire, objects)))
    }
}

/// The fields of a request without its objects, which are read on the way.
struct Apart<'o, 'k, A> {
    entries: A,
    read: ReadObjects<'k>,
    seen: [bool; 2],
    objects: &'o mut Objects<'k>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Apart<'_, '_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let [new, old] = &mut self.seen;
        let ReadObjects { known, unread } = self.read;
        loop {
            let Some(Text(name)) = self.entries.next_key()? else {
                return Ok(None);
            };
            match name.as_ref() {
                "object" if !*new => {
                    *new = true;
                    let object = self.entries.next_value_seed(unread)?;
                    self.objects.object = Some(object).filter(|object| !object.is_null());
                }
                "oldObject" if !*old => {
                    *old = true;
                    let new = self.objects.object.as_ref();
                    self.objects.old = self.entries.next_value_seed(ReadOld { known, new, unread })?;
                }
                "object" | "oldObject" => return Err(Error::custom(format!("duplicate field `{name}`"))),
                _ => {
                    return match name {
                        Cow::Borrowed(name) => seed.deserialize(BorrowedStrDeserializer::new(name)),
                        Cow::Owned(name) => seed.deserialize(name.into_deserializer()),
                    }
                    .map(Some);
                }
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.entries.next_value_seed(seed)
    }
}
