//! The tenants of a store: list, add, remove, and move to another store.

use std::path::Path;

use treering_core::ports::IndexFiles;
use treering_core::{ConversationTotals, Invalid, Store, TenantId};
use treering_stores::{CopyReport, IndexFolder};

use crate::Result;

/// A tenant and the amount of its content.
#[derive(Debug, Clone)]
pub struct TenantSummary {
    /// The name.
    pub tenant: TenantId,
    /// The number of sessions.
    pub sessions: u32,
    /// The totals over all conversations.
    pub totals: ConversationTotals,
}

/// Every tenant of a store, ordered by name.
pub fn list_tenants(store: &dyn Store) -> Result<Vec<TenantSummary>> {
    let summary = |tenant: TenantId| {
        let (sessions, totals) = store.reader(&tenant)?.totals()?;
        Ok(TenantSummary { tenant, sessions, totals })
    };
    store.maintenance().tenants()?.into_iter().map(summary).collect()
}

/// Adds a tenant without data. Refuses one that exists.
pub fn add_tenant(store: &dyn Store, tenant: &TenantId) -> Result<()> {
    if store.maintenance().tenants()?.contains(tenant) {
        return Err(Invalid::new(format!("tenant {tenant}"), "it exists already").into());
    }
    Ok(store.maintenance().add_tenant(tenant)?)
}

/// Removes a tenant with everything that belongs to it, and its search index in `home`.
pub fn remove_tenant(home: &Path, store: &dyn Store, tenant: &TenantId) -> Result<()> {
    check_tenant(store, tenant)?;
    store.maintenance().remove_tenant(tenant, None)?;
    remove_index(home, tenant)
}

/// Moves a tenant to another store: copies it, compares the two, and removes it here.
pub fn move_tenant(
    home: &Path,
    from: &dyn Store,
    to: &dyn Store,
    tenant: &TenantId,
    progress: &mut dyn FnMut(&CopyReport),
) -> Result<CopyReport> {
    check_tenant(from, tenant)?;
    let report = treering_stores::move_tenant(from, to, tenant, progress)?;
    remove_index(home, tenant)?;
    Ok(report)
}

fn check_tenant(store: &dyn Store, tenant: &TenantId) -> Result<()> {
    if store.maintenance().tenants()?.contains(tenant) {
        return Ok(());
    }
    let reason = "the store has no such tenant; `treering tenant list` shows those it has";
    Err(Invalid::new(format!("tenant {tenant}"), reason).into())
}

fn remove_index(home: &Path, tenant: &TenantId) -> Result<()> {
    let files = IndexFolder::new(home);
    if let Some(_lock) = files.lock(tenant, true)? {
        files.retain(tenant, &[])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use treering_stores::{EmbeddedStore, Sync};

    use super::*;
    use crate::Memory;

    #[test]
    fn a_tenant_moves_with_everything() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let tenant = TenantId::new("ana").unwrap();
        {
            let memory = Memory::builder(folders[0].path()).tenant(tenant.clone()).open().unwrap();
            memory.conversation("support").unwrap().turn("Which port?", "7410.").unwrap();
        }
        let [from, to] = [0, 1].map(|number: usize| {
            EmbeddedStore::open(folders[number].path(), Sync::Normal).unwrap()
        });
        let other = TenantId::new("ben").unwrap();
        add_tenant(&from, &other).unwrap();
        assert!(add_tenant(&from, &other).is_err());
        let home = folders[0].path();
        let report = move_tenant(home, &from, &to, &tenant, &mut |_| {}).unwrap();
        assert_eq!((report.conversations, report.messages), (1, 2));
        let names = |store: &EmbeddedStore| -> Vec<String> {
            list_tenants(store).unwrap().iter().map(|it| it.tenant.to_string()).collect()
        };
        assert_eq!((names(&from), names(&to)), (vec!["ben".to_owned()], vec!["ana".to_owned()]));
        let id = list_tenants(&to).unwrap();
        assert_eq!((id[0].sessions, id[0].totals.messages), (1, 2));
        assert!(move_tenant(home, &from, &to, &tenant, &mut |_| {}).is_err(), "it is gone here");
        remove_tenant(folders[1].path(), &to, &tenant).unwrap();
        assert!(names(&to).is_empty());
    }
}
