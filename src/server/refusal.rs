//! Answers that are not passages: a status and a reason, in the shape that FastAPI (Search-R1's server) gives it.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    reason: String,
}

impl Refusal {
    pub fn new(status: StatusCode, reason: impl ToString) -> Self {
        Self { status, reason: reason.to_string() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        /// Seconds after which a busy server may be asked again.
        const LATER: &str = "1";
        let json = json!({ "detail": self.reason }).to_string();
        let mut response = (self.status, [(header::CONTENT_TYPE, "application/json")], json).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(LATER));
        }
        response
    }
}
