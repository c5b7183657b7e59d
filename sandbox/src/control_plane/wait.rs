//! Waits for conditions that become true later.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// The shortest and the longest pause between two checks. A pause is as long as the check before.
/// A check can start a process, such as kubectl, and must leave time to what it waits for.
const PAUSES: [Duration; 2] = [Duration::from_millis(25), Duration::from_millis(500)];

/// Calls `check` until it returns a value. An error means "not yet". Tests use it for conditions
/// that become true later, such as a new webhook that takes effect.
///
/// # Errors
/// `check` returned no value before the deadline; its last error is the cause.
pub async fn wait_until<T>(
    what: &str,
    deadline: Duration,
    mut check: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let began = Instant::now();
    let [shortest, longest] = PAUSES;
    let mut last = None;
    loop {
        let before = began.elapsed();
        // A check that hangs must not outlast the deadline.
        let left = deadline.saturating_sub(before).max(shortest);
        match tokio::time::timeout(left, check()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => last = None,
            Ok(Err(error)) => last = Some(error),
            // The error of the check before says more than a timeout.
            Err(_) => last = last.or_else(|| Some(anyhow!("the last check did not return"))),
        }
        if began.elapsed() >= deadline {
            let waited = format!("waited {deadline:?} for {what}");
            return Err(last.map_or_else(|| anyhow!("{waited}"), |error| error.context(waited.clone())));
        }
        let took = began.elapsed().saturating_sub(before);
        tokio::time::sleep(took.clamp(shortest, longest)).await;
    }
}

/// Sends an HTTP GET of `url`. The certificate of the server is not verified.
///
/// # Errors
/// As for [`get`].
pub(super) async fn get_url(url: &str) -> Result<()> {
    let mut config = kube::Config::new(url.parse().with_context(|| format!("parsing {url}"))?);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.proxy_url = None;
    let path = config
        .cluster_url
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    config.cluster_url = url
        .strip_suffix(&path)
        .unwrap_or(url)
        .parse()
        .with_context(|| format!("parsing {url}"))?;
    let client = kube::Client::try_from(config).context("creating a client")?;
    get(&client, &path).await
}

/// Sends a GET of `path`.
///
/// # Errors
/// No answer arrives, or its status is no success. The error contains the body then: `/readyz`
/// names there what is missing.
pub(super) async fn get(client: &kube::Client, path: &str) -> Result<()> {
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .context("creating a request")?;
    let response = client.send(request).await.with_context(|| format!("reading {path}"))?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let body = response.into_body().collect_bytes().await.context("reading a body")?;
    bail!("{status} for {path}: {}", String::from_utf8_lossy(&body).trim_end())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_wait_returns_the_value_after_earlier_errors() {
        let mut checks = 0;
        let value = wait_until("the third check", Duration::from_secs(30), async || {
            checks += 1;
            match checks {
                1 => Err(anyhow!("not yet")),
                2 => Ok(None),
                _ => Ok(Some(checks)),
            }
        })
        .await
        .unwrap();
        assert_eq!(value, 3);
    }

    #[tokio::test]
    async fn a_failed_wait_names_its_subject_and_the_last_error() {
        let error = wait_until::<()>("a condition", Duration::ZERO, async || Err(anyhow!("not yet")))
            .await
            .unwrap_err();
        assert_eq!(format!("{error:#}"), "waited 0ns for a condition: not yet");
    }

    #[tokio::test]
    async fn a_server_that_is_not_ready_is_quoted() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/readyz", listener.local_addr().unwrap());
        let server = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _read = connection.read(&mut request).await.unwrap();
            let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 9\r\n\r\n[-]caches";
            connection.write_all(answer.as_bytes()).await.unwrap();
        };
        let (answer, ()) = tokio::join!(get_url(&url), server);
        let error = answer.unwrap_err().to_string();
        assert_eq!(error, "503 Service Unavailable for /readyz: [-]caches");
    }
}
