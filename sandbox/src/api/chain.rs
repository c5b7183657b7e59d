//! Several components that judge the same objects: the order in which an API server calls them, and
//! which of them it calls again.
//!
//! The mutating pass calls the plugins one after another, and each plugin its components. If a
//! component changes the object, all plugins run once more. Then a component is called again if
//! another one of its plugin changed the object after it, or if the object is not the one with
//! which its plugin ended. `tests/fidelity` compares this with a real API server.
//!
//! Source: `reinvocationPolicy` in the API reference of Kubernetes.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::admission::Phase;
use capstan_core::model::Edit;
use serde_json::Value;

use super::failure::Failure;
use super::kinds::Kind;
use super::request::Part;
use super::store::{Admit, Api};
use super::writes::settled;

/// A component: a policy or a webhook.
pub struct Component {
    admit: Arc<dyn Admit>,
    is_reinvoked: bool,
}

impl Component {
    /// A component with the reinvocation policy `IfNeeded`, or else `Never`.
    pub fn new(admit: Arc<dyn Admit>, is_reinvoked: bool) -> Self {
        Self { admit, is_reinvoked }
    }
}

/// The plugins in their order, for example the policies before the webhooks, each with its
/// components in their order.
pub struct Chain(Vec<Vec<Component>>);

/// What a plugin did in the first pass.
#[derive(Default)]
struct Calls {
    /// The components that may be called again, and after which nothing changed yet.
    unchanged: BTreeSet<usize>,
    /// The components that must be called again.
    again: BTreeSet<usize>,
    /// The object with which the plugin ended.
    output: Value,
}

impl Calls {
    fn object_changed(&mut self) {
        self.again.append(&mut self.unchanged);
    }
}

impl Chain {
    /// A chain of plugins.
    pub fn new(plugins: Vec<Vec<Component>>) -> Self {
        Self(plugins)
    }
}

impl Admit for Chain {
    fn asks(&self, kind: &Kind, part: Part) -> bool {
        let mut all = self.0.iter().flatten();
        all.any(|component| component.admit.asks(kind, part))
    }

    fn judge(
        &self,
        api: &Api,
        kind: &Kind,
        phase: Phase,
        edit: &Edit<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Value>, Failure> {
        let part = match edit.subresource {
            "" => Part::Main,
            "scale" => Part::Scale,
            _ => Part::Status,
        };
        let asks = |component: &Component| component.admit.asks(kind, part);
        let (Phase::Mutate, Some(object)) = (phase, edit.object) else {
            for component in self.0.iter().flatten().filter(|component| asks(component)) {
                component.admit.judge(api, kind, phase, edit, warnings)?;
            }
            return Ok(None);
        };
        let mut now = object.clone();
        let mut calls: Vec<Calls> = self.0.iter().map(|_| Calls::default()).collect();
        for is_again in [false, true] {
            let mut has_changed = false;
            for (plugin, calls) in self.0.iter().zip(&mut calls) {
                if is_again && calls.output != now {
                    calls.object_changed();
                }
                for (index, component) in plugin.iter().enumerate() {
                    if !asks(component) || (is_again && !calls.again.contains(&index)) {
                        continue;
                    }
                    let edit = Edit {
                        object: Some(&now),
                        ..*edit
                    };
                    let new = component.admit.judge(api, kind, phase, &edit, warnings)?;
                    if let Some(new) = new.map(|new| settled(kind, new)).transpose()?
                        && new != now
                    {
                        now = new;
                        calls.object_changed();
                        has_changed = true;
                    }
                    if component.is_reinvoked {
                        calls.unchanged.insert(index);
                    }
                }
                calls.output = now.clone();
            }
            if !has_changed {
                break;
            }
        }
        Ok((now != *object).then_some(now))
    }
}
