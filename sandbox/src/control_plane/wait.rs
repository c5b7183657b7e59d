//! Waiting for what happens elsewhere, and the small facts of loopback. Nothing here decides how a test ends.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(25);

/// Looks until `look` gives a value; an error counts as "not yet". For what takes effect later, such as a new webhook.
///
/// # Errors
/// Nothing came before the deadline; the last error of `look` is the cause.
pub async fn wait_until<T>(
    what: &str,
    deadline: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let began = Instant::now();
    let mut last = None;
    loop {
        // One look that hangs must not outlast the deadline.
        let left = deadline.saturating_sub(began.elapsed()).max(PAUSE);
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => last = None,
            Ok(Err(error)) => last = Some(error),
            // What the look before said tells more.
            Err(_) => last = last.or_else(|| Some(anyhow!("the last look did not return"))),
        }
        if began.elapsed() >= deadline {
            let waited = format!("waited {deadline:?} for {what}");
            return Err(last.map_or_else(|| anyhow!("{waited}"), |error| error.context(waited.clone())));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A port of 127.0.0.1 that nobody listens on. Another process may take it before you do: be ready to try again.
///
/// # Errors
/// The system has no free port.
pub fn free_port() -> Result<u16> {
    let [port] = free_ports()?;
    Ok(port)
}

/// Several free ports, all different.
pub(super) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    // Held until all are known, or the same number might come twice.
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
        *port = listener.local_addr().context("looking for a free port")?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Whether an HTTP GET of `url` answers with a success, whatever certificate the server shows.
pub(super) async fn answers_ok(url: &str) -> Result<bool> {
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
    let client = kube::Client::try_from(config).context("making a client")?;
    get(&client, &path).await
}

/// Whether `client` may read `path` and gets a success.
pub(super) async fn get(client: &kube::Client, path: &str) -> Result<bool> {
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .context("making a request")?;
    let response = client.send(request).await.with_context(|| format!("reading {path}"))?;
    Ok(response.status().is_success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_ends_with_the_value_and_survives_errors_before_it() {
        let mut looks = 0;
        let value = wait_until("the third look", Duration::from_secs(30), async || {
            looks += 1;
            match looks {
                1 => Err(anyhow!("not yet")),
                2 => Ok(None),
                _ => Ok(Some(looks)),
            }
        })
        .await
        .unwrap();
        assert_eq!(value, 3);
    }

    #[tokio::test]
    async fn a_wait_in_vain_says_for_what_and_why() {
        let error = wait_until::<()>("rain", Duration::ZERO, async || Err(anyhow!("a clear sky")))
            .await
            .unwrap_err();
        assert_eq!(format!("{error:#}"), "waited 0ns for rain: a clear sky");
    }

    #[test]
    fn free_ports_differ() {
        let [a, b, c] = free_ports().unwrap();
        assert!(a != b && b != c && a != c);
    }
}
