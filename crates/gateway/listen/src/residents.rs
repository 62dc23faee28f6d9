//! The residents of one worker: a task for each resident of the plan.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use plan::{Plan, Resident};
use policy::{Caller, EndSignal, ResidentWorker, Scheme};
use tokio::task::JoinHandle;

use crate::worker_state::Worker;

/// The residents of a worker.
#[derive(Default)]
pub(crate) struct Residents {
    running: Vec<RunningResident>,
    /// The tasks of earlier plans that have not ended yet.
    leaving: Vec<JoinHandle<()>>,
}

struct RunningResident {
    what: Arc<dyn Resident>,
    ending: Rc<EndSignal>,
    task: JoinHandle<()>,
}

impl Residents {
    /// Starts the new residents of a plan on this worker, and ends those that the plan does not have.
    pub(crate) fn adopt(&mut self, plan: &Plan, worker: &Rc<Worker>, workers: usize) {
        let mut before = std::mem::take(&mut self.running);
        for resident in plan.residents() {
            let is_it = |running: &RunningResident| {
                std::ptr::addr_eq(Arc::as_ptr(&running.what), Arc::as_ptr(&resident))
            };
            self.running.push(match before.iter().position(is_it) {
                Some(at) => before.swap_remove(at),
                None => RunningResident::start(resident, worker, workers),
            });
        }
        self.leaving.retain(|task| !task.is_finished());
        for running in before {
            running.ending.ask();
            self.leaving.push(running.task);
        }
    }

    /// Asks all residents to end. True once all have ended.
    pub(crate) fn drain(&mut self) -> bool {
        self.running.iter().for_each(|running| running.ending.ask());
        self.running.retain(|running| !running.task.is_finished());
        self.leaving.retain(|task| !task.is_finished());
        self.running.is_empty() && self.leaving.is_empty()
    }
}

impl RunningResident {
    fn start(what: Arc<dyn Resident>, worker: &Rc<Worker>, workers: usize) -> RunningResident {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let caller = Rc::new(Caller::new(nowhere, nowhere, Scheme::Http, worker.index));
        let ending = Rc::<EndSignal>::default();
        let of_plan = worker.clone();
        let access_log = Rc::new(move || of_plan.current().recorders.access_log.clone());
        let of_plan = worker.clone();
        let tracing = Rc::new(move || of_plan.current().recorders.tracing.clone());
        let place = ResidentWorker { caller, workers, access_log, tracing, ending: ending.clone() };
        let task = kit::spawn(what.clone().live(place));
        RunningResident { what, ending, task }
    }
}
