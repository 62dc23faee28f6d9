//! The thread that compiles plans.
//!
//! There is only one. The allocator returns memory to the thread that allocated it, whichever thread frees it. If several threads
//! compiled plans, each of them would keep the memory of an old plan.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::Failure;

type Work = Box<dyn FnOnce() + Send>;

/// The number of waiting tasks. Changes are handled one at a time.
const WAITING_MAX: usize = 1;

/// Runs tasks on the thread. The first task starts it, so a program without changes has none.
#[derive(Default)]
pub(crate) struct Compiler(Mutex<Option<SyncSender<Work>>>);

impl Compiler {
    /// Runs work on the thread. The work may block.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let sender = self.sender().map_err(|error| Failure::Internal(error.to_string()))?;
        let (done, outcome) = sync_channel(1);
        let work: Work = Box::new(move || {
            // Harmless: the thread survives a panic, and the waiting task learns of it when the channel closes.
            if let Ok(made) = catch_unwind(AssertUnwindSafe(work)) {
                // Harmless: if the receiver is gone, nobody needs the result.
                let _ = done.send(made);
            }
        });
        // The wait blocks, so that a paused clock does not advance meanwhile.
        let waited = kit::task::run_blocking(move || {
            // Harmless: without a result, the work is reported as panicked.
            sender.send(work).ok()?;
            // Harmless: the channel closes without a result only if the work panicked, which is reported.
            outcome.recv().ok()
        });
        let panicked = || Failure::Internal("compiling the configuration panicked".to_owned());
        // Harmless: a missing result is reported as a panic.
        waited.await.flatten().ok_or_else(panicked)
    }

    fn sender(&self) -> io::Result<SyncSender<Work>> {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            return Ok(sender.clone());
        }
        let (begun, waiting) = sync_channel::<Work>(WAITING_MAX);
        thread::Builder::new().name("compile".to_owned()).spawn(move || {
            waiting.into_iter().for_each(|work| work());
        })?;
        Ok(sender.insert(begun).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_work_runs_on_one_thread_which_survives_a_panic() {
        let compiler = Compiler::default();
        let here = thread::current().id();
        let first = compiler.run(|| thread::current().id()).await.ok().unwrap();
        assert_ne!(first, here);
        let failed = compiler.run(|| panic!("of a test")).await;
        assert!(matches!(failed, Err(Failure::Internal(why)) if why.contains("panicked")));
        assert_eq!(compiler.run(|| thread::current().id()).await.ok(), Some(first));
    }
}
