//! The operations that forget, and the audit.

use std::path::{Path, PathBuf};

use treering_core::ForgetTarget;
use treering_core::ports::ScrubReport;
use treering_engine::Forget;

use super::requests::{AuditRequest, ForgetRequest};
use super::{Service, ServiceError};
use crate::agents::Spool;
use crate::views::{AuditList, AuditRecordView, ForgetView};

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
        self.empty_spool()?;
        Ok(ForgetView::of_report(&self.engine().forget(&forget)?))
    }

    /// Forgets the conversations that the retention rules say are too old, or previews that.
    /// `None` if there are none.
    pub fn retain(&self, dry_run: bool) -> Result<Option<ForgetView>, ServiceError> {
        let rules = self.settings().retention.parsed()?;
        if !dry_run && !rules.is_empty() {
            self.empty_spool()?;
        }
        let expired = self.engine().expired(&rules)?;
        if expired.is_empty() {
            return Ok(None);
        }
        let forget = Forget::new(ForgetTarget::Expired(expired));
        Ok(Some(match dry_run {
            true => ForgetView::of_preview(self.engine().preview_forget(&forget)?),
            false => ForgetView::of_report(&self.engine().forget(&forget)?),
        }))
    }

    /// Erases the bytes that earlier forgets left in the files of the store and in the spool.
    pub fn scrub(&self) -> Result<ScrubReport, ServiceError> {
        self.empty_spool()?;
        Ok(self.engine().scrub()?)
    }

    /// The home folder.
    pub(super) fn home(&self) -> Result<PathBuf, ServiceError> {
        let location = self.engine().stats()?.store.location;
        Ok(Path::new(&location).parent().unwrap_or(Path::new(".")).to_path_buf())
    }

    /// Stores the spooled captures, so that the forget reaches them, and deletes invalid ones.
    fn empty_spool(&self) -> Result<(), ServiceError> {
        let home = self.home()?;
        for spool in
            [Spool::for_tenant(&home, self.engine().tenant()), Spool::for_unknown_tenant(&home)]
        {
            spool.replay(self.engine())?;
            spool.delete_invalid().map_err(|error| {
                ServiceError::InvalidRequest(format!("cannot empty the spool: {error}"))
            })?;
        }
        Ok(())
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
