//! The etcd client against three real members.

use std::time::{Duration, Instant};

use anyhow::ensure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capstan::workload::{
    AccessError, AlarmKind, CLIENT_URLS, ClusterReader, Credentials, Endpoint, Etcd as _, EtcdAccess, EtcdClient,
    EtcdError, ManagedCluster, MemberId, Survey, Way, credentials, survey,
};
use capstan_core::api::kind::KindInfo;
use capstan_sandbox::control_plane::wait_until;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::members::{Authority, Members, NAMES, base64};

/// The position of a member in the list of endpoints, by its ID.
fn position(survey: &Survey, id: MemberId) -> usize {
    let (member, _) = survey.members.iter().find(|(member, _)| member.id == id).unwrap();
    NAMES.iter().position(|name| *name == member.name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reads_the_members_and_moves_the_leader_and_removes_a_member() {
    let members = Members::start().await;
    let client = members.client(0).await.unwrap();
    let found = survey(&client).await.unwrap();
    let names: Vec<&str> = found.members.iter().map(|(member, _)| member.name.as_str()).collect();
    assert_eq!(names, NAMES);
    for (at, (member, alarms)) in found.members.iter().enumerate() {
        assert!(!member.is_learner && alarms.is_empty(), "{member:?}");
        assert_eq!(
            member.client_urls,
            [format!("https://{}", members.endpoints[at].address)]
        );
        let own = members.client(at).await.unwrap().status().await.unwrap();
        assert_eq!(
            (own.member, own.leader),
            (member.id, found.leader),
            "every member reports itself"
        );
        assert!(own.version.starts_with("3.") && own.errors.is_empty(), "{own:?}");
    }

    let leader = found.leader.unwrap();
    let old = position(&found, leader);
    let new = (old + 1) % 3;
    let (target, other) = (found.members[new].0.id, found.members[(old + 2) % 3].0.id);
    let refused = members
        .client(new)
        .await
        .unwrap()
        .move_leader(target)
        .await
        .unwrap_err();
    assert!(refused.is_not_leader(), "{refused}");
    members.client(old).await.unwrap().move_leader(target).await.unwrap();
    let moved = members.client(old).await.unwrap().status().await.unwrap();
    assert_eq!(moved.leader, Some(target));

    // etcd refuses a removal until its members have been connected for five seconds.
    let client = members.client(new).await.unwrap();
    let removing = wait_until("the removal", Duration::from_secs(240), async || {
        match client.remove_member(other).await {
            Ok(left) => Ok(Some(left)),
            Err(error) if error.to_string().contains("unhealthy cluster") => Ok(None),
            Err(error) => panic!("{error}"),
        }
    });
    let left = removing.await.unwrap();
    let mut left: Vec<MemberId> = left.iter().map(|member| member.id).collect();
    left.sort_unstable();
    let mut expected = vec![leader, target];
    expected.sort_unstable();
    assert_eq!(left, expected);
    let again = client.remove_member(other).await.unwrap_err();
    assert!(again.is_member_not_found(), "{again}");
    let remaining = survey(&client).await.unwrap();
    assert_eq!(remaining.members.len(), 2);
}

/// A managed cluster that has only the pods of its etcd members.
#[derive(Clone)]
pub(crate) struct Pods(pub(crate) Value);

impl ClusterReader for Pods {
    async fn get<T: DeserializeOwned + Send>(
        &self,
        _cluster: &ManagedCluster,
        _kind: &KindInfo,
        _namespace: &str,
        _name: &str,
    ) -> Result<Option<T>, AccessError> {
        Ok(None)
    }

    async fn list<T: DeserializeOwned + Send>(
        &self,
        _cluster: &ManagedCluster,
        kind: &KindInfo,
        _namespace: &str,
        _selector: &str,
    ) -> Result<Vec<T>, AccessError> {
        assert_eq!(kind.plural, "pods");
        Ok(serde_json::from_value(self.0.clone()).unwrap())
    }
}

async fn access(members: &Members) -> EtcdAccess {
    access_by_pods(members, NAMES.len()).await
}

/// The members, of which the first ones have a pod.
async fn access_by_pods(members: &Members, count: usize) -> EtcdAccess {
    let pods = pods("etcd", NAMES, members).take(count).collect();
    access_by(members, pods).await
}

/// The pods of members on these Nodes.
fn pods(prefix: &str, nodes: [&str; 3], members: &Members) -> impl Iterator<Item = Value> {
    std::iter::zip(nodes, &members.endpoints).map(move |(node, endpoint)| {
        let urls = format!("https://{}", endpoint.address);
        json!({"metadata": {"name": format!("{prefix}-{node}"), "annotations": {(CLIENT_URLS): urls}},
            "spec": {"nodeName": node}})
    })
}

async fn access_by(members: &Members, pods: Value) -> EtcdAccess {
    let cluster = ManagedCluster {
        namespace: String::from("ns"),
        name: String::from("c"),
        uid: String::from("u"),
    };
    let signed = credentials(&members.authority.certificate(), &members.authority.key()).unwrap();
    EtcdAccess::of(&Pods(pods), &cluster, signed, &Way::Advertised)
        .await
        .unwrap()
}

/// The pod of a member goes with its Node, also while etcd runs.
#[tokio::test(flavor = "multi_thread")]
async fn v224_a_member_without_a_pod_is_asked_at_the_address_that_etcd_knows() {
    let mut members = Members::start().await;
    let access = access_by_pods(&members, 2).await;
    let found = access.report().await.unwrap();
    assert!(found.silent.is_empty(), "{:?}", found.silent);
    members.kill(2);
    let found = access.report().await.unwrap();
    assert_eq!(found.silent.keys().collect::<Vec<_>>(), [NAMES[2]]);
}

/// The usual second etcd, for Events, has copies of the pods of kubeadm.
#[tokio::test(flavor = "multi_thread")]
async fn v236_the_members_of_two_etcd_clusters_are_neither_reported_nor_removed() {
    let authority = Authority::new("etcd-ca");
    let members = Members::of(authority.clone()).await;
    let events = Members::of(authority).await;
    // The second etcd runs on the same Nodes, or on another one.
    let same: Vec<Value> = pods("etcd-events", NAMES, &events).collect();
    let other: Vec<Value> = pods("etcd-events", ["localhost"; 3], &events).take(1).collect();
    for (of_events, named) in [(same, "etcd-events-node-a"), (other, "etcd-events-localhost (cluster ")] {
        let both = of_events.into_iter().chain(pods("etcd", NAMES, &members));
        let access = access_by(&members, both.collect()).await;
        for failed in [
            access.report().await.unwrap_err(),
            access.remove(NAMES[0]).await.unwrap_err(),
            access.move_leader(NAMES[0], &[NAMES[1].to_owned()]).await.unwrap_err(),
        ] {
            assert!(matches!(failed, EtcdError::DifferentClusters(_)), "{failed}");
            assert!(failed.to_string().contains(named), "{failed}");
        }
    }
    // A pod that has ended runs no member.
    let ended = pods("etcd-events", NAMES, &events).map(|mut pod| {
        pod["status"] = json!({"phase": "Failed"});
        pod
    });
    let with_ended = ended.chain(pods("etcd", NAMES, &members)).collect();
    let found = access_by(&members, with_ended).await.report().await.unwrap();
    assert!(found.silent.is_empty(), "{:?}", found.silent);
    for etcd in [&members, &events] {
        let left = survey(&etcd.client(0).await.unwrap()).await.unwrap();
        assert_eq!(left.members.len(), 3);
    }
}

/// A user takes the labels from the pod of a member that was initialised again, as the message for
/// two clusters advises. The address that etcd knows leads to the other cluster.
#[tokio::test(flavor = "multi_thread")]
async fn v248_a_member_whose_address_answers_for_another_cluster_is_silent() {
    let authority = Authority::new("etcd-ca");
    let mut members = Members::of(authority.clone()).await;
    let [client, _] = members.ports[2];
    members.kill(2);
    let _alone = Members::alone(&authority, NAMES[2], client).await;
    let access = access_by_pods(&members, 2).await;
    let found = access.report().await.unwrap();
    let (name, reason) = found.silent.first_key_value().unwrap();
    assert_eq!((name.as_str(), found.silent.len()), (NAMES[2], 1));
    assert!(reason.contains("answers for another etcd cluster"), "{reason}");
}

/// The number of bytes before the key of PKCS #1 in an RSA key of PKCS #8.
const PKCS8_HEAD: usize = 26;

#[test]
fn the_keys_that_cluster_api_generates_sign_certificates() {
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap().pem();
    credentials(&authority, &key.serialize_pem()).unwrap();
    // Cluster API writes RSA keys in the older form.
    let body = STANDARD.encode(&key.serialized_der()[PKCS8_HEAD..]);
    let older = format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n");
    credentials(&authority, &older).unwrap();
    let refused = credentials(&authority, "no key").unwrap_err().to_string();
    assert_eq!(
        refused,
        "the certificates for etcd must be signed with the private key of the authority in PEM"
    );
    assert!(credentials("no certificate", &older).is_err());
}

/// Removes a member. etcd refuses it until its members have been connected for five seconds.
async fn remove(access: &EtcdAccess, name: &str) {
    let removing = wait_until("the removal", Duration::from_secs(240), async || {
        match access.remove(name).await {
            Ok(()) => Ok(Some(())),
            Err(error) if error.is_unhealthy_cluster() => Ok(None),
            Err(error) => panic!("{error}"),
        }
    });
    removing.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_moves_away_from_a_member_before_it_is_removed_and_the_last_member_stays() {
    let mut members = Members::start().await;
    let access = access(&members).await;
    let found = access.report().await.unwrap();
    assert!(found.silent.is_empty(), "{:?}", found.silent);
    let leader = found.leader().unwrap().to_owned();
    let others: Vec<String> = NAMES
        .iter()
        .filter(|name| **name != leader)
        .map(ToString::to_string)
        .collect();

    // A member that does not answer is passed over.
    let silent = NAMES.iter().position(|name| *name == others[0]).unwrap();
    members.kill(silent);
    let found = access.report().await.unwrap();
    assert_eq!(found.silent.keys().collect::<Vec<_>>(), [&others[0]]);
    let left = found.leader().unwrap().to_owned();
    if left == leader {
        access
            .move_leader(&others[1], std::slice::from_ref(&leader))
            .await
            .unwrap();
        assert_eq!(
            access.report().await.unwrap().leader(),
            Some(leader.as_str()),
            "it did not lead"
        );
        access.move_leader(&leader, &others).await.unwrap();
    }
    let found = access.report().await.unwrap();
    assert_eq!(found.leader(), Some(others[1].as_str()));
    assert!(
        access.move_leader(&others[1], &others[..1]).await.is_err(),
        "no other member answers"
    );

    remove(&access, &others[0]).await;
    access.remove(&others[0]).await.unwrap();
    remove(&access, &leader).await;
    let refused = access.remove(&others[1]).await.unwrap_err();
    assert!(matches!(refused, EtcdError::NoMember(_)), "{refused}");
    let left = members
        .client(NAMES.iter().position(|name| *name == others[1]).unwrap())
        .await
        .unwrap();
    assert_eq!(survey(&left).await.unwrap().members.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_is_reported_with_its_member() {
    let members = Members::start().await;
    let client = members.client(1).await.unwrap();
    let ids: Vec<MemberId> = survey(&client)
        .await
        .unwrap()
        .members
        .iter()
        .map(|(member, _)| member.id)
        .collect();
    raise(&members, ids[2], "NOSPACE").await.unwrap();
    raise(&members, ids[2], "CORRUPT").await.unwrap();
    let found = survey(&client).await.unwrap();
    let alarms: Vec<&[AlarmKind]> = found.members.iter().map(|(_, alarms)| alarms.as_slice()).collect();
    assert_eq!(alarms[0], []);
    assert_eq!(alarms[1], []);
    assert_eq!(alarms[2].len(), 2);
    assert!(alarms[2].contains(&AlarmKind::NoSpace) && alarms[2].contains(&AlarmKind::Corrupt));
    let status = client.status().await.unwrap();
    assert!(
        status.errors.iter().any(|error| error.contains("NOSPACE")),
        "{status:?}"
    );
}

/// Raises an alarm through the JSON gateway of etcd, which Capstan does not use.
async fn raise(members: &Members, member: MemberId, alarm: &str) -> anyhow::Result<()> {
    let pair = members.authority.sign("root", &[]);
    let mut config = kube::Config::new(format!("https://{}", members.endpoints[0].address).parse()?);
    let root = rustls::pki_types::pem::PemObject::from_pem_slice(members.authority.certificate().as_bytes());
    let root: rustls::pki_types::CertificateDer<'_> = root?;
    config.root_cert = Some(vec![root.to_vec()]);
    config.auth_info.client_certificate_data = Some(base64(&pair.certificate));
    config.auth_info.client_key_data = Some(base64(&pair.key).into());
    let client = kube::Client::try_from(config)?;
    let body = serde_json::json!({"action": "ACTIVATE", "memberID": member.0.to_string(), "alarm": alarm});
    let request = http::Request::post("/v3/maintenance/alarm").body(body.to_string().into_bytes().into())?;
    let status = client.send(request).await?.status();
    ensure!(status.is_success(), "etcd answers {status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_member_is_passed_over_and_its_failure_is_named() {
    let mut members = Members::start().await;
    members.kill(0);
    let refused = members.client(0).await.unwrap_err();
    assert!(matches!(refused, EtcdError::Connect { .. }), "{refused}");
    assert!(refused.to_string().contains(&members.endpoints[0].address), "{refused}");

    // A member that accepts connections and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_address = silent.local_addr().unwrap().to_string();
    let of_silent = json!({"metadata": {"name": "etcd-node-0", "annotations": {
        (CLIENT_URLS): format!("https://{silent_address}")}}, "spec": {"nodeName": "node-0"}});
    let all = std::iter::once(of_silent).chain(pods("etcd", NAMES, &members));
    let access = access_by(&members, all.collect()).await;
    let began = Instant::now();
    let report = wait_until("a leader", Duration::from_secs(240), async || {
        let report = access.report().await?;
        Ok(report.leader().is_some().then_some(report))
    });
    let report = report.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let reasons: Vec<&String> = report.silent.values().collect();
    assert_eq!(report.silent.keys().collect::<Vec<_>>(), ["node-0", NAMES[0]]);
    assert!(reasons[0].contains(&silent_address), "{reasons:?}");
    assert!(reasons[1].contains(&members.endpoints[0].address), "{reasons:?}");
    let client = members.client(1).await.unwrap();
    // Two of three members elect a leader and still answer.
    let found = wait_until("a leader", Duration::from_secs(240), async || {
        let found = survey(&client).await?;
        Ok(found.leader.is_some().then_some(found))
    });
    assert_eq!(found.await.unwrap().members.len(), 3);

    // Without a quorum, a member does not answer a list, and a client does not wait longer than its
    // deadline.
    members.kill(2);
    let began = Instant::now();
    let lost = client.members().await.unwrap_err();
    assert!(
        matches!(lost, EtcdError::Refused { .. } | EtcdError::Late { .. }),
        "{lost}"
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());

    let failed = access.report().await.unwrap_err().to_string();
    for address in [&silent_address, &members.endpoints[0].address] {
        assert!(failed.contains(address), "{failed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_verify_the_certificate_of_the_other() {
    let members = Members::start().await;
    let (endpoint, ours) = (&members.endpoints[0], &members.authority);
    let foreign = Authority::new("another-ca");

    // The client trusts another CA.
    let pair = ours.sign("capstan", &[]);
    let wrong_roots = Credentials::from_pem(
        foreign.certificate().as_bytes(),
        pair.certificate.as_bytes(),
        pair.key.as_bytes(),
    );
    let refused = EtcdClient::connect(endpoint, &wrong_roots.unwrap()).await.unwrap_err();
    assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");

    // The member does not trust the certificate of the client.
    let pair = foreign.sign("capstan", &[]);
    let wrong_client = Credentials::from_pem(
        ours.certificate().as_bytes(),
        pair.certificate.as_bytes(),
        pair.key.as_bytes(),
    )
    .unwrap();
    let called = async { EtcdClient::connect(endpoint, &wrong_client).await?.members().await };
    let refused = called.await.unwrap_err();
    assert!(
        matches!(refused, EtcdError::Connect { .. } | EtcdError::Refused { .. }),
        "{refused}"
    );

    // The address leads to another member.
    let other = Endpoint {
        server_name: String::from("node-b"),
        ..endpoint.clone()
    };
    let refused = EtcdClient::connect(&other, &members.credentials).await.unwrap_err();
    assert!(refused.to_string().contains("node-b"), "{refused}");
    assert_eq!(members.client(0).await.unwrap().members().await.unwrap().len(), 3);
}

#[test]
fn certificates_that_cannot_be_used_are_refused_without_quoting_the_key() {
    let authority = Authority::new("ca");
    let (one, two) = (authority.sign("one", &[]), authority.sign("two", &[]));
    let ca = authority.certificate();
    let refusal = |ca: &str, certificate: &str, key: &str| {
        let refused = Credentials::from_pem(ca.as_bytes(), certificate.as_bytes(), key.as_bytes());
        refused.unwrap_err().to_string()
    };
    assert!(refusal("", &one.certificate, &one.key).contains("CA certificate"));
    assert!(refusal(&ca, "", &one.key).contains("client certificate"));
    let refused = refusal(&ca, &one.certificate, "secret-key");
    assert!(
        refused.contains("private key") && !refused.contains("secret-key"),
        "{refused}"
    );
    let refused = refusal(&ca, &one.certificate, &two.key);
    assert!(refused.contains("must be a valid client certificate"), "{refused}");
}
