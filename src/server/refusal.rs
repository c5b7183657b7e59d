//! Answers of the server itself, when there is no verdict: the HTTP code, and a `Status` as Kubernetes writes it. The
//! API server then does what the webhook's failure policy says, and shows the message.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Not a path of a webhook.
    NoSuchRoute,
    /// Not a POST.
    Method,
    /// Not JSON by its own account.
    ContentType,
    /// Longer than the limit.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// The body broke off.
    Broken,
    /// Not an `AdmissionReview`.
    NoReview(String),
    /// As many reviews or bytes at once as there may be.
    Busy,
    /// It arrived, but nobody waits for the answer any more.
    TooLate,
    /// A defect of Capstan.
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

    /// The `reason` of a `Status`, from the list of the API machinery (`metav1.StatusReason`).
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
            Self::NoSuchRoute => "capstan serves no webhook on this path",
            Self::Method => "a review is sent with POST",
            Self::ContentType => "a review is sent as application/json",
            Self::TooLarge => "the review is larger than 7 MiB",
            Self::TooSlow => "the review did not arrive in time",
            Self::Broken => "the review broke off before its end",
            Self::NoReview(message) => message,
            Self::Busy => "capstan is judging as many reviews as it may at once; try again",
            Self::TooLate => "capstan got to the review after its deadline",
            Self::Defect => "capstan failed on this review; its log says where",
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
            // The API server's client waits that long and repeats the call, all within the webhook's timeout.
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if *self == Self::Method {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}
