//! The connection to a Redis or Valkey server through which several gateways share counts.
//!
//! Owns one connection, the timeout of each call, and the knowledge of whether the server answers. The callers define what is counted.

mod questions;
mod resp;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};
use kit::dial::{self, Link};
use telemetry::StoreMetrics;

pub use kit::dial::ServiceAddress;
pub(crate) use questions::{QuestionQueue, WaitingQuestion};

/// The address and the settings of a store of counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    pub place: ServiceAddress,
    /// The TLS client, if the connection uses TLS.
    pub tls: Option<tls::Client>,
    pub password: Option<String>,
    pub database: u32,
    /// The interval between two reports of counts.
    pub interval: Duration,
    /// The timeout of a call.
    pub timeout: Duration,
}

/// After this time without an answer, the server is pinged. Together with the default timeout, a hanging server is detected within a
/// second.
const SILENCE_MAX: Duration = Duration::from_millis(500);

/// The maximum number of calls that report counts in one round, enough for a hundred thousand keys. The rest waits for the next round.
const CALLS_MAX: usize = 100;

/// The connection to a store. One task uses it.
pub(crate) struct StoreConnection {
    pub(crate) store: Store,
    link: Mutex<Option<Link>>,
    /// When the server last answered, if ever.
    last_answer: Mutex<Option<Instant>>,
    /// Whether the server answered the last call. Changes are logged.
    answers: AtomicBool,
    metrics: Arc<StoreMetrics>,
}

impl StoreConnection {
    pub(crate) fn new(store: Store, metrics: Arc<StoreMetrics>) -> StoreConnection {
        StoreConnection {
            store,
            link: Mutex::default(),
            last_answer: Mutex::default(),
            answers: AtomicBool::new(true),
            metrics,
        }
    }

    /// Answers questions for an interval, and then reports counts. `report` reports a batch, and returns true if there is more.
    pub(crate) async fn round<Q, A>(
        &self,
        asks: &QuestionQueue<Q, A>,
        answer_all: impl AsyncFn(),
        report: impl AsyncFn() -> bool,
    ) {
        let began = clock::now();
        loop {
            let left = self.store.interval.saturating_sub(began.elapsed());
            // A steady flow of waiting requests must not delay the report beyond the interval.
            if left.is_zero() || tokio::time::timeout(left, asks.bell.notified()).await.is_err() {
                break;
            }
            answer_all().await;
        }
        for _ in 0..CALLS_MAX {
            // Counts are not sent to a server that does not answer: after a pause, it would process everything sent in the meantime.
            if self.is_away() && !self.ping().await || !report().await {
                return;
            }
        }
    }

    /// Returns true if the server did not answer the last call. Then no request waits for it.
    pub(crate) fn is_away(&self) -> bool {
        !self.answers.load(Ordering::Relaxed)
    }

    /// Runs a script that returns `count` numbers. Returns `None` if the server does not answer in time, or answers anything else.
    pub(crate) async fn script(
        &self,
        script: &str,
        keys: &[String],
        values: &[String],
        count: usize,
    ) -> Option<Vec<u64>> {
        let number = keys.len().to_string();
        let command = ["EVAL", script, &number].into_iter();
        let command = command.chain(keys.iter().chain(values).map(String::as_str));
        let asked = async {
            let numbers = self.command(command, count).await?.numbers()?;
            if numbers.len() == count {
                Ok(numbers)
            } else {
                Err(io::ErrorKind::InvalidData.into())
            }
        };
        let answered = tokio::time::timeout(self.store.timeout, asked).await;
        self.record_answer(answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
    }

    /// Pings the server, unless it has answered recently. Returns true if it is available.
    pub(crate) async fn ping(&self) -> bool {
        let last_answer = *self.last_answer.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_away() && last_answer.is_some_and(|at| at.elapsed() < SILENCE_MAX) {
            return true;
        }
        let asked = self.command(["PING"].into_iter(), 0);
        let answered = tokio::time::timeout(self.store.timeout, asked).await;
        self.record_answer(answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
            .is_some()
    }

    /// Records whether the server answers.
    fn record_answer<T>(&self, answered: io::Result<T>) -> Option<T> {
        match answered {
            Ok(answer) => {
                self.metrics.answered();
                *self.last_answer.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(clock::now());
                if !self.answers.swap(true, Ordering::Relaxed) {
                    tracing::info!("the store of shared limits answers again");
                }
                Some(answer)
            }
            Err(error) => {
                self.metrics.failed();
                if self.answers.swap(false, Ordering::Relaxed) {
                    tracing::warn!(%error, "the store of shared limits is not available; each gateway counts on its own");
                }
                None
            }
        }
    }

    /// Sends a command, whose answer has at most `items_max` items, on the existing connection, or a new one. A connection is not reused
    /// after a failure, or if its answer was not awaited.
    async fn command<'a>(
        &self,
        command: impl Iterator<Item = &'a str>,
        items_max: usize,
    ) -> io::Result<resp::Answer> {
        let known = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut link = match known {
            Some(link) => link,
            None => self.connect().await?,
        };
        let answer = resp::ask(&mut link, command, items_max).await?;
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        Ok(answer)
    }

    async fn connect(&self) -> io::Result<Link> {
        let mut link = match (&self.store.place, &self.store.tls) {
            (ServiceAddress::Unix(path), _) => Link::over(dial::unix(path).await?),
            (ServiceAddress::Tcp { host, port }, None) => Link::over(dial::tcp(host, *port).await?),
            (ServiceAddress::Tcp { host, port }, Some(tls)) => {
                let socket = dial::tcp(host, *port).await?;
                Link::over(tls.connect(host, socket).await?)
            }
        };
        if let Some(password) = &self.store.password {
            resp::ask(&mut link, ["AUTH", password].into_iter(), 0).await?;
        }
        if self.store.database != 0 {
            let database = self.store.database.to_string();
            resp::ask(&mut link, ["SELECT", &database].into_iter(), 0).await?;
        }
        Ok(link)
    }
}
