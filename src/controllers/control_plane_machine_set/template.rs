//! What the API server answered to dry-run creations: how machines of a template are stored.
//!
//! The controller sends one dry run for each template, and another one a minute after the API
//! server refused, failed, or stored the template with other values. The number of answers is
//! bounded. No machine is created.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capstan_core::api::kinds;
use capstan_core::cpms::stored_template::{StoredTemplate, TemplateQuestion};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::runtime::Cluster;

/// The largest number of templates that are remembered.
const MOST: usize = 8;

/// How long after a failure, or an answer with other values, the controller sends another dry run.
const RETRY: Duration = Duration::from_secs(60);

/// The answers, the last one last.
#[derive(Debug, Default)]
pub(in crate::controllers) struct Answers(Mutex<VecDeque<Answer>>);

#[derive(Clone, Debug)]
struct Answer {
    /// The key of the template.
    template: String,
    at: Instant,
    /// What is stored; `None` if the API server refused or failed.
    stored: Option<Arc<StoredTemplate>>,
}

impl Answers {
    /// Sends a dry run, unless its answer is known. Returns whether there is a new answer.
    pub(in crate::controllers) async fn ask(&self, cluster: &impl Cluster, question: TemplateQuestion) -> bool {
        let TemplateQuestion {
            template,
            machine,
            again,
        } = question;
        let now = cluster.instant();
        if !self.begin(&template, again, now) {
            return false;
        }
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        let object = kinds::MACHINES.object(namespace, machine.metadata.name());
        let stored = match cluster.dry_run(&kinds::MACHINES, &object, json!(machine)).await {
            Ok(stored) => stored.and_then(|stored| provider_spec(&stored)),
            Err(error) => {
                tracing::info!(%error, %object, "the API server refuses a dry-run creation from the template");
                None
            }
        };
        let Some(provider_spec) = stored else { return false };
        tracing::debug!(template, "the API server answered how the template is stored");
        let stored = StoredTemplate {
            template,
            provider_spec,
        };
        self.learn(stored, now)
    }

    /// What is known of how templates are stored.
    pub(in crate::controllers) fn all(&self) -> Vec<Arc<StoredTemplate>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().filter_map(|answer| answer.stored.clone()).collect()
    }

    /// Notes that a dry run is sent now. Returns false if none is needed, or if the last one was
    /// sent less than [`RETRY`] ago. `again`: a known answer does not count.
    fn begin(&self, template: &str, again: bool, now: Instant) -> bool {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers.iter_mut().find(|answer| answer.template == template) {
            let is_due = answer.stored.is_none() || again;
            let begins = is_due && now.duration_since(answer.at) >= RETRY;
            if begins {
                answer.at = now;
            }
            return begins;
        }
        while answers.len() >= MOST {
            answers.pop_front();
        }
        answers.push_back(Answer {
            template: template.to_owned(),
            at: now,
            stored: None,
        });
        true
    }

    /// Stores an answer. Returns whether it is a new one.
    fn learn(&self, stored: StoredTemplate, now: Instant) -> bool {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = answers.iter().position(|answer| answer.template == stored.template);
        let before = known.and_then(|at| answers.remove(at)).and_then(|answer| answer.stored);
        let is_new = before.as_deref() != Some(&stored);
        answers.push_back(Answer {
            template: stored.template.clone(),
            at: now,
            stored: before.filter(|_| !is_new).or_else(|| Some(Arc::new(stored))),
        });
        is_new
    }
}

fn provider_spec(machine: &Value) -> Option<Value> {
    let provider_spec = machine.pointer("/spec/providerSpec/value")?;
    provider_spec.is_object().then(|| provider_spec.clone())
}
