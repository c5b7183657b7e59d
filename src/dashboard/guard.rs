//! Which requests the dashboard answers: those of the page that this process printed the address
//! of, and no others.
//!
//! A page of another origin can send requests to a server on loopback, and DNS rebinding gives it
//! the origin of that server. The token in the path, the `Host` header and `Sec-Fetch-Site` each
//! stop it. Nothing here may depend on a cookie.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use rustls::crypto::aws_lc_rs::default_provider;
use sha2::{Digest as _, Sha256};

/// The secret in the address of the page.
#[derive(Clone, Debug)]
pub struct Token(String);

impl Token {
    /// A new secret of 128 random bits.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> anyhow::Result<Self> {
        let mut bytes = [0_u8; 16];
        let filled = default_provider().secure_random.fill(&mut bytes);
        filled.map_err(|_| anyhow::anyhow!("the system must give random bytes for the address of the page"))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The secret.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text is the secret. Hashes are compared, so that the time of the comparison does
    /// not reveal a part of the secret.
    pub(super) fn is(&self, text: &str) -> bool {
        Sha256::digest(&self.0) == Sha256::digest(text)
    }
}

/// Whether a request comes from a page of this server, or from the address bar.
pub(super) fn is_own(headers: &HeaderMap, port: u16) -> bool {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let hosts = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
    ];
    let is_host = |host: &str| hosts.iter().any(|own| own == host);
    let is_origin = |origin: &str| origin.strip_prefix("http://").is_some_and(is_host);
    let site = HeaderName::from_static("sec-fetch-site");
    text(&header::HOST).is_some_and(is_host)
        && text(&header::ORIGIN).is_none_or(is_origin)
        && text(&site).is_none_or(|site| matches!(site, "same-origin" | "none"))
}

/// The headers of each response: nothing of another origin is loaded, and nothing is stored.
pub(super) fn headers() -> [(HeaderName, HeaderValue); 6] {
    let policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ]
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields.iter();
        fields
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_request_of_another_origin_is_not_answered() {
        for own in [
            &[("host", "127.0.0.1:8000")][..],
            &[("host", "localhost:8000"), ("sec-fetch-site", "none")],
            &[
                ("host", "127.0.0.1:8000"),
                ("origin", "http://127.0.0.1:8000"),
                ("sec-fetch-site", "same-origin"),
            ],
        ] {
            assert!(is_own(&request(own), 8000), "{own:?}");
        }
        for foreign in [
            &[][..],
            &[("host", "rebound.example:8000")],
            &[("host", "127.0.0.1:8001")],
            &[("host", "127.0.0.1:8000.example")],
            &[("host", "127.0.0.1:8000"), ("origin", "https://example.org")],
            &[("host", "127.0.0.1:8000"), ("origin", "null")],
            &[("host", "127.0.0.1:8000"), ("sec-fetch-site", "cross-site")],
            &[("host", "127.0.0.1:8000"), ("sec-fetch-site", "same-site")],
        ] {
            assert!(!is_own(&request(foreign), 8000), "{foreign:?}");
        }
    }

    #[test]
    fn two_tokens_differ_and_a_token_is_only_itself() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.as_str().len(), 32);
        assert!(one.is(one.as_str()) && !one.is(other.as_str()) && !one.is(""));
    }
}
