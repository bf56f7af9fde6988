//! Runs the plan of a commit, for every store.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use treering_core::ports::{CommitPlan, StoreResult};
use treering_core::{CommitScope, Invalid, Reader, StoreError, Write};

/// The writes of a plan. A plan that panics or leaves its scope is refused.
pub(crate) fn plan_writes(
    plan: &mut CommitPlan,
    reader: &dyn Reader,
    scope: &CommitScope,
) -> StoreResult<Vec<Write>> {
    let planned = catch_unwind(AssertUnwindSafe(|| plan(reader)));
    let writes = planned.unwrap_or_else(|panic| Err(panicked(&*panic)))?;
    if let Some(write) = writes.iter().find(|write| !scope.permits(write)) {
        let reason = format!("it is outside the scope of the commit: {scope:?}");
        return Err(Invalid::new(format!("write {write:?}"), reason).into());
    }
    Ok(writes)
}

fn panicked(panic: &(dyn Any + Send)) -> StoreError {
    let reason = panic.downcast_ref::<&str>().map(ToString::to_string);
    let reason = reason.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Invalid::new("commit", format!("its plan panicked: {reason}")).into()
}
