//! Objects by kind, from caches or from files. An object that was not read is unknown. Readers must
//! not treat an unknown object as absent.
//!
//! Objects of one kind can be kept in more than one Rust type, for example as a whole machine, and
//! as the fields that the guards of mirrored pairs read. Objects are therefore looked up by kind
//! and type.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kind::KindInfo;
use super::meta::ObjectMeta;
use crate::model::{NamespacedName, ObjectRef};

/// A Rust type in which the objects of a kind are kept.
pub trait CachedObject: DeserializeOwned + Clone + Debug + PartialEq + Send + Sync + 'static {
    /// The metadata, if the type keeps it. A controller can wait for its own writes only on objects
    /// whose metadata is kept.
    fn metadata(&self) -> Option<&ObjectMeta>;

    /// Removes the fields that no reader of this type needs, before the object is decoded and kept.
    /// `metadata.managedFields` is removed after this call.
    fn slim(_object: &mut Value) {}

    /// Reads an object whose unneeded fields are removed. A type that keeps the JSON takes it
    /// instead of copying it.
    ///
    /// # Errors
    /// The object does not have the shape of the type. The JSON is given back with the reason.
    fn decode(object: Value) -> Result<Self, Undecodable> {
        // Read by reference, so that the JSON is still there if it cannot be read.
        Self::deserialize(&object).map_err(|error| Undecodable {
            reason: error.to_string(),
            raw: Arc::new(object),
        })
    }
}

/// Values ordered by namespace and name. A clone shares its tree. A change copies one path of the
/// tree.
pub type ByKey<T> = rpds::RedBlackTreeMapSync<NamespacedName, T>;

/// The objects of one kind, by namespace and name.
pub type Index<T> = ByKey<Arc<T>>;

/// An object that cannot be decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Undecodable {
    /// The message of the decoder.
    pub reason: String,
    /// The object as it is stored.
    pub raw: Arc<Value>,
}

/// The known objects of one kind at one moment.
#[derive(Debug)]
pub struct KindObjects<T> {
    /// The objects that can be decoded.
    pub objects: Arc<Index<T>>,
    /// The objects that cannot be decoded.
    pub undecodable: Arc<ByKey<Undecodable>>,
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

impl<T> FromIterator<(NamespacedName, Arc<T>)> for KindObjects<T> {
    fn from_iter<I: IntoIterator<Item = (NamespacedName, Arc<T>)>>(objects: I) -> Self {
        Self {
            objects: Arc::new(objects.into_iter().collect()),
            ..Self::default()
        }
    }
}

/// [`KindObjects`] without its type parameter.
trait AnyKind: Any + Debug + Send + Sync {
    fn metadata(&self, key: &NamespacedName) -> Option<&ObjectMeta>;

    /// The objects, whether or not they can be decoded.
    fn keys(&self) -> Vec<&NamespacedName>;
}

impl<T: CachedObject> AnyKind for KindObjects<T> {
    fn metadata(&self, key: &NamespacedName) -> Option<&ObjectMeta> {
        self.objects.get(key)?.metadata()
    }

    fn keys(&self) -> Vec<&NamespacedName> {
        self.objects.keys().chain(self.undecodable.keys()).collect()
    }
}

type Key = (Cow<'static, str>, Cow<'static, str>, TypeId);

/// The known objects of all kinds. A clone shares the objects.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    kinds: BTreeMap<Key, Arc<dyn AnyKind>>,
}

fn key<T: 'static>(kind: &KindInfo) -> Key {
    (kind.group.clone(), kind.kind.clone(), TypeId::of::<T>())
}

impl Objects {
    /// The known objects of a kind, kept as `T`; `None` while they are unknown.
    pub fn of<T: CachedObject>(&self, kind: &KindInfo) -> Option<&KindObjects<T>> {
        let known: &dyn Any = &**self.kinds.get(&key::<T>(kind))?;
        known.downcast_ref()
    }

    /// Replaces the known objects of a kind.
    pub fn insert<T: CachedObject>(&mut self, kind: &KindInfo, known: KindObjects<T>) {
        self.kinds.insert(key::<T>(kind), Arc::new(known));
    }

    /// All objects of a kind; `None` while they are unknown.
    pub fn all<T: CachedObject>(&self, kind: &KindInfo) -> Option<impl Iterator<Item = &Arc<T>>> {
        Some(self.of::<T>(kind)?.objects.values())
    }

    /// An object; `None` if it does not exist, and while the objects of its kind are unknown.
    pub fn get<T: CachedObject>(&self, kind: &KindInfo, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.of::<T>(kind)?.objects.get(&NamespacedName::new(namespace, name))
    }

    /// The keys of all objects of a kind, in any type, including objects that cannot be decoded.
    pub fn keys(&self, kind: &KindInfo) -> Vec<ObjectRef> {
        let kinds = self.kinds.iter();
        let mut of_kind = kinds.filter(|((group, name, _), _)| *group == kind.group && *name == kind.kind);
        let keys = of_kind.next().map(|(_, known)| known.keys()).unwrap_or_default();
        let keys = keys.into_iter();
        keys.map(|key| kind.object(&key.namespace, &key.name)).collect()
    }

    /// The metadata of an object, kept in any type.
    pub fn metadata(&self, object: &ObjectRef) -> Option<&ObjectMeta> {
        let (key, wanted) = (object.key(), (&object.group, &object.kind));
        let kinds = self.kinds.iter();
        let mut of_kind = kinds.filter(|((group, kind, _), _)| (group, kind) == wanted);
        of_kind.find_map(|(_, known)| known.metadata(&key))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    const TOYS: KindInfo = KindInfo::namespaced("example.org", "v1", "Toy", "toys");

    #[derive(Clone, Debug, PartialEq, Deserialize)]
    struct Toy {
        metadata: ObjectMeta,
    }

    impl CachedObject for Toy {
        fn metadata(&self) -> Option<&ObjectMeta> {
            Some(&self.metadata)
        }
    }

    impl CachedObject for u8 {
        fn metadata(&self) -> Option<&ObjectMeta> {
            None
        }
    }

    #[test]
    fn objects_of_one_name_in_two_namespaces_are_two_objects() {
        let mut objects = Objects::default();
        assert!(objects.all::<Toy>(&TOYS).is_none(), "not read yet");
        let toy = |namespace: &str| {
            let toy = serde_json::json!({"metadata": {"name": "toy", "namespace": namespace, "uid": namespace}});
            let toy: Toy = serde_json::from_value(toy).unwrap();
            (NamespacedName::new(namespace, "toy"), Arc::new(toy))
        };
        objects.insert(&TOYS, [toy("a"), toy("b")].into_iter().collect());
        let uid = |namespace: &str| Some(objects.metadata(&TOYS.object(namespace, "toy"))?.uid());
        assert_eq!((uid("a"), uid("b"), uid("c")), (Some("a"), Some("b"), None));
        assert!(objects.get::<Toy>(&TOYS, "a", "toy").is_some());
        assert!(objects.all::<u8>(&TOYS).is_none(), "not read as this type");
    }
}
