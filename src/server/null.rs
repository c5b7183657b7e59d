//! The reviewer that reads only the envelope and allows everything. The benchmark uses it to
//! measure the server without the rules, and tests use it; it must never run in a cluster, so that
//! `capstan serve` has it with the cargo feature `bench` only.

use std::borrow::Cow;
use std::io::Write;

use capstan_core::admission::{Answer, LiveReads, NoReview, Record};

use super::answer::Reviewer;

/// The longest uid that is accepted, as in the rules of core.
const MAX_UID: usize = 256;

/// Allows everything. It reads only the uid.
#[derive(Debug)]
pub struct NullReviewer {
    routes: Vec<String>,
}

impl NullReviewer {
    /// A reviewer for these paths.
    #[must_use]
    pub fn new(routes: Vec<String>) -> Self {
        Self { routes }
    }
}

#[derive(serde::Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(serde::Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

impl Reviewer for NullReviewer {
    fn routes(&self) -> Vec<String> {
        self.routes.clone()
    }

    fn review(&self, _route: &str, body: &[u8]) -> Result<Answer, NoReview> {
        let no_review = |error: serde_json::Error| NoReview(error.to_string());
        let envelope: Envelope<'_> = serde_json::from_slice(body).map_err(no_review)?;
        let uid = envelope.request.uid;
        if uid.len() > MAX_UID {
            return Err(NoReview(format!("request.uid must have at most {MAX_UID} bytes")));
        }
        let mut answer = Vec::with_capacity(160);
        answer.extend_from_slice(br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"#);
        serde_json::to_writer(&mut answer, &uid).map_err(no_review)?;
        // Writing to a Vec does not fail.
        let _ = answer.write_all(br#","allowed":true}}"#);
        let record = Record {
            uid: uid.into_owned(),
            allowed: true,
            code: 200,
            ..Record::default()
        };
        Ok(Answer {
            body: answer,
            record,
            live_reads: LiveReads::default(),
        })
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}
