//! Prometheus metrics. A tenant never reads the metrics of another.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use treering_core::TenantId;

use crate::views::StatsView;

/// Histogram buckets for request durations, in seconds.
const SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

type Number = Gauge<f64, AtomicU64>;
/// Reads one gauge value from a tenant's statistics.
type Amount = fn(&StatsView) -> f64;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    tenant: Tenant,
    event: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TenantLabels {
    tenant: Tenant,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabels {
    tenant: Tenant,
    level: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Tenant(TenantId);

impl EncodeLabelValue for Tenant {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.as_str().encode(encoder)
    }
}

/// The per-tenant gauges: name, help text and value.
const AMOUNTS: [(&str, &str, Amount); 9] = [
    ("conversations", "Number of conversations", |it| it.conversations.into()),
    ("turns", "Number of turns", |it| it.turns.into()),
    ("messages", "Number of messages", |it| it.messages.into()),
    ("tokens", "Tokens in all messages", |it| it.tokens as f64),
    ("store_bytes", "Size of the store in bytes", |it| it.store.bytes as f64),
    ("jobs_queued", "Jobs waiting or running", |it| it.tree.jobs_queued.into()),
    ("jobs_failed", "Jobs that failed permanently", |it| it.tree.jobs_failed.into()),
    ("dirty_ratio", "Share of nodes to be rewritten", |it| it.tree.dirty_ratio),
    ("saved_ratio", "Share of tokens that the topmost nodes save", |it| it.tree.ratio),
];

/// Counters of this process.
pub(super) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
    events: Mutex<HashMap<EventLabels, Counter>>,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        Self { requests: Family::default(), seconds, events: Mutex::default() }
    }

    /// Records a request.
    pub(super) fn request(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let labels = RouteLabels { method, route: route.to_owned() };
        self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { method, route: labels.route, status }).inc();
    }

    /// Counts an event of a tenant.
    pub(super) fn count(&self, tenant: &TenantId, event: &'static str) {
        let labels = EventLabels { tenant: Tenant(tenant.clone()), event };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).entry(labels).or_default().inc();
    }

    /// Renders the counters and gauges of these tenants, and of no others, in the OpenMetrics
    /// text format. With `process`, includes the metrics of the process, which all tenants share.
    pub(super) fn render(
        &self,
        tenants: &[(TenantId, StatsView)],
        process: bool,
    ) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix("treering");
        if process {
            registry.register("http_requests", "HTTP requests", self.requests.clone());
            registry.register(
                "http_request_seconds",
                "HTTP request duration in seconds",
                self.seconds.clone(),
            );
            let resident = Number::default();
            resident.set(resident_bytes().unwrap_or(0) as f64);
            registry.register(
                "resident_bytes",
                "Resident memory of the process in bytes",
                resident,
            );
        }
        let events = self.events_of(tenants);
        registry.register("events", "Events committed to the store by any process", events);
        for (name, about, amount) in AMOUNTS {
            let family = Family::<TenantLabels, Number>::default();
            for (tenant, stats) in tenants {
                let labels = TenantLabels { tenant: Tenant(tenant.clone()) };
                family.get_or_create(&labels).set(amount(stats));
            }
            registry.register(name, about, family);
        }
        let nodes = Family::<LevelLabels, Number>::default();
        for (tenant, stats) in tenants {
            for level in &stats.tree.levels {
                let labels = LevelLabels { tenant: Tenant(tenant.clone()), level: level.level };
                nodes.get_or_create(&labels).set(level.nodes.into());
            }
        }
        registry.register("nodes", "Number of nodes by level", nodes);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn events_of(&self, tenants: &[(TenantId, StatsView)]) -> Family<EventLabels, Counter> {
        let family = Family::<EventLabels, Counter>::default();
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let is_requested =
            |labels: &EventLabels| tenants.iter().any(|(tenant, _)| *tenant == labels.tenant.0);
        for (labels, count) in events.iter().filter(|(labels, _)| is_requested(labels)) {
            family.get_or_create(labels).inc_by(count.get());
        }
        family
    }
}

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

/// The resident memory of this process. `None` if the system does not report it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
