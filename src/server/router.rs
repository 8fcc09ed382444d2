//! Routes, and the way of a request through the gates.

use super::limits::Limits;
use super::metrics::Metrics;
use super::refusal::Refusal;
use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, Request, State, rejection::BytesRejection};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use rex_rollout::Retriever;
use rex_rollout::retrieval::contract;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio::{task, time};

struct Service {
    retriever: Box<dyn Retriever>,
    limits: Limits,
    metrics: Metrics,
    /// One permit for each request that may be under way.
    admission: Semaphore,
    /// One for each that may be searched for at once.
    places: Arc<Semaphore>,
}

/// The routes over a retriever.
pub fn router(retriever: Box<dyn Retriever>, limits: Limits) -> Router {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let service = Arc::new(Service {
        retriever,
        limits,
        metrics: Metrics::new(),
        admission: Semaphore::new(limits.max_requests),
        places: Arc::new(Semaphore::new(cores)),
    });
    let gates = middleware::from_fn_with_state(service.clone(), admit);
    Router::new()
        .route("/retrieve", post(retrieve))
        .route_layer(DefaultBodyLimit::max(limits.body_bytes()))
        .route_layer(gates)
        .route("/health", get(async || "ok\n"))
        .route("/metrics", get(metrics))
        .method_not_allowed_fallback(async || {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "POST to /retrieve; GET /health and /metrics")
        })
        .fallback(async || Refusal::new(StatusCode::NOT_FOUND, "there are /retrieve, /health and /metrics"))
        .with_state(service)
}

/// Counts the request, refuses it where there are too many, and gives it up when it takes too long.
async fn admit(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let patience = service.limits.patience();
    let announced = request.body().size_hint().lower();
    let response = match service.admission.try_acquire() {
        _ if announced > service.limits.body_bytes() as u64 => too_large(service.limits).into_response(),
        Err(_) => {
            let reason = format!("busy: {} requests are under way", service.limits.max_requests);
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
        }
        Ok(_admitted) => time::timeout(patience, next.run(request)).await.unwrap_or_else(|_| {
            let reason = format!("gave up after {} s", patience.as_secs());
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
        }),
    };
    service.metrics.answered(response.status(), start.elapsed());
    response
}

async fn retrieve(
    State(service): State<Arc<Service>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let failed = |reason: String| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, reason);
    let limits = service.limits;
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(limits),
        status => Refusal::new(status, rejection.body_text()),
    })?;
    let request = parse(&body, limits)?;
    drop(body);

    let place = service.places.clone().acquire_owned().await.map_err(|error| failed(error.to_string()))?;
    let searched = task::spawn_blocking(move || {
        // Held until the work is done, even where the client has gone.
        let _place = place;
        let queries: Vec<&str> = request.queries.iter().map(String::as_str).collect();
        let topk = request.topk.unwrap_or(limits.topk).min(limits.max_topk);
        let found = service.retriever.retrieve(&queries, topk).map_err(|error| error.to_string())?;
        service.metrics.queries.inc_by(queries.len() as u64);
        let response = contract::Response::new(found, request.return_scores);
        serde_json::to_vec(&response).map_err(|error| error.to_string())
    });
    let json = searched.await.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

fn too_large(limits: Limits) -> Refusal {
    let reason = format!("the body exceeds {} MiB; send fewer queries at once", limits.max_body);
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, reason)
}

/// A body of the contract, whatever its content type says.
fn parse(body: &[u8], limits: Limits) -> Result<contract::Request, Refusal> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let request: contract::Request = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let status = match error.inner().classify() {
            serde_json::error::Category::Data => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::BAD_REQUEST,
        };
        Refusal::new(status, error)
    })?;
    json.end().map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error))?;
    if request.queries.len() > limits.max_queries {
        let (found, most) = (request.queries.len(), limits.max_queries);
        let reason = format!("{found} queries in one request, at most {most}; send them in several");
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, reason));
    }
    Ok(request)
}

async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let under_way = service.limits.max_requests - service.admission.available_permits();
    service.metrics.under_way.set(under_way as i64);
    ([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], service.metrics.text()).into_response()
}
