//! Prometheus metrics. A tenant never reads the metrics of another.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;
use treering_core::TenantId;
use treering_core::ports::ConnectionUsage;
use treering_engine::{Durations, Engine, Measures, Result as EngineResult};

use crate::views::{LevelView, StatsView};

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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SearchLabels {
    tenant: Tenant,
    found: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Tenant(TenantId);

/// The statistics and measures of a tenant.
pub(super) struct TenantMetrics {
    stats: StatsView,
    measures: Measures,
    /// The connections to the server of the store, which all tenants share.
    connections: Option<ConnectionUsage>,
}

impl TenantMetrics {
    pub(super) fn of(engine: &Engine) -> EngineResult<Self> {
        let (measures, connections) = (engine.measures(), engine.connections());
        Ok(Self { stats: StatsView::of(engine)?, measures, connections })
    }
}

/// A histogram of durations that the engine measured.
#[derive(Debug, Default)]
struct DurationHistogram(Mutex<Durations>);

impl EncodeMetric for DurationHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let durations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (sum, count) = (durations.total_seconds, durations.count);
        encoder.encode_histogram::<NoLabelSet>(sum, count, &durations.buckets(), None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for DurationHistogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeLabelValue for Tenant {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.as_str().encode(encoder)
    }
}

/// The per-tenant gauges: name, help text and value.
const AMOUNTS: [(&str, &str, Amount); 12] = [
    ("conversations", "Number of conversations", |it| it.conversations.into()),
    ("turns", "Number of turns", |it| it.turns.into()),
    ("messages", "Number of messages", |it| it.messages.into()),
    ("tokens", "Tokens in all messages", |it| it.tokens as f64),
    ("jobs_queued", "Jobs waiting or running", |it| it.tree.jobs_queued.into()),
    ("jobs_failed", "Jobs that failed permanently", |it| it.tree.jobs_failed.into()),
    ("dirty_ratio", "Share of nodes to be regenerated", |it| it.tree.dirty_ratio),
    ("saved_ratio", "Share of tokens that the topmost nodes save", |it| it.tree.ratio),
    ("tokens_saved", "Tokens that the topmost nodes save", |it| it.tree.tokens_saved as f64),
    ("estimated_cost_savings_dollars", "Cost of the saved tokens as model input", |it| {
        it.tree.dollars_saved_per_context
    }),
    ("recall_lag_mean_seconds", "Mean time until the latest turns could be recalled", |it| {
        it.times.recall_lag.mean_ms / 1000.0
    }),
    (
        "recall_lag_max_seconds",
        "Longest time until one of the latest turns could be recalled",
        |it| it.times.recall_lag.max_ms / 1000.0,
    ),
];

/// Reads one gauge value from the statistics of a level.
type LevelAmount = fn(&LevelView) -> f64;

/// The gauges per tenant and level: name, help text and value.
const LEVEL_AMOUNTS: [(&str, &str, LevelAmount); 3] = [
    ("nodes", "Number of nodes by level", |it| it.nodes.into()),
    ("compression_ratio", "Share of tokens that a level removes", |it| it.ratio),
    ("average_generation_seconds", "Mean time to write a summary", |it| {
        it.generation_ms_mean / 1000.0
    }),
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
    pub(super) fn request(
        &self,
        method: &'static str,
        route: &str,
        status: u16,
        elapsed: Duration,
    ) {
        let labels = RouteLabels { method, route: route.to_owned() };
        self.seconds.get_or_create(&labels).observe(elapsed.as_secs_f64());
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
        tenants: &[(TenantId, TenantMetrics)],
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
            let store = Number::default();
            let bytes = tenants.first().and_then(|(_, metrics)| metrics.stats.store.bytes);
            store.set(bytes.unwrap_or(0) as f64);
            registry.register("store_bytes", "Size of the store in bytes", store);
            let usage = tenants.first().and_then(|(_, metrics)| metrics.connections);
            if let Some(usage) = usage {
                register_connections(&mut registry, usage);
            }
        }
        let events = self.events_of(tenants);
        registry.register("events", "Events committed to the store by any process", events);
        for (name, help, amount) in AMOUNTS {
            let family = Family::<TenantLabels, Number>::default();
            for (tenant, metrics) in tenants {
                let labels = TenantLabels { tenant: Tenant(tenant.clone()) };
                family.get_or_create(&labels).set(amount(&metrics.stats));
            }
            registry.register(name, help, family);
        }
        for (name, help, amount) in LEVEL_AMOUNTS {
            let family = Family::<LevelLabels, Number>::default();
            for (tenant, metrics) in tenants {
                for level in &metrics.stats.tree.levels {
                    let labels = LevelLabels { tenant: Tenant(tenant.clone()), level: level.level };
                    family.get_or_create(&labels).set(amount(level));
                }
            }
            registry.register(name, help, family);
        }
        register_measures(&mut registry, tenants);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn events_of(&self, tenants: &[(TenantId, TenantMetrics)]) -> Family<EventLabels, Counter> {
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

/// Registers the durations and counts that the engine measured in this process.
/// Registers the metrics of the connections to the server of the store.
fn register_connections(registry: &mut Registry, usage: ConnectionUsage) {
    let gauges = [
        ("limit", "Maximum number of connections to the store", usage.limit),
        ("open", "Open connections to the store", usage.open),
        ("idle", "Connections to the store that serve no call", usage.idle),
    ];
    for (name, help, value) in gauges {
        let gauge = Number::default();
        gauge.set(value as f64);
        registry.register(format!("store_connections_{name}"), help, gauge);
    }
    let counters = [
        ("connections_broken", "Connections to the store that broke", usage.broken),
        ("statements", "Statements sent to the store", usage.statements),
        ("round_trips", "Round trips to the store", usage.round_trips),
        ("conflicts", "Commits that were planned again", usage.conflicts),
    ];
    for (name, help, value) in counters {
        let counter: Counter = Counter::default();
        counter.inc_by(value);
        registry.register(format!("store_{name}"), help, counter);
    }
    let waited = Counter::<f64, AtomicU64>::default();
    waited.inc_by(usage.waited_micros as f64 / 1e6);
    registry.register("store_wait_seconds", "Time spent waiting for the store", waited);
}

fn register_measures(registry: &mut Registry, tenants: &[(TenantId, TenantMetrics)]) {
    let store = Family::<TenantLabels, DurationHistogram>::default();
    let search = Family::<TenantLabels, DurationHistogram>::default();
    let summary = Family::<LevelLabels, DurationHistogram>::default();
    let searches = Family::<SearchLabels, Counter>::default();
    let set = |metric: &DurationHistogram, durations: &Durations| {
        metric.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(durations);
    };
    for (tenant, TenantMetrics { measures, .. }) in tenants {
        let tenant = Tenant(tenant.clone());
        let labels = TenantLabels { tenant: tenant.clone() };
        set(&store.get_or_create(&labels), &measures.store_turn);
        set(&search.get_or_create(&labels), &measures.search);
        for (level, durations) in &measures.summarize {
            let labels = LevelLabels { tenant: tenant.clone(), level: *level };
            set(&summary.get_or_create(&labels), durations);
        }
        for (found, count) in
            [("true", measures.searches_found), ("false", measures.searches_empty)]
        {
            let labels = SearchLabels { tenant: tenant.clone(), found };
            searches.get_or_create(&labels).inc_by(count);
        }
    }
    registry.register("store_turn_seconds", "Time to store a turn or messages", store);
    registry.register("search_seconds", "Time to search", search);
    registry.register("summary_seconds", "Time to write a summary, by level", summary);
    registry.register("searches", "Searches, by whether they found something", searches);
}

fn histogram() -> Histogram {
    Histogram::new(Durations::LIMITS)
}

/// The resident memory of this process. `None` if the system does not report it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
