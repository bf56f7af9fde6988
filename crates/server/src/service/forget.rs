//! The operations that forget, and the audit.

use std::path::Path;

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

    /// Stores the spooled captures, so that the forget reaches them, and deletes invalid ones.
    fn empty_spool(&self) -> Result<(), ServiceError> {
        let location = self.engine().stats()?.store.location;
        let Some(home) = Path::new(&location).parent() else { return Ok(()) };
        for spool in
            [Spool::for_tenant(home, self.engine().tenant()), Spool::for_unknown_tenant(home)]
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
