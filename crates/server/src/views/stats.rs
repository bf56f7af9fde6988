//! Views of the store's size and of tree statistics.

use serde::Serialize;
use treering_core::ConversationId;
use treering_core::ports::LevelTotals;
use treering_engine::{Engine, Result, TreeStats};

use super::ModelView;

/// Store and tree statistics of a tenant.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct StatsView {
    /// The tenant.
    pub tenant: String,
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
    /// Usage and cost per model.
    pub spend: Vec<ModelView>,
}

/// Tree statistics and model cost of a conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ConversationStatsView {
    /// Tree statistics.
    #[serde(flatten)]
    pub tree: TreeStatsView,
    /// Usage and cost per model.
    pub spend: Vec<ModelView>,
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
    pub stand_ins: u32,
    /// Nodes without a parent.
    pub uncovered: u32,
    /// Characters in all nodes.
    pub chars: u64,
    /// Tokens in all nodes.
    pub tokens: u64,
    /// Characters in the sources.
    pub source_chars: u64,
    /// 1 − chars / source_chars.
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
    /// Size in bytes.
    pub bytes: u64,
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
        Ok(Self {
            tenant: engine.tenant().to_string(),
            conversations: stats.conversations,
            turns: stats.totals.turns,
            messages: stats.totals.messages,
            tool_calls: stats.totals.tool_calls,
            chars: stats.totals.chars,
            tokens: stats.totals.tokens,
            tokenizer: stats.tokenizer,
            store: StoreView {
                kind: stats.store.kind,
                location: stats.store.location,
                schema_version: stats.store.schema_version,
                bytes: stats.store.bytes,
                writes_refused: writes_refused(engine),
            },
            tree: TreeStatsView::of(&engine.tree_stats(None)?),
            spend: ModelView::all(engine, None)?,
        })
    }
}

impl ConversationStatsView {
    /// Reads the statistics of a conversation.
    pub fn of(engine: &Engine, conversation: ConversationId) -> Result<Self> {
        Ok(Self {
            tree: TreeStatsView::of(&engine.tree_stats(Some(conversation))?),
            spend: ModelView::all(engine, Some(conversation))?,
        })
    }
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
            stand_ins: level.fallbacks,
            uncovered: level.uncovered,
            chars: level.chars,
            tokens: level.tokens,
            source_chars: level.source_chars,
            ratio: 1.0 - level.chars as f64 / level.source_chars.max(1) as f64,
            generation_ms_mean: level.took_ms as f64 / nodes,
            generation_ms_max: level.slowest_ms,
            grounded_mean: level.grounded / nodes,
            retained_mean: level.retained / nodes,
        }
    }
}
