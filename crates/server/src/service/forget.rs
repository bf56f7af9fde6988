//! The operations that forget, and the audit.

use treering_core::ForgetTarget;
use treering_core::ports::ScrubReport;
use treering_engine::Forget;

use super::requests::{AuditRequest, ForgetRequest};
use super::{Service, ServiceError};
use crate::views::{AllowedReturnView, AuditList, AuditRecordView, ForgetView};

/// Records in the audit unless the caller asks for another number.
const DEFAULT_RECORDS: usize = 50;

impl Service {
    /// Forgets if the request has the token of a preview, otherwise previews.
    pub fn forget(&self, request: &ForgetRequest) -> Result<ForgetView, ServiceError> {
        let forget = Forget {
            target: request.target(self.engine())?,
            allow_return: request.allow_return,
            fast: request.fast,
            token: request.token.clone(),
        };
        if request.token.is_none() {
            return Ok(ForgetView::of_preview(self.engine().preview_forget(&forget)?));
        }
        Ok(ForgetView::of_report(&treering::forget(self.engine(), &forget)?))
    }

    /// Forgets the conversations that the retention rules say are too old, or previews that.
    /// `None` if there are none.
    pub fn retain(&self, dry_run: bool) -> Result<Option<ForgetView>, ServiceError> {
        let rules = self.settings().retention.parsed()?;
        if !self.engine().has_expired(&rules)? {
            return Ok(None);
        }
        let forget = Forget::new(ForgetTarget::Expired(rules));
        Ok(Some(match dry_run {
            true => ForgetView::of_preview(self.engine().preview_forget(&forget)?),
            false => ForgetView::of_report(&treering::forget(self.engine(), &forget)?),
        }))
    }

    /// Erases the bytes that earlier forgets left in the files of the store and in the spool.
    pub fn scrub(&self) -> Result<ScrubReport, ServiceError> {
        Ok(treering::scrub(self.engine())?)
    }

    /// Lets an import bring back what a record of the audit lists. Nothing is restored.
    pub fn allow_return(&self, record: &str) -> Result<AllowedReturnView, ServiceError> {
        Ok(AllowedReturnView { record: self.engine().allow_return(record)?.id })
    }

    /// Reads the audit.
    pub fn audit(&self, request: &AuditRequest) -> Result<AuditList, ServiceError> {
        let prefix = request.record.as_deref().unwrap_or_default();
        let records = self.engine().audit(prefix, request.limit.unwrap_or(DEFAULT_RECORDS))?;
        let view = |record| Ok(AuditRecordView::of(record, &self.engine().new_ids(record)?));
        let records = records.iter().map(view).collect::<Result<_, ServiceError>>()?;
        Ok(AuditList { records, pending_scrubs: self.engine().pending_scrubs()? })
    }
}
