//! Events: one for each action, and one for each new reason to wait or to stop.
//!
//! Their names are derived from what they say about whom, so that a restart or a second leader says nothing twice. What
//! cannot be written is logged and forgotten: an event is news, never a fact that something rests on.

use std::borrow::Cow;
use std::collections::BTreeSet;

use capstan_core::api::machine_openshift_io::control_plane_machine_set::{API_VERSION, ControlPlaneMachineSet, KIND};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;
use sha2::{Digest, Sha256};

use super::cluster::Cluster;

/// At most this many in one look: what floods is of no use to anybody.
const MOST: usize = 16;

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News<'a> {
    /// Whether it is a warning.
    pub(super) warning: bool,
    /// CamelCase, stable.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) message: Cow<'a, str>,
    /// What makes it news: the same reason with the same key is said once while it lasts.
    pub(super) key: String,
}

/// Says what is new about a set.
pub(super) struct Events {
    identity: String,
    /// What lasts and was said.
    lasting: BTreeSet<(&'static str, String)>,
}

impl Events {
    pub(super) fn new(identity: String) -> Self {
        Self {
            identity,
            lasting: BTreeSet::new(),
        }
    }

    /// Says what of `lasting` was not said before, and all of `once`. What no longer lasts may be said again later.
    pub(super) fn say(
        &mut self,
        cluster: &impl Cluster,
        set: &ControlPlaneMachineSet,
        lasting: Vec<News<'_>>,
        once: &[News<'_>],
    ) {
        let was_said = |news: &News<'_>| {
            let mut said = self.lasting.iter();
            said.any(|(reason, key)| *reason == news.reason && *key == news.key)
        };
        let fresh = lasting.iter().filter(|news| !was_said(news));
        let events: Vec<Event> = once
            .iter()
            .chain(fresh)
            .take(MOST)
            .map(|news| self.event(set, news, cluster.now()))
            .collect();
        self.lasting = lasting.into_iter().map(|news| (news.reason, news.key)).collect();
        if events.is_empty() {
            return;
        }
        let namespace = set.metadata.namespace.as_deref().unwrap_or("default");
        cluster.tell(namespace, events);
    }

    fn event(&self, set: &ControlPlaneMachineSet, news: &News<'_>, now: Timestamp) -> Event {
        let meta = &set.metadata;
        let now = Time(now);
        let mut hash = Sha256::new();
        for part in [meta.uid(), news.reason, &news.key] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let name: String = hash
            .finalize()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{name}", meta.name())),
                namespace: meta.namespace.clone(),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(API_VERSION.to_owned()),
                kind: Some(KIND.to_owned()),
                name: meta.name.clone(),
                namespace: meta.namespace.clone(),
                uid: meta.uid.clone(),
                resource_version: meta.resource_version.clone(),
                field_path: None,
            },
            type_: Some(if news.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(news.reason.to_owned()),
            message: Some(news.message.chars().take(1024).collect()),
            source: Some(EventSource {
                component: Some("capstan".to_owned()),
                host: None,
            }),
            reporting_component: Some("capstan".to_owned()),
            reporting_instance: Some(self.identity.clone()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        }
    }
}
