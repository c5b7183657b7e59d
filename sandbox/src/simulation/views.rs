//! Changes of what the caches show, for seeded bugs.

use std::sync::Arc;

use capstan::runtime::{View, WatchedObject};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::objects::CachedObject;
use capstan_core::model::NamespacedName;

/// A view in which the objects of a kind are changed.
pub(super) fn edit<T: CachedObject + Clone>(view: &View, kind: &KindInfo, change: impl Fn(&mut T)) -> View {
    let mut view = view.clone();
    let Some(known) = view.objects.of::<T>(kind).cloned() else {
        return view;
    };
    for (key, object) in known.objects.iter() {
        let mut object = object.as_ref().clone();
        change(&mut object);
        put(&mut view, kind, key, object);
    }
    view
}

/// Shows an object in a view.
fn put<T: CachedObject>(view: &mut View, kind: &KindInfo, key: &NamespacedName, object: T) {
    let read = WatchedObject {
        meta: kube::api::ObjectMeta::default(),
        content: Ok(Arc::new(object)),
    };
    view.put(kind, key, Some(read));
}
