//! One worker: a thread with its own runtime, sockets and pools. Workers share the plan. They share mutable state only where it must be
//! common to all of them, such as counters and the state of targets.

use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kit::clock;
use pipeline::Recorders;
use plan::Plan;
use telemetry::Telemetry;
use telemetry::access::AccessLog;
use telemetry::span::SpanQueue;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::accept;
use crate::connections::ListenerState;
use crate::residents::Residents;
use crate::schedules::Schedules;
use crate::sockets::{Key, ListenerParts};
use crate::worker_state::{Current, Worker};

/// Orders from the gateway to a worker.
pub(crate) enum Order {
    /// Serve this plan from now on. Exchanges that began with another plan also end with it.
    Adopt { serving: ServingPlan, sockets: Vec<ListenerParts>, done: oneshot::Sender<()> },
    /// Accept no more connections and end, at once if `cut` is set. `done` gets true if every exchange ended in time.
    Drain { time: DrainTime, cut: Arc<AtomicBool>, done: oneshot::Sender<bool> },
}

/// The time that a draining worker has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrainTime {
    /// How long streams stay open as before, if another process takes new connections.
    pub(crate) streams: Duration,
    /// How long everything that is open may then take to end.
    pub(crate) limit: Duration,
}

/// A plan with its access log and its queue for spans.
pub(crate) struct ServingPlan {
    pub(crate) plan: Arc<Plan>,
    pub(crate) access_log: Option<Arc<AccessLog>>,
    /// The queue for spans, if there are traces.
    pub(crate) spans: Option<Arc<SpanQueue>>,
}

/// The interval of checks of idle upstream connections. They are also checked when they are used, so this only limits how
/// long closed ones keep their descriptors.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The interval at which a draining worker checks whether it is done.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

/// The number of connections that a worker handles in one turn, which is also the number of messages that it writes together
/// (`kit::task::yield_to_ready`). So the code of each step is in the cache for all of them. With a thousand connections in one turn, their
/// messages would push each other out of the cache between the steps, which cost a sixth of a request when measured.
const EVENTS_PER_TICK: usize = kit::task::UNWRITTEN_MAX;

/// The number of polls after which a worker checks for new events although some tasks are still ready. It is enough for the tasks of one
/// turn, each polled a few times.
const POLLS_MAX: u32 = 256;

/// Runs a worker until it is drained or the gateway is dropped.
pub(crate) fn run(index: usize, orders: mpsc::Receiver<Order>, telemetry: Arc<Telemetry>) {
    kit::memory::count_in_batches(index);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_io_events_per_tick(EVENTS_PER_TICK)
        .event_interval(POLLS_MAX)
        .build_local(LocalOptions::default());
    match runtime {
        Ok(runtime) => runtime.block_on(serve(index, orders, telemetry)),
        Err(e) => tracing::error!("worker {index} cannot start: {e}"),
    }
}

async fn serve(index: usize, mut orders: mpsc::Receiver<Order>, telemetry: Arc<Telemetry>) {
    let mut listeners = WorkerListeners {
        index,
        worker: None,
        telemetry,
        open: HashMap::new(),
        leaving: Vec::new(),
        schedules: Schedules::default(),
        residents: Residents::default(),
    };
    kit::spawn(sweep());
    while let Some(order) = orders.recv().await {
        match order {
            Order::Adopt { serving, sockets, done } => {
                listeners.adopt(serving, sockets).await;
                // Harmless: the gateway may have stopped waiting.
                let _ = done.send(());
            }
            Order::Drain { time, cut, done } => {
                // Harmless: the gateway may have stopped waiting.
                let _ = done.send(listeners.drain(time, &cut).await);
                return;
            }
        }
    }
}

async fn sweep() {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        upstream::sweep();
    }
}

/// Ends the remaining connections of a removed listener once its time is over.
async fn cut_after(drain: Duration, listener_state: Weak<ListenerState>) {
    tokio::time::sleep(drain).await;
    if let Some(listener_state) = listener_state.upgrade() {
        listener_state.cut();
    }
}

/// A worker's state of all listeners.
struct WorkerListeners {
    index: usize,
    telemetry: Arc<Telemetry>,
    /// Created with the first plan.
    worker: Option<Rc<Worker>>,
    open: HashMap<Key, OpenListener>,
    /// Closed listeners with connections that have not ended.
    leaving: Vec<Rc<ListenerState>>,
    schedules: Schedules,
    residents: Residents,
}

struct OpenListener {
    listener_state: Rc<ListenerState>,
    /// The tasks that own the sockets.
    accepting: Vec<JoinHandle<()>>,
}

impl WorkerListeners {
    /// Serves a plan. Sockets that it does not use are closed before this returns, so that a later plan can use their
    /// addresses again.
    async fn adopt(&mut self, serving: ServingPlan, sockets: Vec<ListenerParts>) {
        let plan = serving.plan.clone();
        let worker = self.publish(serving);
        self.schedules.adopt(&plan, &worker, self.telemetry.workers());
        self.residents.adopt(&plan, &worker, self.telemetry.workers());
        let mut before = std::mem::take(&mut self.open);
        for opened in sockets {
            let key = Key::of(&opened.listener);
            let open = before.remove(&key).unwrap_or_else(|| {
                let metrics = self.telemetry.listener(&opened.listener.name);
                let listener_state =
                    ListenerState::new(opened.listener.clone(), metrics, opened.open);
                let accept = |socket| accept::run(worker.clone(), listener_state.clone(), socket);
                let accepting =
                    opened.sockets.into_iter().map(|socket| kit::spawn(accept(socket))).collect();
                OpenListener { listener_state, accepting }
            });
            open.listener_state.set_listener(opened.listener);
            open.listener_state.tell_changes(&plan);
            self.open.insert(key, open);
        }
        self.leaving.retain(|listener_state| listener_state.open_here() > 0);
        for OpenListener { listener_state, accepting } in before.into_values() {
            listener_state.close();
            kit::spawn(cut_after(plan.drain, Rc::downgrade(&listener_state)));
            self.leaving.push(listener_state);
            for accepting in accepting {
                // Harmless: a panic was logged when it happened.
                let _ = accepting.await;
            }
        }
    }

    fn publish(&mut self, serving: ServingPlan) -> Rc<Worker> {
        let telemetry = self.telemetry.clone();
        let recorders =
            Rc::new(Recorders::of(&serving.plan, telemetry, serving.access_log, serving.spans));
        let current = Rc::new(Current { plan: serving.plan, recorders });
        match &self.worker {
            Some(worker) => {
                worker.publish(current);
                worker.clone()
            }
            None => self.worker.insert(Worker::new(self.index, current)).clone(),
        }
    }

    async fn drain(&mut self, time: DrainTime, cut: &AtomicBool) -> bool {
        let (began, mut keeps_streams) = (clock::now(), !time.streams.is_zero());
        let WorkerListeners { open, leaving, schedules, residents, .. } = self;
        // Harmless: this only asks them to end. The loop checks whether they have ended.
        let _ = (schedules.drain(), residents.drain());
        let all = || open.values().map(|open| &open.listener_state).chain(&*leaving);
        all().for_each(|listener_state| listener_state.close_but(keeps_streams));
        loop {
            let are_open = all().any(|listener_state| listener_state.open_here() > 0);
            let is_over = schedules.drain() && residents.drain() && !kit::task::has_side_work();
            if !are_open && is_over {
                return true;
            }
            if keeps_streams && began.elapsed() >= time.streams {
                keeps_streams = false;
                all().for_each(|listener_state| listener_state.close());
            }
            let limit = time.streams.saturating_add(time.limit);
            if began.elapsed() >= limit || cut.load(Ordering::Relaxed) {
                all().for_each(|listener_state| listener_state.cut());
                tokio::task::yield_now().await;
                return false;
            }
            tokio::time::sleep(DRAIN_EVERY).await;
        }
    }
}
