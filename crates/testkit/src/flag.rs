//! Flags between threads.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, also by a panic, so that no thread that watches it runs on.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
