//! Responses of the server itself when there is no verdict: the HTTP code and a Kubernetes
//! `Status`. The API server then applies the webhook's failure policy and shows the message.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

/// Why a request gets no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The path belongs to no webhook.
    NoSuchRoute,
    /// The method is not POST.
    Method,
    /// The content type is not JSON.
    ContentType,
    /// The body is larger than the limit.
    TooLarge,
    /// The body did not arrive before the deadline.
    TooSlow,
    /// The connection failed before the end of the body.
    Broken,
    /// The body is not an `AdmissionReview`.
    NoReview(String),
    /// The limit of concurrent reviews or bytes is reached.
    Busy,
    /// The body arrived, but the deadline has passed.
    TooLate,
    /// The review panicked, which is a defect of Capstan.
    Defect,
}

impl Refusal {
    pub(super) fn code(&self) -> StatusCode {
        match self {
            Self::NoSuchRoute => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken | Self::NoReview(_) => StatusCode::BAD_REQUEST,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::TooLate => StatusCode::SERVICE_UNAVAILABLE,
            Self::Defect => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The `reason` of the `Status`, one of the API machinery's `metav1.StatusReason` values.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchRoute => "NotFound",
            Self::Method => "MethodNotAllowed",
            Self::ContentType => "UnsupportedMediaType",
            Self::TooLarge => "RequestEntityTooLarge",
            Self::TooSlow => "Timeout",
            Self::Broken | Self::NoReview(_) => "BadRequest",
            Self::Busy => "TooManyRequests",
            Self::TooLate => "ServiceUnavailable",
            Self::Defect => "InternalError",
        }
    }

    fn message(&self) -> &str {
        match self {
            Self::NoSuchRoute => "the path must be that of a registered webhook; see `capstan manifests webhooks`",
            Self::Method => "the method must be POST",
            Self::ContentType => "the content type must be application/json",
            Self::TooLarge => "the review must not be larger than 7 MiB",
            Self::TooSlow => "the review must arrive before the deadline; it did not",
            Self::Broken => "the review must be complete; the connection failed before its end",
            Self::NoReview(message) => message,
            Self::Busy => "the limit of concurrent reviews is reached; try again",
            Self::TooLate => "the deadline passed before capstan gave a verdict; try again",
            Self::Defect => "capstan panicked on this review, which is a defect; its log names the place in the code",
        }
    }

    pub(super) fn response(&self) -> Response<Body> {
        let code = self.code();
        let status = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message(), "reason": self.reason(), "code": code.as_u16(),
        });
        let mut response = Response::new(Body::from(status.to_string()));
        *response.status_mut() = code;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if *self == Self::Busy {
            // The API server's client waits for that time and repeats the call within the webhook's
            // timeout.
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if *self == Self::Method {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}
