//! Who may read the metrics over TLS: the API server says whose token it is (TokenReview), and
//! whether the user may `get` the URL `/metrics` (SubjectAccessReview).
//!
//! Answers are kept for a short time, so that scrapes do not load the API server. A token is kept
//! as a hash only.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::server::{Access, MetricsClients};

/// How long an answer counts.
const KEPT: Duration = Duration::from_secs(60);
/// How many answers are kept.
const ANSWERS: usize = 256;
/// Questions to the API server at the same time.
const QUESTIONS: usize = 4;
/// The time limit of both questions about a token.
const TIME_LIMIT: Duration = Duration::from_secs(5);

type Hash = [u8; 32];

/// Asks the API server.
#[derive(Clone)]
pub(super) struct TokenReviews {
    client: Client,
    answers: Arc<Mutex<HashMap<Hash, (Instant, Access)>>>,
    questions: Arc<Semaphore>,
}

impl fmt::Debug for TokenReviews {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TokenReviews")
    }
}

impl TokenReviews {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            answers: Arc::default(),
            questions: Arc::new(Semaphore::new(QUESTIONS)),
        }
    }

    fn kept(&self, hash: &Hash) -> Option<Access> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, access) = answers.get(hash)?;
        (Instant::now() < *until).then(|| access.clone())
    }

    fn keep(&self, hash: Hash, access: &Access) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if answers.len() >= ANSWERS {
            answers.retain(|_, (until, _)| now < *until);
        }
        if answers.len() >= ANSWERS {
            answers.clear();
        }
        answers.insert(hash, (now + KEPT, access.clone()));
    }

    async fn ask(&self, token: String) -> Access {
        let Ok(_slot) = self.questions.acquire().await else {
            return Access::Unknown("the process ends".to_owned());
        };
        match tokio::time::timeout(TIME_LIMIT, review(&self.client, token)).await {
            Ok(Ok(access)) => access,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the API server does not review a token of the metrics");
                Access::Unknown("the API server does not review tokens now; the log tells why".to_owned())
            }
            Err(_elapsed) => Access::Unknown("the API server does not respond".to_owned()),
        }
    }
}

impl MetricsClients for TokenReviews {
    fn access(&self, token: String) -> BoxFuture<'static, Access> {
        let reviews = self.clone();
        Box::pin(async move {
            let hash: Hash = Sha256::digest(&token).into();
            if let Some(access) = reviews.kept(&hash) {
                return access;
            }
            let access = reviews.ask(token).await;
            if !matches!(access, Access::Unknown(_)) {
                reviews.keep(hash, &access);
            }
            access
        })
    }
}

/// Asks whose token it is, and what the user may do.
async fn review(client: &Client, token: String) -> kube::Result<Access> {
    let question = TokenReview {
        spec: TokenReviewSpec {
            token: Some(token),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    };
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &question).await?;
    let status = answer.status.unwrap_or_default();
    let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
        return Ok(Access::Unauthenticated);
    };
    let question = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some("/metrics".to_owned()),
                verb: Some("get".to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &question).await?;
    let allowed = answer.status.is_some_and(|status| status.allowed);
    Ok(if allowed { Access::Granted } else { Access::Forbidden })
}
