//! Traces over OTLP: one span for each review and for each reconcile. Only a program with the cargo
//! feature `opentelemetry` contains this.
//!
//! A span has the fields of a log line, and never a part of an object. A collector that is slow or
//! absent must never delay a review: spans wait in a bounded queue, and are dropped when it is
//! full.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// The target of all spans. The filter of the logs does not concern them.
const TARGET: &str = "capstan::traces";
/// How long the end of the process waits for the last spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Exports the last spans when it is dropped. The runtime must still run then.
#[derive(Debug)]
#[must_use = "the last spans are exported when this is dropped"]
pub struct Traces(SdkTracerProvider);

impl Drop for Traces {
    fn drop(&mut self) {
        // A collector that does not respond must not hold up the end of the process.
        let _ignored = self.0.shutdown_with_timeout(FLUSH_TIMEOUT);
    }
}

/// The layer that exports spans to a collector, and what ends it. It must be called in a runtime,
/// which keeps the connection.
///
/// # Errors
/// The endpoint is not an address of a collector without TLS.
pub(super) fn layer<S>(endpoint: &str) -> anyhow::Result<(impl Layer<S> + Send + Sync + use<S>, Traces)>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    ensure!(
        endpoint.starts_with("http://"),
        "--otlp-endpoint must be the address of a collector without TLS, such as http://127.0.0.1:4317: {endpoint}"
    );
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .build()
        .with_context(|| format!("--otlp-endpoint {endpoint}"))?;
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name("capstan").build())
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("capstan"))
        .with_filter(filter_fn(|metadata| metadata.target() == TARGET));
    Ok((layer, Traces(provider)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body_util::{BodyExt as _, StreamBody};
    use hyper::body::{Frame, Incoming};
    use hyper::service::service_fn;
    use hyper::{HeaderMap, Request, Response};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Accepts one export, and sends its path and its content.
    async fn export(
        request: Request<Incoming>,
        exports: UnboundedSender<(String, Bytes)>,
    ) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        exports.send((path, body)).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        let frames = [Frame::data(Bytes::from_static(&[0; 5])), Frame::trailers(trailers)];
        let body = StreamBody::new(futures::stream::iter(frames.map(Ok)));
        Ok(Response::builder()
            .header("content-type", "application/grpc")
            .body(body)
            .unwrap())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_span_is_exported_and_spans_of_others_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (sender, mut exports) = unbounded_channel();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(move |request| export(request, sender.clone()));
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            server.serve_connection(TokioIo::new(stream), service).await.unwrap();
        });
        let (layer, traces) = layer(&endpoint).unwrap();
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::trace_span!(target: "capstan::traces", "review", route = "/validate");
            drop(span);
            drop(tracing::error_span!("of another target"));
        });
        tokio::task::spawn_blocking(move || drop(traces)).await.unwrap();
        let (path, body) = exports.recv().await.unwrap();
        assert_eq!(path, "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains("review") && text.contains("/validate"), "{text}");
        assert!(!text.contains("of another target"), "{text}");
    }

    #[tokio::test]
    async fn a_collector_with_tls_is_refused() {
        let refused = layer::<tracing_subscriber::Registry>("https://127.0.0.1:4317");
        assert!(refused.is_err());
    }
}
