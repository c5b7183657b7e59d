//! What the API server answered to dry-run creations: how machines of a template are stored.
//!
//! The controller sends one dry run for each template, and another one a minute after the API
//! server refused or failed. The number of answers is bounded. No machine is created.

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

/// How long after a failure the controller sends another dry run.
const RETRY: Duration = Duration::from_secs(60);

/// The answers, the last one last.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<VecDeque<Answer>>);

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
    pub(super) async fn ask(&self, cluster: &impl Cluster, question: TemplateQuestion) -> bool {
        let TemplateQuestion { template, machine } = question;
        let now = cluster.instant();
        if !self.begin(&template, now) {
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
            template: template.clone(),
            provider_spec,
        };
        self.insert(Answer {
            template,
            at: now,
            stored: Some(Arc::new(stored)),
        });
        true
    }

    /// What is known of how templates are stored.
    pub(super) fn all(&self) -> Vec<Arc<StoredTemplate>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().filter_map(|answer| answer.stored.clone()).collect()
    }

    /// Notes that a dry run is sent now. Returns false if none is needed.
    fn begin(&self, template: &str, now: Instant) -> bool {
        let known = {
            let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut answers = answers.iter();
            answers.any(|answer| {
                answer.template == template && (answer.stored.is_some() || now.duration_since(answer.at) < RETRY)
            })
        };
        if !known {
            self.insert(Answer {
                template: template.to_owned(),
                at: now,
                stored: None,
            });
        }
        !known
    }

    fn insert(&self, answer: Answer) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|known| known.template != answer.template);
        while answers.len() >= MOST {
            answers.pop_front();
        }
        answers.push_back(answer);
    }
}

fn provider_spec(machine: &Value) -> Option<Value> {
    let provider_spec = machine.pointer("/spec/providerSpec/value")?;
    provider_spec.is_object().then(|| provider_spec.clone())
}
