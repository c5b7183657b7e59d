//! Events: one for each action, and one for each new reason to wait or to stop.
//!
//! The name of an event is derived from its content and its object, so a restart or a second leader
//! publishes nothing twice. An event that cannot be written is logged and dropped: no decision
//! depends on an event.

use std::borrow::Cow;
use std::collections::BTreeSet;

use capstan_core::api::kind::KindInfo;
use capstan_core::api::meta::ObjectMeta;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest, Sha256};

use super::cluster::Cluster;

/// The most events that one reconcile publishes. A flood of events helps no reader.
const MOST: usize = 16;

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec<'a> {
    /// Whether it is a warning.
    pub warning: bool,
    /// CamelCase, stable.
    pub reason: &'static str,
    /// The text for users.
    pub message: Cow<'a, str>,
    /// Tells apart events of one reason. The same reason with the same key is published once while
    /// it lasts.
    pub key: String,
}

/// Records which events of an object were published.
#[derive(Debug)]
pub struct Events {
    identity: String,
    /// Reason and key of what lasts and was published.
    lasting: BTreeSet<(&'static str, String)>,
}

impl Events {
    /// A recorder of one object that has published nothing yet. `identity` names this process.
    pub fn new(identity: String) -> Self {
        Self {
            identity,
            lasting: BTreeSet::new(),
        }
    }

    /// Publishes all of `once`, and what of `lasting` was not published before. What no longer
    /// lasts may be published again later.
    pub fn record(
        &mut self,
        cluster: &impl Cluster,
        (kind, meta): (&KindInfo, &ObjectMeta),
        lasting: Vec<EventSpec<'_>>,
        once: &[EventSpec<'_>],
    ) {
        let is_published = |event: &EventSpec<'_>| {
            let mut published = self.lasting.iter();
            published.any(|(reason, key)| *reason == event.reason && *key == event.key)
        };
        let new = lasting.iter().filter(|event| !is_published(event));
        let events: Vec<Event> = once
            .iter()
            .chain(new)
            .take(MOST)
            .map(|event| self.event(kind, meta, event, cluster.now()))
            .collect();
        self.lasting = lasting.into_iter().map(|event| (event.reason, event.key)).collect();
        if events.is_empty() {
            return;
        }
        // Events about an object without a namespace are kept in this one, as kubectl expects.
        let namespace = meta.namespace.as_deref().unwrap_or("default");
        cluster.publish(namespace, events);
    }

    fn event(&self, kind: &KindInfo, meta: &ObjectMeta, event: &EventSpec<'_>, now: Timestamp) -> Event {
        let now = Time(now);
        let mut hash = Sha256::new();
        for part in [meta.uid(), event.reason, &event.key] {
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
            metadata: kube::api::ObjectMeta {
                name: Some(format!("{}.{name}", meta.name())),
                namespace: meta.namespace.clone(),
                ..kube::api::ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(kind.api_version()),
                kind: Some(kind.kind.to_string()),
                name: meta.name.clone(),
                namespace: meta.namespace.clone(),
                uid: meta.uid.clone(),
                resource_version: meta.resource_version.clone(),
                field_path: None,
            },
            type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(event.reason.to_owned()),
            message: Some(event.message.chars().take(1024).collect()),
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
