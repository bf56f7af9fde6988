//! How much there is, and what the trees come to.

use serde::Serialize;
use treering_core::ConversationId;
use treering_core::ports::LevelTotals;
use treering_engine::{Engine, Result, TreeStats};

use super::ModelView;

/// How much there is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct StatsView {
    /// Whose it is.
    pub tenant: String,
    /// Conversations.
    pub conversations: u32,
    /// Turns.
    pub turns: u32,
    /// Messages.
    pub messages: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Characters.
    pub chars: u64,
    /// Tokens.
    pub tokens: u64,
    /// What counted the tokens.
    pub tokenizer: String,
    /// Where it is kept.
    pub store: StoreView,
    /// What the trees come to.
    pub tree: TreeStatsView,
    /// What each model has cost.
    pub spend: Vec<ModelView>,
}

/// What the tree of a conversation comes to, and what it has cost.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ConversationStatsView {
    /// What its tree comes to.
    #[serde(flatten)]
    pub tree: TreeStatsView,
    /// What each model has cost for it.
    pub spend: Vec<ModelView>,
}

/// What trees come to.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TreeStatsView {
    /// Each level that has nodes.
    pub levels: Vec<LevelView>,
    /// 1 − highest nodes / messages they cover, in tokens.
    pub ratio: f64,
    /// Tokens of the messages that nodes cover.
    pub tokens_covered: u64,
    /// Tokens of the highest nodes over them.
    pub tokens_kept: u64,
    /// The difference.
    pub tokens_saved: u64,
    /// What that comes to in a context that would hold it all, in US dollars.
    pub dollars_saved_per_context: f64,
    /// Jobs that wait or run.
    pub jobs_queued: u32,
    /// Jobs that were given up.
    pub jobs_failed: u32,
    /// Share of the nodes that have to be written anew.
    pub dirty_ratio: f64,
}

/// What a level of the trees comes to.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LevelView {
    /// The level.
    pub level: u8,
    /// Nodes.
    pub nodes: u32,
    /// Nodes that have to be written anew.
    pub dirty: u32,
    /// Nodes that a stand-in wrote and a model has to write yet.
    pub stand_ins: u32,
    /// Nodes that nothing higher covers.
    pub uncovered: u32,
    /// Characters.
    pub chars: u64,
    /// Tokens.
    pub tokens: u64,
    /// Characters they were written from.
    pub source_chars: u64,
    /// 1 − summary / what it was written from, in characters.
    pub ratio: f64,
    /// How long writing one took.
    pub generation_ms_mean: f64,
    /// How long the slowest took.
    pub generation_ms_max: u64,
    /// How grounded they are.
    pub grounded_mean: f64,
    /// How much they retain.
    pub retained_mean: f64,
}

/// What a million tokens of input cost, for what the tree saves: a price many models have.
pub const DOLLARS_PER_MILLION_TOKENS: f64 = 3.0;

/// The store.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct StoreView {
    /// The kind of store.
    pub kind: &'static str,
    /// Where it is.
    pub location: String,
    /// Its schema version.
    pub schema_version: u32,
    /// Its size.
    pub bytes: u64,
    /// Why this process can store nothing until it is restarted, and what to do about it.
    pub writes_refused: Option<String>,
}

/// Why the store refuses every write of this process, and what to do about it.
pub(super) fn writes_refused(memory: &Engine) -> Option<String> {
    let failure = memory.failure()?;
    let hint = failure.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    Some(format!("{failure}{hint}"))
}

impl StatsView {
    /// How much a memory holds.
    pub fn of(memory: &Engine) -> Result<Self> {
        let stats = memory.stats()?;
        Ok(Self {
            tenant: memory.tenant().to_string(),
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
                writes_refused: writes_refused(memory),
            },
            tree: TreeStatsView::of(&memory.tree_stats(None)?),
            spend: ModelView::all(memory, None)?,
        })
    }
}

impl ConversationStatsView {
    /// What a conversation comes to.
    pub fn of(memory: &Engine, conversation: ConversationId) -> Result<Self> {
        Ok(Self {
            tree: TreeStatsView::of(&memory.tree_stats(Some(conversation))?),
            spend: ModelView::all(memory, Some(conversation))?,
        })
    }
}

impl TreeStatsView {
    /// What trees come to.
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
