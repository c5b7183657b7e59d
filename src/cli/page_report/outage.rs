//! Whether the API server answers. The watches of a page retry without end and keep what they know,
//! so a page of an API server that is gone would look as if nothing happens.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Between two questions.
const INTERVAL: Duration = Duration::from_secs(2);
/// The timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The answer to credentials that are not valid any more.
const UNAUTHORIZED: u16 = 401;

/// A time in which the API server does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outage {
    since: Timestamp,
    reason: String,
}

/// Asks the API server for its version again and again, until this is dropped.
pub(super) struct Watched {
    outage: watch::Receiver<Option<Outage>>,
    _stop: DropGuard,
}

impl Watched {
    pub(super) fn start(client: &kube::Client) -> Self {
        let (sender, outage) = watch::channel::<Option<Outage>>(None);
        let (client, stop) = (client.clone(), CancellationToken::new());
        let probing = async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                let reason = ask(&client).await;
                sender.send_if_modified(|outage| {
                    let is_new = outage.is_some() != reason.is_some();
                    *outage = reason.map(|reason| Outage {
                        since: outage.as_ref().map_or_else(Timestamp::now, |outage| outage.since),
                        reason,
                    });
                    is_new
                });
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(probing));
        Self {
            outage,
            _stop: stop.drop_guard(),
        }
    }

    /// Returns when the API server stops to answer, or answers again.
    pub(super) async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.outage.changed().await
    }

    /// The outage in sentences.
    pub(super) fn note(&self) -> Option<String> {
        let outage = self.outage.borrow();
        let Outage { since, reason } = outage.as_ref()?;
        let since = since.strftime("%H:%M:%S");
        Some(format!(
            "The API server has not answered since {since} UTC ({reason}). The page shows the state before that time."
        ))
    }
}

/// Why the API server does not answer; `None` if it does.
async fn ask(client: &kube::Client) -> Option<String> {
    match tokio::time::timeout(TIMEOUT, client.apiserver_version()).await {
        Ok(answer) => answer.err().and_then(|error| is_outage(&error)),
        Err(_elapsed) => Some(format!("no answer within {TIMEOUT:?}")),
    }
}

/// An API server that refuses only this request still answers.
fn is_outage(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if status.code != UNAUTHORIZED && status.code < 500 => None,
        kube::Error::Api(status) => Some(status.message.clone()),
        error => {
            let mut last: &dyn std::error::Error = error;
            while let Some(source) = last.source() {
                last = source;
            }
            Some(last.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_api_server_that_refuses_the_version_still_answers() {
        for (code, is_down) in [(403, false), (404, false), (401, true), (503, true)] {
            let error = kube::Error::Api(Box::new(Status::failure("the message", "Reason").with_code(code)));
            let expected = is_down.then(|| "the message".to_owned());
            assert_eq!(is_outage(&error), expected, "{code}");
        }
    }
}
