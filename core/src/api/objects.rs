//! Objects by kind, as caches or files gave them. What was not read is unknown, and unknown is never
//! taken for absent.
//!
//! Objects of one kind may be kept in more than one Rust type, for example as a whole Machine and as
//! the part of it that the guards for both APIs read. So a kind is looked up together with its type.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::kind::KindInfo;
use crate::model::NamespacedName;

/// The objects of one kind, by namespace and name.
pub type Index<T> = BTreeMap<NamespacedName, Arc<T>>;

/// What is known of one kind at one moment.
#[derive(Debug)]
pub struct KindObjects<T> {
    /// The objects that could be decoded.
    pub objects: Arc<Index<T>>,
    /// Objects that could not be decoded, with the reason.
    pub undecodable: Arc<BTreeMap<NamespacedName, String>>,
    /// Whether the cluster serves the kind.
    pub served: bool,
}

impl<T> Clone for KindObjects<T> {
    fn clone(&self) -> Self {
        Self {
            objects: Arc::clone(&self.objects),
            undecodable: Arc::clone(&self.undecodable),
            served: self.served,
        }
    }
}

impl<T> Default for KindObjects<T> {
    fn default() -> Self {
        Self {
            objects: Arc::default(),
            undecodable: Arc::default(),
            served: true,
        }
    }
}

type Key = (Cow<'static, str>, Cow<'static, str>, TypeId);

/// The known objects of all kinds. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    kinds: BTreeMap<Key, Arc<dyn Any + Send + Sync>>,
}

fn key<T: 'static>(kind: &KindInfo) -> Key {
    (kind.group.clone(), kind.kind.clone(), TypeId::of::<T>())
}

impl Objects {
    /// What is known of a kind as `T`; `None` while nothing is known.
    pub fn of<T: Send + Sync + 'static>(&self, kind: &KindInfo) -> Option<&KindObjects<T>> {
        self.kinds.get(&key::<T>(kind))?.downcast_ref()
    }

    /// Replaces what is known of a kind.
    pub fn insert<T: Send + Sync + 'static>(&mut self, kind: &KindInfo, known: KindObjects<T>) {
        self.kinds.insert(key::<T>(kind), Arc::new(known));
    }

    /// All objects of a kind; `None` while it is unknown which there are.
    pub fn all<T: Send + Sync + 'static>(&self, kind: &KindInfo) -> Option<impl Iterator<Item = &Arc<T>>> {
        Some(self.of::<T>(kind)?.objects.values())
    }

    /// An object. `None` also while nothing is known of the kind.
    pub fn get<T: Send + Sync + 'static>(&self, kind: &KindInfo, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.of::<T>(kind)?.objects.get(&NamespacedName::new(namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOYS: KindInfo = KindInfo::namespaced("example.org", "v1", "Toy", "toys");

    #[test]
    fn objects_of_one_name_in_two_namespaces_are_two_objects() {
        let mut objects = Objects::default();
        assert!(objects.all::<u8>(&TOYS).is_none(), "not read yet");
        let index =
            [("a", 1_u8), ("b", 2)].map(|(namespace, toy)| (NamespacedName::new(namespace, "toy"), Arc::new(toy)));
        let known = KindObjects {
            objects: Arc::new(index.into()),
            ..KindObjects::default()
        };
        objects.insert(&TOYS, known);
        assert_eq!(objects.get::<u8>(&TOYS, "a", "toy").map(|toy| **toy), Some(1));
        assert_eq!(objects.get::<u8>(&TOYS, "b", "toy").map(|toy| **toy), Some(2));
        assert_eq!(objects.get::<u8>(&TOYS, "c", "toy"), None);
        assert!(objects.all::<u16>(&TOYS).is_none(), "not read as this type");
    }
}
