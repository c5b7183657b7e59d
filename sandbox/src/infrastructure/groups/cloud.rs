//! The instances, as a cloud knows them. No API server knows them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The group, as `namespace/name`.
    pub group: String,
    /// Rises with every instance of the cloud.
    pub number: u64,
    /// The version of the kubelet.
    pub version: String,
    /// The model of the group from which it was made.
    pub model: String,
    /// Whether its kubelet works.
    pub is_healthy: bool,
}

impl Instance {
    /// The provider ID.
    pub fn provider_id(&self) -> String {
        format!("simulated://{}/{}", self.group, self.number)
    }

    /// The name of its Node, and of its infrastructure machine.
    pub fn name(&self) -> String {
        let group = self.group.rsplit('/').next().unwrap_or_default();
        format!("{group}-{:04}", self.number)
    }
}

/// The instances by provider ID. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Cloud(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    instances: BTreeMap<String, Instance>,
    launched: u64,
}

impl Cloud {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instances of a group, the oldest first.
    pub fn of_group(&self, group: &str) -> Vec<Instance> {
        let inner = self.lock();
        let own = inner.instances.values().filter(|instance| instance.group == group);
        let mut own: Vec<Instance> = own.cloned().collect();
        own.sort_by_key(|instance| instance.number);
        own
    }

    /// The number of instances that were ever launched.
    pub fn launched(&self) -> u64 {
        self.lock().launched
    }

    /// Launches an instance.
    pub fn launch(&self, group: &str, version: &str, model: &str) {
        let mut inner = self.lock();
        inner.launched += 1;
        let instance = Instance {
            group: group.to_owned(),
            number: inner.launched,
            version: version.to_owned(),
            model: model.to_owned(),
            is_healthy: true,
        };
        inner.instances.insert(instance.provider_id(), instance);
    }

    /// Ends an instance: the provider deletes it, or a test makes it vanish.
    pub fn terminate(&self, provider_id: &str) {
        self.lock().instances.remove(provider_id);
    }

    /// Whether an instance exists, and its kubelet works.
    pub fn is_healthy(&self, provider_id: &str) -> bool {
        let inner = self.lock();
        inner
            .instances
            .get(provider_id)
            .is_some_and(|instance| instance.is_healthy)
    }

    /// Stops the kubelet of an instance.
    pub fn fail(&self, provider_id: &str) {
        if let Some(instance) = self.lock().instances.get_mut(provider_id) {
            instance.is_healthy = false;
        }
    }
}
