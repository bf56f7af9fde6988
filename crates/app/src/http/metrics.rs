//! Metrics, as Prometheus reads them.

use std::sync::atomic::AtomicU64;
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

/// The bounds of the times of requests, in seconds.
const SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

type Number = Gauge<f64, AtomicU64>;
/// What a tenant has of something.
type Amount = fn(&StatsView) -> f64;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: String,
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

/// The metrics of a process.
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
    events: Family<EventLabels, Counter>,
    amounts: Vec<(Family<TenantLabels, Number>, Amount)>,
    nodes: Family<LevelLabels, Number>,
    resident: Number,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("treering");
        let requests = Family::default();
        registry.register("http_requests", "Requests that were answered", requests.clone());
        let seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        registry.register("http_request_seconds", "How long requests took", seconds.clone());
        let events = Family::default();
        registry.register("events", "What came into the store, by whichever process", events.clone());
        let nodes = Family::default();
        registry.register("nodes", "Nodes at each level", nodes.clone());
        let resident = Number::default();
        registry.register("resident_bytes", "Memory that the process has", resident.clone());
        let named: [(&str, &str, Amount); 9] = [
            ("conversations", "Conversations", |it| it.conversations.into()),
            ("turns", "Turns", |it| it.turns.into()),
            ("messages", "Messages", |it| it.messages.into()),
            ("tokens", "Tokens of all messages", |it| it.tokens as f64),
            ("store_bytes", "Size of the store", |it| it.store.bytes as f64),
            ("jobs_queued", "Jobs that wait or run", |it| it.tree.jobs_queued.into()),
            ("jobs_failed", "Jobs that were given up", |it| it.tree.jobs_failed.into()),
            ("dirty_ratio", "Share of the nodes to be written anew", |it| it.tree.dirty_ratio),
            ("saved_ratio", "How much smaller the highest nodes are than what they cover", |it| {
                it.tree.ratio
            }),
        ];
        let mut amounts = Vec::new();
        for (name, about, amount) in named {
            let family = Family::<TenantLabels, Number>::default();
            registry.register(name, about, family.clone());
            amounts.push((family, amount));
        }
        Self { registry, requests, seconds, events, amounts, nodes, resident }
    }

    /// Counts a request.
    pub(super) fn request(&self, method: &str, route: &str, status: u16, took: Duration) {
        let (method, route) = (method.to_owned(), route.to_owned());
        let labels = RouteLabels { method: method.clone(), route: route.clone() };
        self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { method, route, status }).inc();
    }

    /// Counts something that came into the store.
    pub(super) fn count(&self, tenant: &TenantId, event: &'static str) {
        self.events.get_or_create(&EventLabels { tenant: Tenant(tenant.clone()), event }).inc();
    }

    /// Everything, in the text form, with what a tenant has now.
    pub(super) fn render(&self, tenant: &TenantId, stats: &StatsView) -> Result<String, std::fmt::Error> {
        let tenant = Tenant(tenant.clone());
        for (family, amount) in &self.amounts {
            family.get_or_create(&TenantLabels { tenant: tenant.clone() }).set(amount(stats));
        }
        for level in &stats.tree.levels {
            let labels = LevelLabels { tenant: tenant.clone(), level: level.level };
            self.nodes.get_or_create(&labels).set(level.nodes.into());
        }
        self.resident.set(resident_bytes().unwrap_or(0) as f64);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

/// The memory that this process has, where the system says.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
