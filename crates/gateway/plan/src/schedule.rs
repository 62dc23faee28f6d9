//! Schedules: flows that run at fixed intervals or times of day.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cron::Cron;
use kit::clock;
use message::{Body, Protocol, Request, RequestHead};
use serde_json::{Value, json};
use store::{Change, Error, Expect, Guard, LazyStore, Tables as _};
use telemetry::ScheduleMetrics;
use tokio::sync::Notify;

use crate::Destination;

/// A destination that gets the same request at scheduled times.
pub struct Schedule {
    pub name: String,
    pub timing: Timing,
    pub destination: Destination,
    pub content_type: Option<&'static str>,
    pub body: Bytes,
    pub metrics: Arc<ScheduleMetrics>,
    pub control: Arc<ScheduleControl>,
}

/// The state of a schedule that operators control. It survives a reload.
#[derive(Debug, Default)]
pub struct ScheduleControl {
    /// Whether the schedule is paused, as last set here or read from the store.
    is_paused: AtomicBool,
    is_running: AtomicBool,
    run_requested: Notify,
}

/// The table in the store with a row for each paused schedule, by name.
const PAUSED: &str = "schedules/paused";
/// The table in the store with the due time of the last run of each cron schedule, in milliseconds since the Unix epoch.
const LAST: &str = "schedules/last";

/// The result of an attempt to begin a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    Begins,
    /// A gateway has already begun the run. The last run was for this due time.
    IsDone(Due),
}

impl ScheduleControl {
    /// Resolves when an operator has requested a run now.
    pub async fn run_requested(&self) {
        self.run_requested.notified().await;
    }

    /// Records that a run begins or has ended.
    pub fn set_running(&self, is_running: bool) {
        self.is_running.store(is_running, Ordering::Relaxed);
    }
}

/// The times at which something is due.
#[derive(Debug, Clone, PartialEq)]
pub enum Timing {
    /// At a fixed interval, first after one interval. The monotonic clock is used, so changes of the time of day have no effect.
    Every(Duration),
    /// By the time of day (cron), with the text as written.
    Cron(Box<Cron>, String),
}

/// A time at which something is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    At(clock::Instant),
    /// A wall-clock time, since the Unix epoch.
    Wall(Duration),
}

/// A reading of the monotonic clock and the wall clock at the moment when a due time was chosen.
#[derive(Debug, Clone, Copy)]
pub struct ClockReading {
    at: clock::Instant,
    shown: Duration,
}

/// The interval at which the time of day is checked. A clock change is noticed within this time.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// If the clock is set back by at most this much, the schedule waits until the clock has caught up, so that no due time occurs twice.
const SET_BACK_MAX: Duration = Duration::from_secs(60);
/// Like `SET_BACK_MAX`, for schedules that are due only at certain hours: a nightly run must not run twice in one night.
const SET_BACK_MAX_RARE: Duration = Duration::from_secs(3 * 3600);

impl Timing {
    /// Returns the first due time from now on.
    pub fn first(&self) -> Option<Due> {
        match self {
            Timing::Every(interval) => Some(Due::At(clock::now().checked_add(*interval)?)),
            Timing::Cron(cron, _) => Some(Due::Wall(cron.next(clock::wall())?)),
        }
    }

    /// Returns the first due time. With `since`, it may be in the past: the previous process started no run after `since`, so this process
    /// makes up for a run that was due since then.
    pub fn first_since(&self, since: Option<Duration>) -> Option<Due> {
        match (self, since) {
            (Timing::Cron(cron, _), Some(since)) => {
                Some(Due::Wall(cron.next(since.min(clock::wall()))?))
            }
            (Timing::Every(_), _) | (Timing::Cron(..), None) => self.first(),
        }
    }

    /// Returns the due time that follows `due`.
    pub fn after(&self, due: Due) -> Option<Due> {
        match (self, due) {
            (Timing::Every(interval), Due::At(at)) => Some(Due::At(at.checked_add(*interval)?)),
            (Timing::Cron(cron, _), Due::Wall(at)) => Some(Due::Wall(cron.next(at)?)),
            (Timing::Every(_), Due::Wall(_)) | (Timing::Cron(..), Due::At(_)) => self.first(),
        }
    }
}

impl Timing {
    /// Returns the new due time if the clock was set back since the reading by more than the schedule waits for, or `None` if the old due
    /// time stays valid.
    pub fn set_back(&self, reading: ClockReading) -> Option<Due> {
        let expected = reading.shown.saturating_add(reading.at.elapsed());
        let back = expected.saturating_sub(clock::wall());
        if back > self.waited_for()? { self.first() } else { None }
    }

    /// Returns by how much the clock may be set back while the schedule only waits, or `None` if the schedule does not depend on the time
    /// of day.
    fn waited_for(&self) -> Option<Duration> {
        match self {
            Timing::Every(_) => None,
            Timing::Cron(cron, _) if cron.is_every_hour() => Some(SET_BACK_MAX),
            Timing::Cron(..) => Some(SET_BACK_MAX_RARE),
        }
    }
}

impl ClockReading {
    pub fn now() -> ClockReading {
        ClockReading { at: clock::now(), shown: clock::wall() }
    }
}

impl Due {
    /// Returns the time to wait before the next check, or `None` if it is due now.
    pub fn wait(self) -> Option<Duration> {
        let wait = match self {
            Due::At(at) => at.saturating_duration_since(clock::now()),
            Due::Wall(at) => at.saturating_sub(clock::wall()).min(CLOCK_CHECK_INTERVAL),
        };
        (!wait.is_zero()).then_some(wait)
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Timing::Every(interval) => write!(f, "every {interval:?}"),
            Timing::Cron(_, text) => write!(f, "cron `{text}`"),
        }
    }
}

impl Schedule {
    /// Returns the request of one run.
    pub fn request(&self) -> Request {
        let mut head = RequestHead::new(Protocol::Http11, b"POST", b"/");
        if let Some(content_type) = self.content_type {
            head.headers.add_known("Content-Type", content_type.as_bytes());
        }
        Request { head, body: Body::whole(self.body.clone()) }
    }

    /// Returns true if an operator has paused the schedule. If the store does not answer, the last known value is used.
    pub async fn is_paused(&self, store: Option<&LazyStore>) -> bool {
        if let Some(store) = store
            && let Ok(row) = store.get(PAUSED, self.name.as_bytes()).await
        {
            self.control.is_paused.store(row.is_some(), Ordering::Relaxed);
        }
        self.control.is_paused.load(Ordering::Relaxed)
    }

    /// Records in the shared store that the run for a due time begins, unless another gateway has already recorded it. This way no due time
    /// has two runs when the schedule moves to another gateway, even if their clocks differ.
    pub async fn begin(
        &self,
        store: &LazyStore,
        due: Due,
        guard: Option<&Guard>,
    ) -> Result<Beginning, Error> {
        let (Due::Wall(at), Some(waited_for)) = (due, self.timing.waited_for()) else {
            return Ok(Beginning::Begins);
        };
        let row = store.get(LAST, self.name.as_bytes()).await?;
        // Harmless: a row that cannot be parsed is overwritten.
        let last = row.as_ref().and_then(|row| std::str::from_utf8(&row.value).ok()?.parse().ok());
        let last = last.map(Duration::from_millis);
        // A last run far in the future was recorded by a clock that has since been set back, so it is ignored.
        if let Some(last) = last.filter(|last| *last >= at && *last - at <= waited_for) {
            return Ok(Beginning::IsDone(Due::Wall(last)));
        }
        let change = Change {
            table: LAST.into(),
            key: self.name.as_bytes().to_vec(),
            value: Some(at.as_millis().to_string().into()),
            expect: row.map_or(Expect::Nothing, |row| Expect::Version(row.version)),
        };
        match store.change(vec![change], guard).await {
            Ok(_) => Ok(Beginning::Begins),
            Err(Error::Conflict { .. }) => Ok(Beginning::IsDone(due)),
            Err(error) => Err(error),
        }
    }

    /// Pauses or resumes the schedule. With a store, this applies to all its gateways and survives restarts.
    pub async fn set_paused(&self, store: Option<&LazyStore>, paused: bool) -> Result<(), Error> {
        if let Some(store) = store {
            let value = paused.then(|| Bytes::from_static(b"1"));
            let key = self.name.as_bytes().to_vec();
            let change = Change { table: PAUSED.into(), key, value, expect: Expect::Anything };
            store.change(vec![change], None).await?;
        }
        self.control.is_paused.store(paused, Ordering::Relaxed);
        Ok(())
    }

    /// Requests a run now, even if the schedule is paused. Returns false if a run is in progress: there are never two at once.
    pub fn run_now(&self) -> bool {
        let is_running = self.control.is_running.load(Ordering::Relaxed);
        if !is_running {
            self.control.run_requested.notify_one();
        }
        !is_running
    }

    /// Describes the schedule for `explain`.
    pub fn explained(&self) -> String {
        let Schedule { name, timing, destination, .. } = self;
        format!("{name}: {timing} -> {}", destination.explained(&[]).what)
    }

    /// Describes the schedule as JSON for the admin API.
    pub fn view(&self) -> Value {
        let mut view = self.destination.view();
        if let Some(view) = view.as_object_mut() {
            view.insert("name".to_owned(), json!(self.name));
            view.insert("timing".to_owned(), json!(self.timing.to_string()));
            let is_running = self.control.is_running.load(Ordering::Relaxed);
            view.insert("running".to_owned(), json!(is_running));
        }
        view
    }
}
