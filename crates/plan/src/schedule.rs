//! Schedules: flows that run at times.

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

/// A destination that gets the same request again and again.
pub struct Schedule {
    pub name: String,
    pub timing: Timing,
    pub destination: Destination,
    pub content_type: Option<&'static str>,
    pub body: Bytes,
    pub metrics: Arc<ScheduleMetrics>,
    pub control: Arc<ScheduleControl>,
}

/// What operators do to a schedule. It outlives a reload.
#[derive(Debug, Default)]
pub struct ScheduleControl {
    /// As it was set here, or as the store said last.
    is_paused: AtomicBool,
    is_running: AtomicBool,
    asked: Notify,
}

/// The table of the store with a row for each schedule that is paused, by its name.
const PAUSED: &str = "schedules/paused";
/// The table with the time, in milliseconds since the Unix epoch, for which a schedule by the clock ran last.
const LAST: &str = "schedules/last";

/// Whether a run may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    Begins,
    /// A gateway has begun it already. The last run was for this time.
    IsDone(Due),
}

impl ScheduleControl {
    /// Resolves when somebody has asked for a run now.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    /// A run begins, or has ended.
    pub fn set_running(&self, is_running: bool) {
        self.is_running.store(is_running, Ordering::Relaxed);
    }
}

/// The times at which something is due.
#[derive(Debug, Clone, PartialEq)]
pub enum Timing {
    /// First after one interval. By the monotonic clock, so that a change of the time of day is nothing to it.
    Every(Duration),
    /// By the time of day, with the text as it was written.
    Cron(Box<Cron>, String),
}

/// A time at which something is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    At(clock::Instant),
    /// Since the Unix epoch.
    Wall(Duration),
}

/// What the two clocks showed at one moment, when a time was chosen by them.
#[derive(Debug, Clone, Copy)]
pub struct ClockReading {
    at: clock::Instant,
    shown: Duration,
}

/// The time for which nobody looks at the time of day. A change of it is seen after that.
const LOOKED_EVERY: Duration = Duration::from_secs(10);

/// A clock that is set back by less is waited for, so that no time comes twice.
const BACK: Duration = Duration::from_secs(60);
/// The same for what is due at some hours only: a run of every night is not done twice in a night.
const BACK_FAR: Duration = Duration::from_secs(3 * 3600);

impl Timing {
    /// The first time it is due from now on.
    pub fn first(&self) -> Option<Due> {
        match self {
            Timing::Every(interval) => Some(Due::At(clock::now().checked_add(*interval)?)),
            Timing::Cron(cron, _) => Some(Due::Wall(cron.next(clock::wall())?)),
        }
    }

    /// The time at which it is due after it was.
    pub fn after(&self, due: Due) -> Option<Due> {
        match (self, due) {
            (Timing::Every(interval), Due::At(at)) => Some(Due::At(at.checked_add(*interval)?)),
            (Timing::Cron(cron, _), Due::Wall(at)) => Some(Due::Wall(cron.next(at)?)),
            (Timing::Every(_), Due::Wall(_)) | (Timing::Cron(..), Due::At(_)) => self.first(),
        }
    }
}

impl Timing {
    /// The time at which it is due by the clock as it is now, if that was set back since the reading.
    pub fn set_back(&self, reading: ClockReading) -> Option<Due> {
        let expected = reading.shown.saturating_add(reading.at.elapsed());
        let back = expected.saturating_sub(clock::wall());
        if back > self.waited_for()? { self.first() } else { None }
    }

    /// By how much a clock may be set back that is waited for. None if no clock matters.
    fn waited_for(&self) -> Option<Duration> {
        match self {
            Timing::Every(_) => None,
            Timing::Cron(cron, _) if cron.is_every_hour() => Some(BACK),
            Timing::Cron(..) => Some(BACK_FAR),
        }
    }
}

impl ClockReading {
    pub fn now() -> ClockReading {
        ClockReading { at: clock::now(), shown: clock::wall() }
    }
}

impl Due {
    /// The time to wait before it has to be asked again; none if it is due.
    pub fn wait(self) -> Option<Duration> {
        let wait = match self {
            Due::At(at) => at.saturating_duration_since(clock::now()),
            Due::Wall(at) => at.saturating_sub(clock::wall()).min(LOOKED_EVERY),
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
    /// The request of one run.
    pub fn request(&self) -> Request {
        let mut head = RequestHead::new(Protocol::Http11, b"POST", b"/");
        if let Some(content_type) = self.content_type {
            head.headers.add_known("Content-Type", content_type.as_bytes());
        }
        Request { head, body: Body::whole(self.body.clone()) }
    }

    /// True if an operator has paused it. A store that does not answer changes nothing.
    pub async fn is_paused(&self, store: Option<&LazyStore>) -> bool {
        if let Some(store) = store
            && let Ok(row) = store.get(PAUSED, self.name.as_bytes()).await
        {
            self.control.is_paused.store(row.is_some(), Ordering::Relaxed);
        }
        self.control.is_paused.load(Ordering::Relaxed)
    }

    /// Notes in a store of several gateways that the run for a time begins, unless one of them has noted it. So no time has two runs when
    /// a schedule changes hands, whatever their clocks show.
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
        // Harmless: a row that cannot be read is written anew.
        let last = row.as_ref().and_then(|row| std::str::from_utf8(&row.value).ok()?.parse().ok());
        let last = last.map(Duration::from_millis);
        // A last run that is far ahead was one by a clock that has been set back since.
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

    /// Pauses it, or lets it run again: on all gateways of a store, and over restarts where there is one.
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

    /// Asks for a run now, also of one that is paused. False if one is under way: there are never two.
    pub fn run_now(&self) -> bool {
        let is_running = self.control.is_running.load(Ordering::Relaxed);
        if !is_running {
            self.control.asked.notify_one();
        }
        !is_running
    }

    /// For `explain`.
    pub fn explained(&self) -> String {
        let Schedule { name, timing, destination, .. } = self;
        format!("{name}: {timing} -> {}", destination.explained(&[]).what)
    }

    /// For the admin API.
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
