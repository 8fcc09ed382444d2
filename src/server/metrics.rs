//! What `/metrics` tells Prometheus.

use axum::http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    latency: Histogram,
    pub queries: Counter,
    pub under_way: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    code: u16,
}

impl Metrics {
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    pub fn new() -> Self {
        // From 1 ms to 16 s.
        let latency = Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let (requests, queries, under_way) = (Family::default(), Counter::default(), Gauge::default());
        let mut registry = Registry::with_prefix("rex");
        registry.register("requests", "Requests to /retrieve, by status", requests.clone());
        registry.register("queries", "Queries answered", queries.clone());
        registry.register("requests_under_way", "Requests served or waiting", under_way.clone());
        registry.register_with_unit(
            "request",
            "Time from a request's arrival to its answer",
            Unit::Seconds,
            latency.clone(),
        );
        Self { registry, requests, latency, queries, under_way }
    }

    pub fn answered(&self, status: StatusCode, took: Duration) {
        self.requests.get_or_create(&Answered { code: status.as_u16() }).inc();
        self.latency.observe(took.as_secs_f64());
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes any text");
        text
    }
}
