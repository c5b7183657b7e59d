//! Whether the API server accepts the credentials of a client.
//!
//! A ServiceAccount that was deleted and created again has another UID, and the kubelet keeps the
//! token of the old one in the pod until it is nearly expired. A restart of the container gives it
//! the same token. Open watches continue, and every other request fails with 401. This module
//! changes no request. It only notes since when each response is a refusal of the credentials.

use std::sync::atomic::Ordering;

use hyper::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tower::util::MapResponseLayer;

/// For so long the credentials may be refused before the process reports it: a token that expires
/// is read again from its file within a minute.
const PATIENCE: SignedDuration = SignedDuration::from_mins(3);

/// The credentials of a client. Clones share what is known.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Since when every response is 401, as a Unix time; 0 while they are accepted.
    refused_since: Gauge,
}

impl Credentials {
    /// Credentials that no API server refused yet, with their metric in `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let credentials = Self::default();
        registry.register_with_unit(
            "capstan_credentials_refused_timestamp",
            "Since when the API server refuses the credentials of this process, as a Unix time",
            Unit::Seconds,
            credentials.refused_since.clone(),
        );
        credentials
    }

    /// The layer of a client that notes each response.
    pub fn layer<B>(&self) -> MapResponseLayer<impl Fn(Response<B>) -> Response<B> + Clone + use<B>> {
        let credentials = self.clone();
        MapResponseLayer::new(move |response: Response<B>| {
            credentials.note(response.status(), Timestamp::now());
            response
        })
    }

    /// Notes a response.
    fn note(&self, status: StatusCode, now: Timestamp) {
        let since = self.refused_since.inner();
        if status == StatusCode::UNAUTHORIZED {
            // The first refusal counts.
            let _known = since.compare_exchange(0, now.as_second(), Ordering::Relaxed, Ordering::Relaxed);
        } else {
            since.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the credentials are accepted, or have been refused for a short time only.
    ///
    /// # Errors
    /// They have been refused for minutes; the text is for the person who reads `/readyz`.
    pub fn accepted(&self, now: Timestamp) -> Result<(), String> {
        let since = self.refused_since.get();
        let patience = PATIENCE.as_secs();
        if since == 0 || now.as_second().saturating_sub(since) < patience {
            return Ok(());
        }
        Err(String::from(
            "the API server refuses the credentials (401); if the ServiceAccount was created again, delete this pod",
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::Request;
    use tower::{Layer as _, ServiceExt as _, service_fn};

    use super::*;

    async fn answer(credentials: &Credentials, status: u16) {
        let client = credentials.layer().layer(service_fn(move |_: Request<()>| async move {
            Ok::<_, Infallible>(Response::builder().status(status).body(()).unwrap())
        }));
        client.oneshot(Request::new(())).await.unwrap();
    }

    #[tokio::test]
    async fn v174_credentials_that_are_refused_for_minutes_are_reported_until_they_are_accepted() {
        let credentials = Credentials::register(&mut Registry::default());
        let later = |minutes: i64| Timestamp::now() + SignedDuration::from_mins(minutes);
        assert_eq!(credentials.accepted(later(0)), Ok(()));
        answer(&credentials, 401).await;
        let since = credentials.refused_since.get();
        answer(&credentials, 401).await;
        assert_eq!(credentials.refused_since.get(), since, "the first refusal counts");
        assert_eq!(credentials.accepted(later(2)), Ok(()), "a token is read again");
        let refused = credentials.accepted(later(4)).unwrap_err();
        assert!(
            refused.contains("401") && refused.contains("delete this pod"),
            "{refused}"
        );
        answer(&credentials, 403).await;
        assert_eq!(credentials.accepted(later(4)), Ok(()), "the user is known");
        assert_eq!(credentials.refused_since.get(), 0);
    }
}
