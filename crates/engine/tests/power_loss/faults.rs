//! Workloads in which one operation fails. The program continues while the store accepts writes,
//! and reopens it otherwise, in the same process or in the next one.

use treering_engine::Engine;
use treering_testkit::disk::{Disk, Fault, FaultKind, FaultPoint, FileRole, scratch_folder};

use crate::turns::{append, label};
use crate::workloads::{Bench, Setup, Workload};

/// Number of consecutive refusals after which the store is reopened.
const REFUSALS: usize = 2;

/// The faults, with the number of matching operations that succeed before.
pub(crate) fn all() -> Vec<Fault> {
    let fault = |role, point, kind| move |skip| Fault { role, point, skip, kind };
    let mut faults: Vec<Fault> = Vec::new();
    faults.extend([0, 1, 5, 12].map(fault(FileRole::Wal, FaultPoint::Sync, FaultKind::Io)));
    faults.extend([3, 20].map(fault(FileRole::Wal, FaultPoint::Write, FaultKind::Io)));
    faults.extend([8].map(fault(FileRole::Wal, FaultPoint::Write, FaultKind::Full)));
    faults.extend([0, 1].map(fault(FileRole::Database, FaultPoint::Sync, FaultKind::Io)));
    faults.extend([1].map(fault(FileRole::Database, FaultPoint::Write, FaultKind::Io)));
    faults.extend([0].map(fault(FileRole::Wal, FaultPoint::Truncate, FaultKind::Io)));
    faults
}

/// Appends turns while a fault strikes, and after it.
pub(crate) fn one_fault(fault: Fault) -> Workload {
    let bench = Bench::new(Setup::default());
    let mut engine = Some(bench.open());
    // Later transactions change pages that are no longer in the WAL.
    let mut number = 0;
    append_some(&bench, &mut engine, &mut number, 13);
    drop(engine.take());
    engine = Some(bench.open());
    append_some(&bench, &mut engine, &mut number, 4);
    bench.disk.crash_from_here();
    bench.disk.inject(fault);
    for round in 0..5 {
        append_some(&bench, &mut engine, &mut number, 6);
        match round {
            // A fault may strike these operations, which then consume the error.
            1 => drop(bench.checkpoint("TRUNCATE")),
            3 => drop(engine.take()),
            _ => {}
        }
    }
    drop(engine);
    assert_eq!(bench.disk.faults_triggered(), 1, "the workload has no {}", name(fault));
    bench.finish(&name(fault))
}

fn name(Fault { role, point, skip, kind }: Fault) -> String {
    format!("{kind:?} at {role:?} {point:?} {skip}")
}

/// The next label. Conversations alternate, so that a transaction changes pages that earlier ones
/// did not.
fn next_label(number: &mut usize) -> String {
    *number += 1;
    label(&format!("talk{}", *number % 12), 0, *number)
}

/// Appends turns, and records an acknowledgement for each one that the store accepts.
fn append_some(bench: &Bench, engine: &mut Option<Engine>, number: &mut usize, turns: usize) {
    let mut refusals = 0;
    for _ in 0..turns {
        let Some(open) = engine.take().or_else(|| bench.setup.open(bench.folder.path()).ok())
        else {
            continue;
        };
        let label = next_label(number);
        match append(&open, &label) {
            Ok(()) => bench.disk.acknowledge(&label),
            Err(_) => refusals += 1,
        }
        // Dropping the memory closes the store.
        *engine = (refusals < REFUSALS).then_some(open);
        refusals %= REFUSALS;
    }
}

/// The process is killed right after a failed sync of the WAL, without a power loss. The next
/// process reads a WAL that is not completely on disk.
pub(crate) fn kill_after_failed_sync() -> Workload {
    let bench = Bench::new(Setup::default());
    let mut engine = Some(bench.open());
    let mut number = 0;
    append_some(&bench, &mut engine, &mut number, 36);
    drop(engine.take());
    let open = bench.open();
    // The first turn in a new WAL: none of its pages is in the WAL yet. The skipped sync is that
    // of the header.
    let fault =
        Fault { role: FileRole::Wal, point: FaultPoint::Sync, skip: 1, kind: FaultKind::Io };
    bench.disk.crash_from_here();
    bench.disk.inject(fault);
    for _ in 0..8 {
        let label = next_label(&mut number);
        match append(&open, &label) {
            Ok(()) => bench.disk.acknowledge(&label),
            Err(_) => break,
        }
    }
    assert_eq!(bench.disk.faults_triggered(), 1, "no sync of the WAL failed");
    let folder = scratch_folder().unwrap();
    let disk = Disk::restart(bench.disk.log(), folder.path()).unwrap();
    let next = Bench { folder, disk, setup: Setup::default() };
    let mut engine = Some(next.open());
    append_some(&next, &mut engine, &mut number, 10);
    drop(engine);
    next.finish("kill after a failed sync")
}
