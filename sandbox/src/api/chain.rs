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

    /// Calls the components of a plugin, the second time only those that must be called again.
    /// Returns whether the object changed.
    fn run(
        &mut self,
        plugin: &[Component],
        is_again: bool,
        request: &Request<'_>,
        now: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Failure> {
        let mut has_changed = false;
        for (index, component) in plugin.iter().enumerate() {
            if !request.asks(component) || (is_again && !self.again.contains(&index)) {
                continue;
            }
            if let Some(new) = request.mutated(component, now, warnings)? {
                *now = new;
                self.object_changed();
                has_changed = true;
            }
            if component.is_reinvoked {
                self.unchanged.insert(index);
            }
        }
        Ok(has_changed)
    }
}

/// A request to the API server in one phase of admission.
struct Request<'a> {
    api: &'a Api,
    kind: &'a Kind,
    phase: Phase,
    edit: &'a Edit<'a>,
}

impl Request<'_> {
    fn asks(&self, component: &Component) -> bool {
        let part = match self.edit.subresource {
            "" => Part::Main,
            "scale" => Part::Scale,
            _ => Part::Status,
        };
        component.admit.asks(self.kind, part)
    }

    /// The object after a component; none if the component did not change it.
    fn mutated(
        &self,
        component: &Component,
        now: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Value>, Failure> {
        let edit = Edit {
            object: Some(now),
            ..*self.edit
        };
        let new = component
            .admit
            .judge(self.api, self.kind, self.phase, &edit, warnings)?;
        let new = new.map(|new| settled(self.kind, new)).transpose()?;
        Ok(new.filter(|new| new != now))
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
        let request = Request { api, kind, phase, edit };
        let (Phase::Mutate, Some(object)) = (phase, edit.object) else {
            for component in self.0.iter().flatten().filter(|component| request.asks(component)) {
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
                has_changed |= calls.run(plugin, is_again, &request, &mut now, warnings)?;
                calls.output = now.clone();
            }
            if !has_changed {
                break;
            }
        }
        Ok((now != *object).then_some(now))
    }
}
