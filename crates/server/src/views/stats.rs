//! Views of the store's size, of tree statistics and of the metrics of the seeds.

use serde::Serialize;
use serde_json::{Map, Value, json};
use treering_core::ports::LevelTotals;
use treering_core::{Conversation, ConversationId, ConversationTotals};
use treering_engine::{Durations, Engine, Result, TreeStats};

use super::ModelView;

/// Store and tree statistics of a tenant, or of one conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct StatsView {
    /// The tenant.
    pub tenant: String,
    /// Slug of the conversation; absent in the statistics of the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// Number of conversations.
    pub conversations: u32,
    /// Number of turns.
    pub turns: u32,
    /// Number of messages.
    pub messages: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Characters in all messages.
    pub chars: u64,
    /// Tokens in all messages.
    pub tokens: u64,
    /// The tokenizer that counted the tokens.
    pub tokenizer: String,
    /// The store.
    pub store: StoreView,
    /// Tree statistics.
    pub tree: TreeStatsView,
    /// Compression of the conversation; absent in the statistics of the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<CompressionView>,
    /// Durations of operations, and the share of searches that found something.
    pub times: TimesView,
    /// Usage and cost per model.
    pub spend: Vec<ModelView>,
}

/// The `CompressionMetrics` of a conversation, by their names in seed 002: `sessionId`,
/// `totalMessages`, `l1Count`, `l1CompressionRatio`, `averageL1GenerationTime` (milliseconds) and
/// so on for at least three levels, `overallCompressionRatio`, `tokensSavedByCompression`,
/// `estimatedCostSavings` (US dollars per context that would include everything) and, with nodes,
/// `summaryQualityScore` and `informationLossScore`. Ratios are shares of tokens removed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct CompressionView(pub Map<String, Value>);

/// Durations of operations. All but `recall_lag` are those of this process since its start.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TimesView {
    /// Storing a turn or messages.
    pub store_turn: DurationsView,
    /// Searching.
    pub search: DurationsView,
    /// Number of searches that found something.
    pub searches_found: u64,
    /// Number of searches that found nothing.
    pub searches_empty: u64,
    /// Share of searches that found something; absent without searches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_share: Option<f64>,
    /// From storing a turn to the end of the jobs that the next context waits for, of the latest
    /// turns that had such jobs, from the log.
    pub recall_lag: DurationsView,
}

/// Durations of an operation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct DurationsView {
    /// Number of operations.
    pub count: u64,
    /// Mean duration in milliseconds.
    pub mean_ms: f64,
    /// Longest duration in milliseconds.
    pub max_ms: f64,
}

/// Tree statistics.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TreeStatsView {
    /// Every level that has nodes.
    pub levels: Vec<LevelView>,
    /// 1 − tokens_kept / tokens_covered.
    pub ratio: f64,
    /// Tokens of the messages that nodes cover.
    pub tokens_covered: u64,
    /// Tokens of the topmost nodes.
    pub tokens_kept: u64,
    /// tokens_covered − tokens_kept.
    pub tokens_saved: u64,
    /// Cost in US dollars of the saved tokens as model input.
    pub dollars_saved_per_context: f64,
    /// Jobs waiting or running.
    pub jobs_queued: u32,
    /// Failed jobs.
    pub jobs_failed: u32,
    /// Share of nodes to be rewritten.
    pub dirty_ratio: f64,
}

/// Statistics of one tree level.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LevelView {
    /// The level.
    pub level: u8,
    /// Number of nodes.
    pub nodes: u32,
    /// Nodes to be rewritten.
    pub dirty: u32,
    /// Nodes written by the fallback, to be rewritten by a model.
    pub fallback_nodes: u32,
    /// Nodes without a parent.
    pub uncovered: u32,
    /// Characters in all nodes.
    pub chars: u64,
    /// Tokens in all nodes.
    pub tokens: u64,
    /// Characters in the sources.
    pub source_chars: u64,
    /// Tokens in the sources: the messages, or the nodes of the level below.
    pub source_tokens: u64,
    /// 1 − tokens / source_tokens; 0 without sources.
    pub ratio: f64,
    /// Mean generation time.
    pub generation_ms_mean: f64,
    /// Longest generation time.
    pub generation_ms_max: u64,
    /// Mean grounded share.
    pub grounded_mean: f64,
    /// Mean retained share.
    pub retained_mean: f64,
}

/// The input price used to estimate savings, typical of many models.
pub const DOLLARS_PER_MILLION_TOKENS: f64 = 3.0;

/// The store.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct StoreView {
    /// The kind of store.
    pub kind: &'static str,
    /// The folder or address of the store.
    pub location: String,
    /// Schema version.
    pub schema_version: u32,
    /// Size in bytes, of all tenants together; absent unless the caller operates the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The reason this process refuses all writes until restart, and the remedy.
    pub writes_refused: Option<String>,
}

/// The reason the store refuses all writes of this process, and the remedy.
pub(super) fn writes_refused(engine: &Engine) -> Option<String> {
    let failure = engine.failure()?;
    let hint = failure.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    Some(format!("{failure}{hint}"))
}

impl StatsView {
    /// Reads the statistics of a tenant.
    pub fn of(engine: &Engine) -> Result<Self> {
        let stats = engine.stats()?;
        Self::read(engine, None, stats.conversations, stats.totals)
    }

    /// Reads the statistics of a conversation.
    pub fn of_conversation(engine: &Engine, conversation: &Conversation) -> Result<Self> {
        let mut view = Self::read(engine, Some(conversation.id), 1, conversation.totals)?;
        view.conversation = Some(conversation.slug.clone());
        view.compression = Some(CompressionView::of(conversation, &view.tree));
        Ok(view)
    }

    fn read(
        engine: &Engine,
        id: Option<ConversationId>,
        conversations: u32,
        totals: ConversationTotals,
    ) -> Result<Self> {
        let stats = engine.stats()?;
        Ok(Self {
            tenant: engine.tenant().to_string(),
            conversation: None,
            conversations,
            turns: totals.turns,
            messages: totals.messages,
            tool_calls: totals.tool_calls,
            chars: totals.chars,
            tokens: totals.tokens,
            tokenizer: stats.tokenizer,
            store: StoreView {
                kind: stats.store.kind,
                location: stats.store.location,
                schema_version: stats.store.schema_version,
                bytes: Some(stats.store.bytes),
                writes_refused: writes_refused(engine),
            },
            tree: TreeStatsView::of(&engine.tree_stats(id)?),
            compression: None,
            times: TimesView::of(engine, id)?,
            spend: ModelView::all(engine, id)?,
        })
    }
}

impl CompressionView {
    /// The lowest number of levels that are reported, with zeros where there are no nodes.
    const MIN_LEVELS: u8 = 3;

    fn of(conversation: &Conversation, tree: &TreeStatsView) -> Self {
        let mut fields = Map::new();
        let mut put = |name: String, value: Value| fields.insert(name, value);
        put("sessionId".into(), json!(conversation.id.to_string()));
        put("totalMessages".into(), json!(conversation.totals.messages));
        let top = tree.levels.iter().map(|level| level.level).max().unwrap_or(0);
        for number in 1..=top.max(Self::MIN_LEVELS) {
            let level = tree.levels.iter().find(|level| level.level == number);
            put(format!("l{number}Count"), json!(level.map_or(0, |level| level.nodes)));
            let ratio = level.map_or(0.0, |level| level.ratio);
            put(format!("l{number}CompressionRatio"), json!(ratio));
            let mean = level.map_or(0.0, |level| level.generation_ms_mean);
            put(format!("averageL{number}GenerationTime"), json!(mean));
        }
        put("overallCompressionRatio".into(), json!(tree.ratio));
        put("tokensSavedByCompression".into(), json!(tree.tokens_saved));
        put("estimatedCostSavings".into(), json!(tree.dollars_saved_per_context));
        let nodes: u32 = tree.levels.iter().map(|level| level.nodes).sum();
        let mean = |of: fn(&LevelView) -> f64| {
            let sum: f64 = tree.levels.iter().map(|it| of(it) * f64::from(it.nodes)).sum();
            sum / f64::from(nodes)
        };
        if nodes > 0 {
            put("summaryQualityScore".into(), json!(mean(|level| level.grounded_mean)));
            let loss = 1.0 - mean(|level| level.retained_mean);
            put("informationLossScore".into(), json!(loss));
        }
        Self(fields)
    }
}

impl TimesView {
    fn of(engine: &Engine, id: Option<ConversationId>) -> Result<Self> {
        let measures = engine.measures();
        let (found, empty) = (measures.searches_found, measures.searches_empty);
        let searches = found + empty;
        Ok(Self {
            store_turn: DurationsView::of(&measures.store_turn),
            search: DurationsView::of(&measures.search),
            searches_found: found,
            searches_empty: empty,
            found_share: (searches > 0).then(|| found as f64 / searches as f64),
            recall_lag: DurationsView::of(&engine.recall_lag(id)?),
        })
    }
}

impl DurationsView {
    fn of(durations: &Durations) -> Self {
        Self {
            count: durations.count,
            mean_ms: durations.mean_seconds() * 1000.0,
            max_ms: durations.max_seconds * 1000.0,
        }
    }
}

/// The share of the source that a text leaves out; 0 without a source.
fn removed(kept: u64, source: u64) -> f64 {
    if source == 0 { 0.0 } else { 1.0 - kept as f64 / source as f64 }
}

impl TreeStatsView {
    /// Builds the view of tree statistics.
    #[must_use]
    pub fn of(stats: &TreeStats) -> Self {
        let (covered, kept) = stats.tokens();
        let saved = covered.saturating_sub(kept);
        Self {
            levels: stats.levels.iter().map(LevelView::of).collect(),
            ratio: stats.ratio(),
            tokens_covered: covered,
            tokens_kept: kept,
            tokens_saved: saved,
            dollars_saved_per_context: saved as f64 * DOLLARS_PER_MILLION_TOKENS / 1e6,
            jobs_queued: stats.queued,
            jobs_failed: stats.dead,
            dirty_ratio: stats.dirty_ratio(),
        }
    }
}

impl LevelView {
    fn of(level: &LevelTotals) -> Self {
        let nodes = f64::from(level.nodes.max(1));
        Self {
            level: level.level,
            nodes: level.nodes,
            dirty: level.dirty,
            fallback_nodes: level.fallbacks,
            uncovered: level.uncovered,
            chars: level.chars,
            tokens: level.tokens,
            source_chars: level.source_chars,
            source_tokens: level.source_tokens,
            ratio: removed(level.tokens, level.source_tokens),
            generation_ms_mean: level.took_ms as f64 / nodes,
            generation_ms_max: level.slowest_ms,
            grounded_mean: level.grounded / nodes,
            retained_mean: level.retained / nodes,
        }
    }
}
