//! The store contract for stores that add and remove whole tenants.

#![allow(clippy::unwrap_used, missing_docs)]

use treering_core::ports::{ChangeFilter, Cursor, JobFilter};
use treering_core::{Level, Store, TenantId, Write};

use super::jobs::job;
use super::tree::node;
use super::{commit_for, conversation, key, message, tenant, tool_call};

/// Expands to one test per rule about tenants.
#[macro_export]
macro_rules! tenants_contract {
    ($new_store:expr) => {
        $crate::store_contract!(
            $new_store,
            tenants,
            an_added_tenant_is_listed,
            a_removed_tenant_leaves_nothing,
            a_tenant_with_new_changes_is_not_removed,
        );
    };
}

fn end(store: &dyn Store, tenant: &TenantId) -> Cursor {
    let reader = store.reader(tenant).unwrap();
    reader.changes(&Cursor::start(), &ChangeFilter::default(), 0).unwrap().cursor
}

fn fill(store: &dyn Store, tenant: &TenantId) {
    let it = conversation(1);
    let writes = vec![
        Write::PutConversation(it.clone()),
        Write::AddMessage(it.id, message(0, 0, treering_core::Role::User, "hello")),
        Write::AddToolCall(it.id, tool_call(0, 0, None)),
        Write::PutNode(it.id, Box::new(node(1, 0))),
        Write::AddJob(job(1, 1, 0)),
    ];
    commit_for(store, tenant.clone(), writes).unwrap();
}

pub fn an_added_tenant_is_listed(store: &dyn Store) {
    for _ in 0..2 {
        store.maintenance().add_tenant(&tenant("new")).unwrap();
    }
    assert_eq!(store.maintenance().tenants().unwrap(), [tenant("new")]);
    fill(store, &tenant("new"));
    assert_eq!(store.reader(&tenant("new")).unwrap().totals().unwrap().0, 1);
}

pub fn a_removed_tenant_leaves_nothing(store: &dyn Store) {
    let (gone, kept) = (tenant("gone"), tenant("kept"));
    fill(store, &gone);
    fill(store, &kept);
    assert!(store.maintenance().remove_tenant(&gone, None).unwrap());
    assert_eq!(store.maintenance().tenants().unwrap(), std::slice::from_ref(&kept));
    let counts = |tenant: &TenantId| {
        let reader = store.reader(tenant).unwrap();
        let jobs = reader.jobs(&JobFilter::all(9)).unwrap().len();
        let levels = reader.level_totals(None).unwrap().len();
        (reader.totals().unwrap().0, jobs, levels, reader.node_count().unwrap())
    };
    assert_eq!((counts(&gone), counts(&kept)), ((0, 0, 0, 0), (1, 1, 1, 1)));
    let reader = store.reader(&gone).unwrap();
    let all = reader.changes(&Cursor::start(), &ChangeFilter::content(), 9).unwrap();
    assert_eq!((all.items, all.cursor), (Vec::new(), Cursor::start()));
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
    fill(store, &gone);
    assert_eq!(counts(&gone), (1, 1, 1, 1), "it can be used again");
}

pub fn a_tenant_with_new_changes_is_not_removed(store: &dyn Store) {
    let it = tenant("busy");
    fill(store, &it);
    let before = end(store, &it);
    commit_for(store, it.clone(), vec![Write::DropTree(key(1).id, Level::FIRST)]).unwrap();
    let more = message(1, 0, treering_core::Role::User, "more");
    commit_for(store, it.clone(), vec![Write::AddMessage(key(1).id, more)]).unwrap();
    assert!(!store.maintenance().remove_tenant(&it, Some(&before)).unwrap());
    assert_eq!(store.reader(&it).unwrap().totals().unwrap().0, 1);
    let now = end(store, &it);
    assert!(store.maintenance().remove_tenant(&it, Some(&now)).unwrap());
    assert_eq!(store.reader(&it).unwrap().totals().unwrap().0, 0);
}
