//! Leader election by Lease: which replica works. It saves work and keeps logs readable. No safety
//! rests on it (decisions 15, 18).
//!
//! The library keeps a leader whose renewals fail. Here, a leader reads its Lease before the Lease
//! expires, and no longer leads unless the answer shows that it was renewed.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use kube_lease_manager::{LeaseManagerBuilder, Result};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::cluster::FIELD_MANAGER;

/// How long before the Lease expires the leader reads it at most, and the time limit of that read.
const CHECKED: Duration = Duration::from_secs(2);

/// How the leader is elected.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// The name of this process, unique among all replicas.
    pub identity: String,
    /// How long the other replicas wait for a leader that no longer renews the Lease.
    pub duration: Duration,
}

/// Takes part in the election from `ready` until `stop`, and then releases the Lease, which gets
/// these labels. The receiver says whether this process is the leader.
pub fn stand(
    client: Client,
    election: Election,
    labels: BTreeMap<String, String>,
    ready: impl Future<Output = ()> + Send + 'static,
    stop: CancellationToken,
) -> (watch::Receiver<bool>, tokio::task::JoinHandle<()>) {
    let (sender, receiver) = watch::channel(false);
    let task = tokio::spawn(async move {
        stop.run_until_cancelled(ready).await;
        let mut backoff = Backoff::default();
        while !stop.is_cancelled() {
            match term(&client, &election, &labels, &sender, &stop).await {
                Ok(()) => backoff.reset(),
                Err(error) => tracing::warn!(%error, lease = election.name, "leader election failed; retrying"),
            }
            sender.send_replace(false);
            stop.run_until_cancelled(tokio::time::sleep(backoff.next_delay())).await;
        }
    });
    (receiver, task)
}

/// One attempt, until it fails or the process stops.
async fn term(
    client: &Client,
    election: &Election,
    labels: &BTreeMap<String, String>,
    leading: &watch::Sender<bool>,
    stop: &CancellationToken,
) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), &election.namespace);
    if let Err(error) = label(&leases, &election.name, labels).await {
        // A sharder does not see the Lease, and assigns nothing to this process.
        tracing::warn!(%error, lease = election.name, "the Lease cannot be labelled; retrying");
        return Ok(());
    }
    let times = Times::of(election.duration);
    let manager = LeaseManagerBuilder::new(client.clone(), &election.name)
        .with_namespace(&election.namespace)
        .with_identity(&election.identity)
        .with_duration(times.duration)
        .with_grace(times.grace)
        .build()
        .await?;
    let (mut state, mut task) = manager.watch().await;
    let own = leases.clone();
    let selection = watcher::Config::default().fields(&format!("metadata.name={}", election.name));
    let mut lease = Box::pin(watcher(leases, selection).default_backoff());
    let mut held_by_another = false;
    let mut check_at = Instant::now();
    loop {
        let is_leader = *state.borrow_and_update();
        if *leading.borrow() != is_leader {
            tracing::info!(is_leader, identity = election.identity, "leadership");
            leading.send_replace(is_leader);
            check_at = Instant::now() + Duration::from_secs(times.duration).saturating_sub(times.checked);
        }
        tokio::select! {
            () = sleep_until(check_at), if is_leader => {
                let Some(left) = left(&own, election, times.checked).await else {
                    tracing::warn!(lease = election.name, "the Lease was not renewed in time; no longer the leader");
                    break;
                };
                check_at = Instant::now() + left.saturating_sub(times.checked);
            }
            changed = state.changed() => if changed.is_err() { break },
            // The manager checks again when the Lease of the last leader expires. The watch notices
            // a released Lease at once; without the permission to watch, the expiry is the limit.
            Some(event) = lease.next() => match holder(&event) {
                Some(Some(holder)) => held_by_another = holder != election.identity,
                Some(None) if held_by_another && !is_leader => break,
                _ => {}
            },
            () = stop.cancelled() => break,
        }
    }
    // Without a receiver the manager releases the Lease and ends.
    leading.send_replace(false);
    drop(state);
    match tokio::time::timeout(Duration::from_secs(5), &mut task).await {
        Ok(Ok(outcome)) => outcome.map(|_| ()),
        Ok(Err(_)) => Ok(()),
        Err(_) => {
            // A late release would end the next term of this process.
            task.abort();
            Ok(())
        }
    }
}

/// When a Lease is renewed, and when the leader reads it, before it expires.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// In whole seconds, which a Lease counts.
    duration: u64,
    /// A third of the duration, in seconds: so long before the expiry the Lease is renewed.
    grace: u64,
    /// So long before the expiry the leader reads the Lease: after the renewal, also of a short
    /// Lease (V294).
    checked: Duration,
}

impl Times {
    fn of(duration: Duration) -> Self {
        let duration = duration.as_secs().max(2);
        let grace = (duration / 3).max(1);
        Self {
            duration,
            grace,
            checked: CHECKED.min(Duration::from_secs(grace) / 2),
        }
    }
}

/// For how long this process still holds the Lease, if it is longer than a check takes. `None` also
/// if the Lease cannot be read.
async fn left(leases: &Api<Lease>, election: &Election, checked: Duration) -> Option<Duration> {
    let read = tokio::time::timeout(checked, leases.get(&election.name)).await;
    remains(read.ok()?.ok()?.spec?, &election.identity, Timestamp::now()).filter(|left| *left > checked)
}

/// For how long a process holds a Lease; `None` if it does not.
fn remains(lease: LeaseSpec, identity: &str, now: Timestamp) -> Option<Duration> {
    let is_own = lease.holder_identity.as_deref() == Some(identity);
    let seconds = lease.lease_duration_seconds.map(i64::from)?;
    let renewed = lease.renew_time?.0;
    let expires = renewed.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    Duration::try_from(expires.duration_since(now)).ok().filter(|_| is_own)
}

/// Creates the Lease with its labels, or adds them.
async fn label(leases: &Api<Lease>, name: &str, labels: &BTreeMap<String, String>) -> kube::Result<()> {
    if labels.is_empty() {
        return Ok(());
    }
    let lease = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "labels": labels},
    });
    let parameters = PatchParams::apply(FIELD_MANAGER);
    leases.patch(name, &parameters, &Patch::Apply(lease)).await?;
    Ok(())
}

/// The holder of the Lease; `None` for an event without that information.
fn holder(event: &watcher::Result<Event<Lease>>) -> Option<Option<&str>> {
    let (Ok(Event::Apply(lease)) | Ok(Event::InitApply(lease))) = event else {
        return None;
    };
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    Some(holder.filter(|holder| !holder.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// Answers requests for one Lease.
    fn answer(lease: &mut Value, method: &http::Method, query: &str, body: &[u8]) -> Value {
        if let Ok(patch) = serde_json::from_slice::<Value>(body)
            && *method == http::Method::PATCH
        {
            for (field, value) in patch["spec"].as_object().into_iter().flatten() {
                lease["spec"][field] = value.clone();
            }
        }
        if query.contains("fieldSelector") {
            let metadata = json!({"resourceVersion": "1"});
            return json!({"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": metadata,
                "items": [lease]});
        }
        lease.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn v285_a_leader_that_cannot_renew_its_lease_does_not_lead_any_more() {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "lease", "namespace": "home", "resourceVersion": "1"}, "spec": {}});
        let lease = Arc::new(std::sync::Mutex::new(lease));
        let silent = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (stored, is_silent) = (Arc::clone(&lease), Arc::clone(&silent));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (stored, is_silent) = (Arc::clone(&stored), Arc::clone(&is_silent));
            async move {
                let query = request.uri().query().unwrap_or_default().to_owned();
                if is_silent.load(Ordering::Relaxed) || query.contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                let method = request.method().clone();
                let body = request.into_body().collect_bytes().await.unwrap();
                let answer = answer(&mut stored.lock().unwrap(), &method, &query, &body);
                let answer = Body::from(serde_json::to_vec(&answer).unwrap());
                Ok::<_, std::convert::Infallible>(http::Response::new(answer))
            }
        });
        let election = Election {
            namespace: "home".to_owned(),
            name: "lease".to_owned(),
            identity: "one".to_owned(),
            duration: Duration::from_secs(30),
        };
        let stop = CancellationToken::new();
        let client = Client::new(service, "home");
        let (mut leading, task) = stand(client, election, BTreeMap::new(), std::future::ready(()), stop.clone());
        let leads = |is_leader: &bool| *is_leader;
        leading.wait_for(leads).await.unwrap();
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert!(*leading.borrow(), "a leader whose renewals succeed stays the leader");

        silent.store(true, Ordering::Relaxed);
        let lost = leading.wait_for(|is_leader| !is_leader);
        tokio::time::timeout(Duration::from_secs(30), lost)
            .await
            .unwrap()
            .unwrap();
        silent.store(false, Ordering::Relaxed);
        leading.wait_for(leads).await.unwrap();
        stop.cancel();
        task.await.unwrap();
    }

    #[test]
    fn v294_a_leader_reads_its_lease_after_the_renewal_and_keeps_a_short_one() {
        for seconds in [2, 3, 5, 6, 15, 30, 3600] {
            let times = Times::of(Duration::from_secs(seconds));
            let [duration, grace] = [times.duration, times.grace].map(|time| i64::try_from(time).unwrap());
            let taken = Timestamp::UNIX_EPOCH;
            let checked =
                taken + SignedDuration::from_secs(duration) - SignedDuration::try_from(times.checked).unwrap();
            let lease = |renewed: Timestamp, holder: &str| LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(i32::try_from(duration).unwrap()),
                renew_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(renewed)),
                ..LeaseSpec::default()
            };
            let renewed = taken + SignedDuration::from_secs(duration - grace);
            let keeps = |lease: LeaseSpec| remains(lease, "one", checked).is_some_and(|left| left > times.checked);
            assert!(renewed < checked && keeps(lease(renewed, "one")), "{seconds}");
            assert!(
                !keeps(lease(taken, "one")) && !keeps(lease(renewed, "two")),
                "{seconds}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn w112_a_process_that_is_not_ready_does_not_take_the_lease() {
        let requests = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&requests);
        let service = tower::service_fn(move |_: http::Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(Body::empty())))
        });
        let election = Election {
            namespace: "home".to_owned(),
            name: "lease".to_owned(),
            identity: "one".to_owned(),
            duration: Duration::from_secs(30),
        };
        let (ready, stop) = (Arc::new(tokio::sync::Notify::new()), CancellationToken::new());
        let is_ready = Arc::clone(&ready);
        let is_ready = async move { is_ready.notified().await };
        let client = Client::new(service, "home");
        let (leading, task) = stand(client, election, BTreeMap::new(), is_ready, stop.clone());

        tokio::time::sleep(Duration::from_mins(10)).await;
        assert_eq!((requests.load(Ordering::Relaxed), *leading.borrow()), (0, false));
        ready.notify_one();
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(requests.load(Ordering::Relaxed) > 0);
        stop.cancel();
        task.await.unwrap();
    }
}
