//! Client certificates and cipher suites: which clients get an answer.

use capstan::server::Settings;
use capstan::tls::clients::Clients;
use capstan::tls::{CipherSuite, Policy};
use hyper::StatusCode;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ClientConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::version::{TLS12, TLS13};

use crate::client::{Client, config, connect, review};
use crate::harness::{Running, settings, start};

/// A CA of client certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "clients");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// The configuration of a client whose certificate has this common name and these DNS names.
    fn client(&self, running: &Running, name: &str, others: &[&str], usage: ExtendedKeyUsagePurpose) -> ClientConfig {
        let key = KeyPair::generate().unwrap();
        let others: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(others).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let plain = config(&running.trust, "h2", &[&TLS13]);
        let builder = ClientConfig::builder_with_provider(plain.crypto_provider().clone());
        let mut roots = rustls::RootCertStore::empty();
        for root in rustls::pki_types::pem::PemObject::pem_slice_iter(running.trust.as_bytes()) {
            roots
                .add(rustls::pki_types::CertificateDer::clone(&root.unwrap()))
                .unwrap();
        }
        let mut with = builder
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        with.alpn_protocols = plain.alpn_protocols;
        with
    }
}

/// Whether the server answers a review of this client. A TLS 1.3 client learns that the server
/// refused its certificate when it reads.
async fn is_answered(running: &Running, config: ClientConfig) -> bool {
    let Ok(stream) = connect(running.address, config).await else {
        return false;
    };
    let Ok(mut client) = Client::new(stream).await else {
        return false;
    };
    match client.post("/review", review("a")).await {
        Ok(response) => response.status() == StatusCode::OK,
        Err(_) => false,
    }
}

async fn server(clients: Clients) -> Running {
    let tls = Policy {
        clients: Some(clients),
        ..Policy::default()
    };
    start(Settings { tls, ..settings() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_with_a_certificate_of_the_ca_are_answered() {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let (authority, other) = (Authority::new(), Authority::new());
    let running = server(Clients::new(authority.pem.as_bytes(), Vec::new()).unwrap()).await;
    assert!(is_answered(&running, authority.client(&running, "any", &[], ClientAuth)).await);
    assert!(!is_answered(&running, other.client(&running, "any", &[], ClientAuth)).await);
    assert!(!is_answered(&running, authority.client(&running, "any", &[], ServerAuth)).await);
    assert!(!is_answered(&running, config(&running.trust, "h2", &[&TLS13])).await);
    // The kubelet and Prometheus have no client certificate.
    assert_eq!(crate::harness::get(running.health, "/readyz").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_one_of_the_allowed_names() {
    let authority = Authority::new();
    let allowed = ["kube-apiserver", "api.example.com"].map(str::to_owned).to_vec();
    let running = server(Clients::new(authority.pem.as_bytes(), allowed).unwrap()).await;
    for (name, others, answered) in [
        ("kube-apiserver", &[][..], true),
        ("other", &["api.example.com"], true),
        ("other", &[], false),
        ("kube-apiserver.evil", &["evil.api.example.com"], false),
    ] {
        let client = authority.client(&running, name, others, ExtendedKeyUsagePurpose::ClientAuth);
        assert_eq!(is_answered(&running, client).await, answered, "{name} {others:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cipher_suite_that_is_not_listed_is_refused() {
    let suite = CipherSuite::named("ECDHE-ECDSA-AES256-GCM-SHA384").unwrap();
    let tls = Policy {
        cipher_suites: vec![suite],
        ..Policy::default()
    };
    let running = start(Settings { tls, ..settings() }).await;
    let stream = connect(running.address, config(&running.trust, "h2", &[&TLS12]))
        .await
        .unwrap();
    let negotiated = stream.get_ref().1.negotiated_cipher_suite().unwrap();
    assert_eq!(
        negotiated.suite(),
        rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
    );
    // No suite of TLS 1.3 is listed.
    assert!(
        connect(running.address, config(&running.trust, "h2", &[&TLS13]))
            .await
            .is_err()
    );
}
