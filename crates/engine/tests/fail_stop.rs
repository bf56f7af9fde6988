//! After an I/O error the store refuses writes until it is reopened; reads and contexts still
//! work, and the worker waits.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use treering_core::ports::{CommitPlan, Cursor, JobFilter, Maintenance, Revision, StoreResult};
use treering_core::{
    BatchSizes, CommitScope, ConversationId, Entry, ExternalId, Job, NewMessage, Policy, Reader,
    Role, Store, StoreError, TenantId, ThreadName, Timestamp,
};
use treering_engine::{
    AppendTarget, ContextRequest, Engine, EntryBatch, Error, NewConversation, Query,
    ReplayDetection,
};
use treering_providers::StaticEmbedder;
use treering_stores::{EmbeddedStore, Sync};
use treering_testkit::disk::{Disk, Fault, FaultKind, FaultPoint, FileRole, scratch_folder};
use treering_testkit::{FakeClock, PrefixSummarizer};

use crate::common::{parts_over, start};

/// A store that counts leases and reports every wait.
struct Counting {
    inner: EmbeddedStore,
    leases: Arc<AtomicUsize>,
    waits: Mutex<Sender<()>>,
}

impl Store for Counting {
    fn commit(&self, scope: CommitScope, plan: CommitPlan) -> StoreResult<()> {
        self.inner.commit(scope, plan)
    }

    fn reader(&self, tenant: &TenantId) -> StoreResult<Box<dyn Reader + '_>> {
        self.inner.reader(tenant)
    }

    fn lease(
        &self,
        tenant: &TenantId,
        filter: &JobFilter,
        worker: &str,
        sizes: BatchSizes,
    ) -> StoreResult<Vec<Job>> {
        self.leases.fetch_add(1, Ordering::SeqCst);
        self.inner.lease(tenant, filter, worker, sizes)
    }

    fn tenant_with_due_jobs(
        &self,
        now: Timestamp,
        after: Option<&TenantId>,
    ) -> StoreResult<Option<TenantId>> {
        self.inner.tenant_with_due_jobs(now, after)
    }

    fn cursors(&self) -> StoreResult<Vec<(TenantId, Cursor)>> {
        self.inner.cursors()
    }

    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn wait(&self, _: Revision, _: Duration) -> Revision {
        // The receiver may have been dropped.
        let _ = self.waits.lock().unwrap().send(());
        self.inner.revision()
    }

    fn wake(&self) {
        self.inner.wake();
    }

    fn maintenance(&self) -> &dyn Maintenance {
        self.inner.maintenance()
    }

    fn concurrency(&self) -> usize {
        self.inner.concurrency()
    }
}

fn open(folder: &Path) -> (Engine, Arc<AtomicUsize>, Receiver<()>) {
    let (leases, (sender, waits)) = (Arc::<AtomicUsize>::default(), channel());
    let inner = EmbeddedStore::open(folder, Sync::Full).unwrap();
    let store = Counting { inner, leases: Arc::clone(&leases), waits: Mutex::new(sender) };
    let clock = Arc::new(FakeClock::at(start()));
    let embedders: Vec<Arc<dyn treering_core::Embedder>> = vec![Arc::new(StaticEmbedder::new())];
    let parts = parts_over(
        Arc::new(store),
        Policy::default(),
        Arc::new(PrefixSummarizer::default()),
        clock,
        embedders,
    );
    (Engine::new(parts, TenantId::default()), leases, waits)
}

fn append(engine: &Engine, text: &str) -> Result<ConversationId, Error> {
    let key = ExternalId::new("gates").unwrap();
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(key),
        ..NewConversation::default()
    });
    let message = NewMessage::new(Role::User, text, engine.clock().now());
    let entries = vec![Entry::message(ThreadName::main(), message)];
    Ok(engine
        .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })?
        .conversation
        .id)
}

#[test]
fn a_failed_sync_stops_only_writes_and_the_worker() {
    let folder = scratch_folder().unwrap();
    let disk = Disk::watch(folder.path()).unwrap();
    let (engine, leases, waits) = open(folder.path());
    let text =
        |number: usize| format!("How is gate {number}? {}", "We wait at the lock. ".repeat(30));
    let mut number = 0;
    // Append until there is a job that a context would wait for.
    let id = loop {
        let id = append(&engine, &text(number)).unwrap();
        number += 1;
        if !engine.gate(id).unwrap().is_clear() {
            break id;
        }
    };
    assert!(engine.failure().is_none());
    disk.inject(Fault {
        role: FileRole::Wal,
        point: FaultPoint::Sync,
        skip: 0,
        kind: FaultKind::Io,
    });
    for _ in 0..2 {
        let refused = append(&engine, &text(number)).unwrap_err();
        assert!(matches!(refused, Error::Store(StoreError::Stopped { .. })), "{refused}");
        assert!(refused.hint().unwrap().contains("restart"), "{refused}");
    }
    assert_eq!(disk.faults_triggered(), 1, "the second write never reached the disk");
    assert!(matches!(engine.failure(), Some(Error::Store(StoreError::Stopped { .. }))));

    let before = leases.load(Ordering::SeqCst);
    let worker = engine.spawn_worker().unwrap();
    (0..3).for_each(|_| waits.recv().unwrap());
    assert_eq!(leases.load(Ordering::SeqCst), before, "the worker waits");
    let found =
        engine.search(&Query { text: "gate 0".into(), limit: 1, ..Query::default() }).unwrap();
    assert_eq!(found.hits.len(), 1);
    // The context returns at once despite the long timeout: no worker can make progress.
    let gate_timeout = Some(Duration::from_secs(100_000));
    let request = ContextRequest { gate_timeout, ..ContextRequest::new(id) };
    let context = engine.context(&request).unwrap();
    assert!(context.receipt.gate.degraded, "{:?}", context.receipt.gate);
    drop(worker);

    drop(engine);
    let (reopened, ..) = open(folder.path());
    assert!(reopened.failure().is_none());
    append(&reopened, &text(number)).unwrap();
    let report = reopened.verify(|_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}
