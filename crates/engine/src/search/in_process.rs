//! The in-process implementation of the `SearchIndex` port.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use treering_core::TenantId;
use treering_core::lexicon::TermId;
use treering_core::ports::{
    IndexError, IndexQuery, IndexSnapshot, SearchCandidate, SearchIndex, StoreResult,
};

use super::filter::Filter;
use super::index::ItemIndex;
use super::rank::{RankedItem, rank};
use super::semantic::rank_by_similarity;
use crate::engine::Engine;
use crate::error::Error;

/// The in-process indexes of an engine.
pub(super) struct InProcessIndex<'a>(pub(super) &'a Engine);

impl SearchIndex for InProcessIndex<'_> {
    fn snapshot(&self, tenant: &TenantId) -> Result<Box<dyn IndexSnapshot + '_>, IndexError> {
        let index = self.0.for_tenant(tenant.clone()).item_index();
        let index = index.map_err(|error| match error {
            Error::Store(error) => IndexError::Store(error),
            Error::Provider(error) => IndexError::Provider(error),
            other => {
                IndexError::Store(treering_core::Invalid::new("index", other.to_string()).into())
            }
        })?;
        Ok(Box::new(ItemIndexSnapshot::new(index)))
    }
}

/// An index, held for one query.
pub(super) struct ItemIndexSnapshot {
    index: Arc<RwLock<ItemIndex>>,
    model: String,
    dims: usize,
}

impl ItemIndexSnapshot {
    pub(super) fn new(index: Arc<RwLock<ItemIndex>>) -> Self {
        let (model, dims) = {
            let index = index.read().unwrap_or_else(PoisonError::into_inner);
            (index.model.clone(), index.dims)
        };
        Self { index, model, dims }
    }

    fn read(&self) -> RwLockReadGuard<'_, ItemIndex> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IndexSnapshot for ItemIndexSnapshot {
    fn model(&self) -> (&str, usize) {
        (&self.model, self.dims)
    }

    fn candidates(&self, query: &IndexQuery<'_>) -> StoreResult<Vec<SearchCandidate>> {
        let index = self.read();
        let filter = Filter::of(&index, query.filter, query.as_of);
        let ranked = match query.semantic {
            true => rank_by_similarity(&index, query.vector, &filter, query.limit),
            false => rank(&index, query.question, query.vector, &filter, query.limit),
        };
        let candidate = |ranked: RankedItem| SearchCandidate {
            item: index.item_ref(ranked.item),
            signals: ranked.signals,
            has_literal_terms: ranked.has_literal_terms,
        };
        Ok(ranked.into_iter().map(candidate).collect())
    }

    fn matches(&self, line: &str, terms: &[TermId]) -> Vec<(usize, usize)> {
        self.read().lexer.matches(line, terms)
    }
}
