//! The workers as one thing: started once, handed plan after plan, drained at the end.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plan::{AccessLogSettings, Plan};
use telemetry::Telemetry;
use telemetry::access::AccessLog;
use tokio::sync::{mpsc, oneshot};

use crate::sockets::Sockets;
use crate::worker::{self, Order, Serving};

/// All workers of the process.
pub struct Gateway {
    telemetry: Arc<Telemetry>,
    workers: Vec<mpsc::Sender<Order>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    held: Mutex<Held>,
}

/// What outlives a plan because the next one may say the same.
#[derive(Default)]
struct Held {
    sockets: Sockets,
    access_log: Option<(AccessLogSettings, Arc<AccessLog>)>,
}

/// Orders wait for a worker that is busy; it never takes more than a moment.
const ORDERS_MAX: usize = 16;

/// A worker that does not take a plan within this is stuck.
const ADOPT_MAX: Duration = Duration::from_secs(5);

impl Gateway {
    /// Starts the workers. They listen nowhere until there is a plan.
    pub fn start(workers: usize, telemetry: Arc<Telemetry>) -> io::Result<Gateway> {
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        for index in 0..workers.max(1) {
            let (sender, orders) = mpsc::channel(ORDERS_MAX);
            let telemetry = telemetry.clone();
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            threads.push(thread.spawn(move || worker::run(index, orders, telemetry))?);
            senders.push(sender);
        }
        Ok(Gateway { telemetry, workers: senders, threads: Mutex::new(threads), held: Mutex::default() })
    }

    /// Puts a plan into service on every worker. Sockets that cannot be bound, or a log that cannot be opened, refuse
    /// the plan as a whole: then the last one goes on.
    pub async fn publish(&self, plan: Arc<Plan>) -> Result<(), String> {
        let (sockets, access_log) = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let access_log = held.access_log(&plan, &self.telemetry)?;
            (held.sockets.bind(&plan.listeners, self.workers.len())?, access_log)
        };
        let mut adopted = Vec::new();
        for (worker, sockets) in self.workers.iter().zip(sockets) {
            let (sender, done) = oneshot::channel();
            let serving = Serving { plan: plan.clone(), access_log: access_log.clone() };
            let order = Order::Adopt { serving, sockets, done: sender };
            worker.send(order).await.map_err(|_| "a worker has ended".to_owned())?;
            adopted.push(done);
        }
        for done in adopted {
            let waited = tokio::time::timeout(ADOPT_MAX, done).await;
            waited.map_err(|_| "a worker is stuck".to_owned())?.map_err(|_| "a worker has ended".to_owned())?;
        }
        Ok(())
    }

    /// Where the listeners really are, by name: port 0 has become a number.
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).sockets.addresses()
    }

    /// Opens a renamed access log file again.
    pub fn reopen_log(&self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, log)) = &held.access_log {
            log.reopen();
        }
    }

    /// Accepts no more, lets exchanges end, and gives up on the rest after `limit`. True if all ended by themselves.
    pub async fn drain(&self, limit: Duration) -> bool {
        let mut drained = Vec::new();
        for worker in &self.workers {
            let (sender, done) = oneshot::channel();
            if worker.send(Order::Drain { limit, done: sender }).await.is_ok() {
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

    fn join(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A worker that panicked has said so already.
            let _ended = thread.join();
        }
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(log) = held.access_log.and_then(|(_, log)| Arc::into_inner(log)) {
            log.close();
        }
    }
}

impl Held {
    /// The running access log if the plan says the same about it, a new one if not.
    fn access_log(&mut self, plan: &Plan, telemetry: &Telemetry) -> Result<Option<Arc<AccessLog>>, String> {
        let Some(settings) = &plan.access_log else {
            self.access_log = None;
            return Ok(None);
        };
        if let Some((_, log)) = self.access_log.as_ref().filter(|(known, _)| known == settings) {
            return Ok(Some(log.clone()));
        }
        let log = AccessLog::start(settings.format.clone(), settings.sink.clone(), telemetry)
            .map_err(|e| format!("the access log cannot be opened: {e}"))?;
        let log = Arc::new(log);
        self.access_log = Some((settings.clone(), log.clone()));
        Ok(Some(log))
    }
}
