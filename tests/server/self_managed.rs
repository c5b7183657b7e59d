//! The self-managed CA rotates under load. The tests use an API server in memory that implements
//! resource versions, conflicts and JSON patches.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use capstan::tls::issue::DAY;
use capstan::tls::rotation::{Profile, Step};
use capstan::tls::self_managed::{Outcome, SelfManaged, Settings};
use http_body_util::BodyExt;
use hyper::{Request, Response};
use k8s_openapi::ByteString;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{eventually, names, now, settings as server_settings, start_bare};
use crate::rotation::call;

const SECRET: &str = "/api/v1/namespaces/capstan/secrets/certificates";
const CONFIGURATIONS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/capstan",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/capstan",
];

/// An API server in memory: objects by path, and the last resource version.
#[derive(Clone, Default)]
struct Api {
    objects: Arc<Mutex<(u64, BTreeMap<String, Value>)>>,
}

impl Api {
    fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        kube::Client::new(service, "capstan")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let (code, value) = self.apply(head.method.as_str(), head.uri.path(), &body);
        let value = if code < 300 {
            value
        } else {
            let reason = if code == 404 { "NotFound" } else { "" };
            json!({"kind": "Status", "status": "Failure", "code": code, "message": "", "reason": reason})
        };
        Response::builder()
            .status(code)
            .body(Body::from(value.to_string().into_bytes()))
            .unwrap()
    }

    fn apply(&self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let mut state = self.objects.lock().unwrap();
        let (path, mut new) = match method {
            "GET" => {
                return state
                    .1
                    .get(path)
                    .map_or((404, Value::Null), |found| (200, found.clone()));
            }
            "POST" => {
                let object: Value = serde_json::from_slice(body).unwrap();
                let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
                if state.1.contains_key(&path) {
                    return (409, Value::Null);
                }
                (path, object)
            }
            "PUT" => {
                let object: Value = serde_json::from_slice(body).unwrap();
                let Some(found) = state.1.get(path) else {
                    return (404, Value::Null);
                };
                if found["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
                    return (409, Value::Null);
                }
                (path.to_owned(), object)
            }
            "PATCH" => {
                let Some(mut object) = state.1.get(path).cloned() else {
                    return (404, Value::Null);
                };
                let patch: json_patch::Patch = serde_json::from_slice(body).unwrap();
                if json_patch::patch(&mut object, &patch).is_err() {
                    return (422, Value::Null);
                }
                (path.to_owned(), object)
            }
            other => panic!("{other} {path}"),
        };
        state.0 += 1;
        new["metadata"]["resourceVersion"] = json!(state.0.to_string());
        state.1.insert(path, new.clone());
        (200, new)
    }

    fn configure(&self, path: &str, bundles: &[Option<&str>]) {
        let webhooks: Vec<_> = bundles
            .iter()
            .map(|bundle| match bundle {
                Some(text) => json!({"caBundle": ByteString(text.as_bytes().to_vec())}),
                None => json!({"service": {"name": "capstan"}}),
            })
            .map(|client| json!({"name": "validate.machine.capstan.dev", "clientConfig": client}))
            .collect();
        let mut state = self.objects.lock().unwrap();
        state.0 += 1;
        let version = state.0.to_string();
        let object = json!({"metadata": {"name": "capstan", "resourceVersion": version}, "webhooks": webhooks});
        state.1.insert(path.to_owned(), object);
    }

    /// Every `caBundle`, decoded.
    fn bundles(&self) -> Vec<String> {
        let state = self.objects.lock().unwrap();
        let webhooks = CONFIGURATIONS
            .iter()
            .filter_map(|path| state.1.get(*path)?["webhooks"].as_array());
        webhooks
            .flatten()
            .map(|webhook| {
                let bytes: ByteString =
                    serde_json::from_value(webhook["clientConfig"]["caBundle"].clone()).unwrap_or_default();
                String::from_utf8(bytes.0).unwrap()
            })
            .collect()
    }
}

fn settings(profile: Profile) -> Settings {
    Settings {
        namespace: "capstan".to_owned(),
        secret: "certificates".to_owned(),
        configurations: vec!["capstan".to_owned(), "not-there-yet".to_owned()],
        definitions: Vec::new(),
        names: names(),
        profile,
    }
}

/// Runs the passes of all replicas in turns until no replica has a step.
async fn settle(replicas: &mut [SelfManaged], now: i64) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..200 {
        let mut idle = true;
        for replica in replicas.iter_mut() {
            let outcome = replica.pass(now).await.unwrap();
            idle &= outcome == Outcome::Done(Step::Nothing);
            if let Outcome::Done(step) = outcome {
                steps.push(step);
            }
        }
        if idle {
            return steps;
        }
    }
    panic!("the rotation does not settle: {:?}", &steps[..10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_to_two_replicas_fails_while_the_ca_rotates() {
    let api = Api::default();
    api.configure(CONFIGURATIONS[0], &[None, Some("Cg==")]);
    api.configure(CONFIGURATIONS[1], &[None]);
    // A new CA is issued every minute. Certificates start one hour early, so the simulated time may
    // run ahead of the clock.
    let lifetime = 10 * DAY;
    let profile = Profile {
        authority_lifetime: lifetime,
        authority_renewal: lifetime - 60,
        leaf_renewal: DAY,
        settle: 60,
        retire: 60,
        ..Profile::default()
    };
    let servers = [
        start_bare(server_settings(), Ok(())).await,
        start_bare(server_settings(), Ok(())).await,
    ];
    let mut replicas = servers
        .each_ref()
        .map(|server| SelfManaged::new(api.client(), settings(profile.clone()), server.certificates.clone()));
    let mut time = now();
    settle(&mut replicas, time).await;
    assert!(
        api.bundles()
            .iter()
            .all(|bundle| bundle.matches("BEGIN CERTIFICATE").count() == 1),
        "{:?}",
        api.bundles()
    );

    let (calls, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut clients = JoinSet::new();
    let reads: Vec<_> = (0..4).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    for (number, read_count) in reads.iter().enumerate() {
        let (calls, stop, api, read_count) = (
            Arc::clone(&calls),
            Arc::clone(&stop),
            api.clone(),
            Arc::clone(read_count),
        );
        let address = servers[number % 2].address;
        clients.spawn(async move {
            let trust = || {
                let bundle = api.bundles().swap_remove(number % 3);
                read_count.fetch_add(1, Ordering::SeqCst);
                bundle
            };
            call(|| address, trust, &calls, &stop).await
        });
    }
    let mut rotations = 0;
    while calls.load(Ordering::Relaxed) < 10_000 || rotations < 10 {
        // The simulated time advances only after every client has read the bundles, since an API
        // server observes a change within a minute.
        let before: Vec<_> = reads
            .iter()
            .map(|read_count| read_count.load(Ordering::SeqCst))
            .collect();
        eventually("every client reads the bundles twice", async || {
            assert!(clients.try_join_next().is_none(), "a client failed");
            reads
                .iter()
                .zip(&before)
                .all(|(read_count, before)| read_count.load(Ordering::SeqCst) >= before + 2)
        })
        .await;
        if rotations < 40 {
            time += 61;
            let steps = settle(&mut replicas, time).await;
            assert!(steps.iter().any(|step| matches!(step, Step::AddAuthority)), "{steps:?}");
            rotations += 1;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let seen: std::collections::BTreeSet<_> = clients.join_all().await.into_iter().flatten().collect();
    assert!(
        seen.len() >= 8,
        "the clients saw {} certificates in {rotations} rotations",
        seen.len()
    );
    let most = api
        .bundles()
        .iter()
        .map(|bundle| bundle.matches("BEGIN CERTIFICATE").count())
        .max();
    assert!(most <= Some(4), "old CAs are not removed: {most:?}");
}

#[tokio::test]
async fn after_the_loss_of_the_secret_the_bundles_keep_the_ca_and_an_emptied_bundle_is_filled() {
    let api = Api::default();
    api.configure(CONFIGURATIONS[0], &[None]);
    let server = start_bare(server_settings(), Ok(())).await;
    let mut replicas = [SelfManaged::new(
        api.client(),
        settings(Profile::default()),
        server.certificates.clone(),
    )];
    settle(&mut replicas, now()).await;
    let old = api.bundles().remove(0);
    let served = |api: &Api| {
        let secret = api.apply("GET", SECRET, &[]).1;
        let certificate: ByteString = serde_json::from_value(secret["data"]["tls.crt"].clone()).unwrap();
        certificate.0
    };
    let first = served(&api);

    api.objects.lock().unwrap().1.remove(SECRET);
    let steps = settle(&mut replicas, now()).await;
    assert!(matches!(steps[0], Step::Adopt(_)), "{steps:?}");
    let both = api.bundles().remove(0);
    assert!(both.contains(&old) && both.len() > old.len());
    // The serving certificate stays until the new CA has been in every bundle for the settle time.
    assert!(
        !steps.iter().any(|step| matches!(step, Step::IssueLeaf { .. })),
        "{steps:?}"
    );
    assert_eq!(server.certificates.valid_at(now()), Ok(()));
    let later = now() + Profile::default().settle;
    let steps = settle(&mut replicas, later).await;
    assert!(
        steps.iter().any(|step| matches!(step, Step::IssueLeaf { .. })),
        "{steps:?}"
    );
    assert_ne!(served(&api), first);

    api.configure(CONFIGURATIONS[0], &[Some("Cg=="), None]);
    settle(&mut replicas, later).await;
    assert_eq!(api.bundles(), [both.clone(), both]);
}

#[tokio::test]
async fn a_secret_that_cannot_be_parsed_is_not_changed() {
    let api = Api::default();
    let server = start_bare(server_settings(), Ok(())).await;
    let mut replica = SelfManaged::new(api.client(), settings(Profile::default()), server.certificates.clone());
    let data = json!({"state.json": ByteString(b"{\"authorities\": 7}".to_vec())});
    let secret = json!({"metadata": {"name": "certificates"}, "data": data});
    api.apply(
        "POST",
        "/api/v1/namespaces/capstan/secrets",
        secret.to_string().as_bytes(),
    );
    let before = api.apply("GET", SECRET, &[]).1;
    let error = replica.pass(now()).await.unwrap_err();
    assert!(error.to_string().contains("state.json, line 1"), "{error}");
    assert_eq!(api.apply("GET", SECRET, &[]).1, before);
}

/// Another program that writes its own CA into every bundle.
fn inject(api: &Api) {
    let mut state = api.objects.lock().unwrap();
    let (version, objects) = &mut *state;
    for path in CONFIGURATIONS {
        let Some(object) = objects.get_mut(path) else {
            continue;
        };
        for webhook in object["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["caBundle"] = json!("Cg==");
        }
        *version += 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
    }
}

#[tokio::test]
async fn w12_a_bundle_that_another_program_writes_too_is_written_once_in_ten_minutes() {
    for annotation in [
        "cert-manager.io/inject-ca-from",
        "service.beta.openshift.io/inject-cabundle",
    ] {
        let api = Api::default();
        api.configure(CONFIGURATIONS[0], &[None]);
        let annotate = |value: Value| {
            let mut state = api.objects.lock().unwrap();
            let object = state.1.get_mut(CONFIGURATIONS[0]).unwrap();
            object["metadata"]["annotations"] = value;
        };
        annotate(json!({ annotation: "capstan/certificate" }));
        let server = start_bare(server_settings(), Ok(())).await;
        let mut replica = [SelfManaged::new(
            api.client(),
            settings(Profile::default()),
            server.certificates.clone(),
        )];
        let start = now();
        let published = |steps: Vec<Step>| steps.into_iter().filter(|step| *step == Step::Publish).count();
        assert_eq!(published(settle(&mut replica, start).await), 1, "{annotation}");
        let mut writes = 0;
        for second in 0..1300 {
            inject(&api);
            writes += published(settle(&mut replica, start + second).await);
        }
        assert_eq!(writes, 2, "{annotation}");
        // Without the annotation, the bundle is written at once.
        annotate(json!({}));
        inject(&api);
        assert_eq!(published(settle(&mut replica, start + 1300).await), 1, "{annotation}");
        assert!(api.bundles()[0].contains("BEGIN CERTIFICATE"), "{annotation}");
    }
}
