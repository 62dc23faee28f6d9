//! Owns all workers: starts them, gives them each plan, and drains them at the end.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use plan::export::{SpanCollector, SpanExporter};
use plan::{AccessLogSettings, Background, LogSink, Plan, TraceExport};
use policy::{Caller, Scheme};
use telemetry::access::{AccessLog, Sink};
use telemetry::{Telemetry, Total};
use tokio::sync::{mpsc, oneshot};
use upstream::Upstream;

use crate::descriptors;
use crate::handover::{self, HandedSocket};
use crate::sockets::Sockets;
use crate::worker::{self, DrainTime, Order, ServingPlan};

/// All workers of the process.
pub struct Gateway {
    telemetry: Arc<Telemetry>,
    workers: Vec<mpsc::Sender<Order>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    held: Mutex<RetainedState>,
    upkeep: mpsc::Sender<Arc<Plan>>,
    /// True once draining workers must cut whatever is still open.
    cut: Arc<AtomicBool>,
}

/// The background work of all plans: name look-ups and health checks of upstreams, and the background work of policies. It runs outside
/// the workers.
pub struct Upkeep {
    plans: mpsc::Receiver<Arc<Plan>>,
}

/// State that is kept if the next plan has the same settings for it.
#[derive(Default)]
struct RetainedState {
    sockets: Sockets,
    access_log: Option<RunningLog>,
    spans: Option<RunningExport>,
}

/// An exporter of spans with its settings.
type RunningExport = (SpanCollector, Arc<SpanExporter>);

/// An access log with its settings.
type RunningLog = (AccessLogSettings, Arc<AccessLog>);

/// The maximum number of orders that wait for a worker, and of plans that wait for the upkeep. Both are usually taken at once.
const ORDERS_MAX: usize = 16;

/// The time within which a worker must adopt a plan. A worker that takes longer counts as stuck.
const ADOPT_MAX: Duration = Duration::from_secs(5);

impl Gateway {
    /// Starts the workers. They do not listen before the first plan.
    pub fn start(workers: usize, telemetry: Arc<Telemetry>) -> io::Result<(Gateway, Upkeep)> {
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        for index in 0..workers.max(1) {
            let (sender, orders) = mpsc::channel(ORDERS_MAX);
            let telemetry = telemetry.clone();
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            threads.push(thread.spawn(move || worker::run(index, orders, telemetry))?);
            senders.push(sender);
        }
        let (upkeep, plans) = mpsc::channel(ORDERS_MAX);
        let threads = Mutex::new(threads);
        let gateway = Gateway {
            telemetry,
            workers: senders,
            threads,
            held: Mutex::default(),
            upkeep,
            cut: Arc::default(),
        };
        Ok((gateway, Upkeep { plans }))
    }

    /// Puts a plan into service on all workers. If a socket cannot be bound, or the access log or the exporter of spans cannot be opened,
    /// the plan is refused as a whole, and the previous one stays in service. If a worker is stuck or has ended, the result is an error,
    /// although other workers may already serve the plan.
    pub async fn publish(&self, plan: Arc<Plan>) -> Result<(), String> {
        let (sockets, access_log, spans) = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            // Each of these may fail, so nothing is stored before all have succeeded. Binding comes last, since it stores its result
            // itself.
            let access_log = held.access_log(&plan, &self.telemetry)?;
            let spans = held.spans(&plan, &self.telemetry)?;
            let sockets = held.sockets.bind(&plan.listeners, self.workers.len())?;
            held.access_log = access_log.clone();
            held.spans = spans.clone();
            let spans = spans.map(|(_, exporter)| exporter.queue().clone());
            (sockets, access_log.map(|(_, log)| log), spans)
        };
        kit::memory::set_limit(plan.memory);
        descriptors::warn_of(&plan);
        let mut adopted = Vec::new();
        // Harmless: there is a list of sockets for each worker.
        for (worker, sockets) in self.workers.iter().zip(sockets) {
            let (sender, done) = oneshot::channel();
            let (access_log, spans) = (access_log.clone(), spans.clone());
            let serving = ServingPlan { plan: plan.clone(), access_log, spans };
            let order = Order::Adopt { serving, sockets, done: sender };
            worker.send(order).await.map_err(|_| "a worker has ended".to_owned())?;
            adopted.push(done);
        }
        for done in adopted {
            let waited = tokio::time::timeout(ADOPT_MAX, done).await;
            waited
                .map_err(|_| "a worker is stuck".to_owned())?
                .map_err(|_| "a worker has ended".to_owned())?;
        }
        self.upkeep.send(plan).await.map_err(|_| "the upkeep has ended".to_owned())
    }

    /// The real addresses of the listeners by name, with the chosen port instead of 0.
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).sockets.addresses()
    }

    /// Opens the access log again, after its file was renamed.
    pub fn reopen_log(&self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, log)) = &held.access_log {
            log.reopen();
        }
    }

    /// Accepts no more connections, lets exchanges end, and cuts the rest after `limit`. True if all ended by
    /// themselves.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.drain_in(DrainTime { streams: Duration::ZERO, limit }).await
    }

    /// Drains after another process has received the sockets. Open streams stay for the time `streams` before they have to leave.
    pub async fn hand_over(&self, streams: Duration, limit: Duration) -> bool {
        self.drain_in(DrainTime { streams, limit }).await
    }

    /// All listening sockets, for the process that replaces this one.
    pub fn handed_sockets(&self) -> io::Result<Vec<HandedSocket>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sockets = held.sockets.handed()?;
        sockets.extend(handover::others()?);
        Ok(sockets)
    }

    async fn drain_in(&self, time: DrainTime) -> bool {
        // Copies of the sockets would keep them open.
        self.held.lock().unwrap_or_else(PoisonError::into_inner).sockets = Sockets::default();
        let mut drained = Vec::new();
        for worker in &self.workers {
            let (sender, done) = oneshot::channel();
            let order = Order::Drain { time, cut: self.cut.clone(), done: sender };
            if worker.send(order).await.is_ok() {
                drained.push(done);
            }
        }
        let mut all = true;
        for done in drained {
            all &= done.await.unwrap_or(false);
        }
        self.join();
        all
    }

    /// Makes the drain in progress, or the next one, cut everything at once.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    fn join(&self) {
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // Harmless: a panic was logged when it happened.
            let _ = thread.join();
        }
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(exporter) = held.spans.and_then(|(_, exporter)| Arc::into_inner(exporter))
            && !exporter.close()
        {
            tracing::warn!("the last spans could not be sent");
        }
        if let Some(log) = held.access_log.and_then(|(_, log)| Arc::into_inner(log))
            && !log.close()
        {
            tracing::warn!("the last lines of the access log could not be written");
        }
    }
}

impl Upkeep {
    /// Starts the background work of each new plan, until the gateway is dropped. Skips upstreams and work that a plan has taken over from
    /// an earlier one, since they are already running.
    pub async fn run(mut self) {
        let mut kept: Vec<Weak<Upstream>> = Vec::new();
        let mut working: Vec<Weak<dyn Background>> = Vec::new();
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let caller = Rc::new(Caller::new(nowhere, nowhere, Scheme::Http, telemetry::BACKGROUND));
        while let Some(plan) = self.plans.recv().await {
            kept.retain(|upstream| upstream.strong_count() > 0);
            for upstream in &plan.upstreams {
                if !kept.iter().any(|known| known.as_ptr() == Arc::as_ptr(upstream)) {
                    upstream::maintain(upstream);
                    kept.push(Arc::downgrade(upstream));
                }
            }
            working.retain(|work| work.strong_count() > 0);
            for work in &plan.background {
                if !working.iter().any(|known| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(work)))
                {
                    kit::spawn(rounds(Arc::downgrade(work), caller.clone()));
                    working.push(Arc::downgrade(work));
                }
            }
        }
    }
}

/// Runs rounds until the work is dropped everywhere else.
async fn rounds(work: Weak<dyn Background>, caller: Rc<Caller>) {
    loop {
        let pause = {
            let Some(work) = work.upgrade() else { return };
            work.round(&caller).await
        };
        tokio::time::sleep(pause).await;
    }
}

impl RetainedState {
    /// The running exporter of spans if the plan has the same settings, or a new one.
    fn spans(&self, plan: &Plan, telemetry: &Telemetry) -> Result<Option<RunningExport>, String> {
        let Some(TraceExport { collector, .. }) = &plan.traces else { return Ok(None) };
        if let Some(running) = self.spans.as_ref().filter(|(known, _)| known == collector) {
            return Ok(Some(running.clone()));
        }
        let exporter = SpanExporter::start(collector, telemetry.total(Total::TracesDropped));
        let exporter = exporter.map_err(|e| format!("traces cannot be sent: {e}"))?;
        Ok(Some((collector.clone(), Arc::new(exporter))))
    }

    /// The running access log if the plan has the same settings, or a new one.
    fn access_log(&self, plan: &Plan, telemetry: &Telemetry) -> Result<Option<RunningLog>, String> {
        let Some(settings) = &plan.access_log else { return Ok(None) };
        if let Some(running) = self.access_log.as_ref().filter(|(known, _)| known == settings) {
            return Ok(Some(running.clone()));
        }
        let format = settings.format.clone();
        let log = match &settings.sink {
            LogSink::Local(sink) => AccessLog::start(format, sink.clone(), telemetry),
            LogSink::Receiver(receiver) => {
                let open = receiver.opening("access");
                AccessLog::start_sending(format, &receiver.name(), open, telemetry)
            }
        };
        let log = log.map_err(|e| match &settings.sink {
            LogSink::Local(Sink::File(path)) => {
                format!("the access log {} cannot be opened: {e}", path.display())
            }
            LogSink::Local(Sink::Stdout | Sink::Stderr) | LogSink::Receiver(_) => {
                format!("the access log cannot be opened: {e}")
            }
        })?;
        Ok(Some((settings.clone(), Arc::new(log))))
    }
}
