//! Which objects of a kind are watched, and with which requests.

use std::borrow::Cow;

use capstan_core::api::kind::KindInfo;
use kube::runtime::watcher;

/// A kind, and which of its objects are watched.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// The kind.
    pub(super) kind: KindInfo,
    /// The namespace; `None` for all namespaces, and for a cluster-scoped kind.
    pub(super) namespace: Option<String>,
    /// The only objects that are watched; empty for all.
    pub(super) names: Vec<Cow<'static, str>>,
    /// A label selector.
    pub(super) labels: Option<String>,
}

impl Selection {
    /// The streams of changes that the selection needs: one for each name, or one for all objects.
    pub(super) fn streams(&self) -> usize {
        self.names.len().max(1)
    }

    /// What a stream of the selection asks for.
    pub(super) fn config(&self, stream: usize) -> watcher::Config {
        let mut config = watcher::Config::default();
        if let Some(name) = self.names.get(stream) {
            config = config.fields(&format!("metadata.name={name}"));
        }
        if let Some(labels) = &self.labels {
            config = config.labels(labels);
        }
        config
    }

    /// How a message names a stream: `things.example.org`, `things.example.org one`.
    pub(super) fn title(&self, stream: usize) -> String {
        let title = self.kind.title();
        match self.names.get(stream) {
            Some(name) => format!("{title} {name}"),
            None => title,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THINGS: KindInfo = KindInfo::namespaced("example.org", "v1", "Thing", "things");

    #[test]
    fn each_name_has_a_stream_with_its_own_title() {
        let mut selection = Selection {
            kind: THINGS,
            namespace: None,
            names: Vec::new(),
            labels: Some("app=capstan".to_owned()),
        };
        assert_eq!(
            (selection.streams(), selection.title(0)),
            (1, "things.example.org".to_owned())
        );
        assert_eq!(selection.config(0).label_selector.as_deref(), Some("app=capstan"));
        selection.names = vec!["one".into(), "two".into()];
        assert_eq!(
            (selection.streams(), selection.title(1)),
            (2, "things.example.org two".to_owned())
        );
        assert_eq!(selection.config(1).field_selector.as_deref(), Some("metadata.name=two"));
    }
}
