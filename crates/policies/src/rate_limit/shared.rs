//! Counts that several gateways share through a Redis or Valkey server, reconciled beside the requests.
//!
//! Requests are decided by the local counts alone. Every interval a gateway tells the server what it let through, and the
//! server's answer, which has everybody's requests in it, becomes the local count. What all let through too much meanwhile is
//! owed, and paid back before anything passes again. So at the worst, each gateway lets through in one interval what
//! it would have let through alone, and the rate holds over time. While the server is away each gateway limits alone, and tells
//! what it has not told once the server is back.

use std::fmt::Write as _;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kit::LocalBoxFuture;
use kit::dial::{self, Link, Place};
use policy::{Background, Caller};
use telemetry::StoreMetrics;

use super::counts::{Counts, WINDOWS_MAX};
use super::{Tier, resp};

/// Where a store listens.
pub mod store {
    pub use kit::dial::Place;
}

/// Where the counts meet.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    pub place: Place,
    /// How TLS is spoken, where it is.
    pub tls: Option<tls::Client>,
    pub password: Option<String>,
    pub database: u32,
    /// How often counts are told.
    pub interval: Duration,
    /// How long the server may take.
    pub timeout: Duration,
}

/// One limit's counts, told to a store for as long as somebody holds this.
pub struct Shared {
    store: Store,
    counts: Arc<Counts>,
    /// As the policy numbers them.
    tiers: Vec<Tier>,
    link: Mutex<Option<Link>>,
    /// The server answered the last time; a change is worth a line in the log.
    answers: AtomicBool,
    metrics: Arc<StoreMetrics>,
}

/// What one key has to tell.
struct Told {
    key: u64,
    tier: u32,
    untold: u32,
}

/// Keys told with one call. The server does nothing else meanwhile, so a call has to be short.
const KEYS_MAX: usize = 1000;

/// Calls of one round: a hundred thousand keys. What is left waits for the next.
const CALLS_MAX: usize = 100;

/// Adds a cost in microseconds to each key's time and gives how far ahead of the server's clock it is then.
const SCRIPT: &str = "local t = redis.call('TIME') \
    local now = t[1] * 1000000 + t[2] \
    local out = {} \
    for i, key in ipairs(KEYS) do \
    local at = tonumber(redis.call('GET', key) or '0') \
    if at < now then at = now end \
    at = at + tonumber(ARGV[i]) \
    redis.call('SET', key, string.format('%.0f', at), 'PX', math.ceil((at - now) / 1000) + 1000) \
    out[i] = string.format('%.0f', at - now) \
    end \
    return out";

impl Shared {
    /// The counts are those the policy charges; `plans` those of its settings.
    pub fn new(
        store: Store,
        counts: Arc<Counts>,
        otherwise: Tier,
        plans: &[(Box<str>, Tier)],
        metrics: Arc<StoreMetrics>,
    ) -> Shared {
        let plans = plans.iter().map(|(_, tier)| tier.clone());
        Shared {
            store,
            counts,
            tiers: [otherwise].into_iter().chain(plans).collect(),
            link: Mutex::default(),
            answers: AtomicBool::new(true),
            metrics,
        }
    }

    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// True if there is more to tell.
    async fn tell_some(&self) -> bool {
        let mut told = Vec::new();
        self.counts.each_untold(|entry| {
            if told.len() < KEYS_MAX {
                told.push(Told { key: entry.key, tier: entry.tier, untold: entry.untold });
                (entry.untold, entry.refused) = (0, false);
            }
        });
        if told.is_empty() {
            return false;
        }
        let answered = tokio::time::timeout(self.store.timeout, self.tell(&told)).await;
        let answered = answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match answered {
            Ok(ahead) => {
                self.metrics.answered();
                self.learn(&told, &ahead);
                if !self.answers.swap(true, Ordering::Relaxed) {
                    tracing::info!("the store of shared limits answers again");
                }
                told.len() == KEYS_MAX
            }
            Err(error) => {
                self.metrics.failed();
                for told in &told {
                    self.counts.change(told.key, |entry| {
                        entry.untold = entry.untold.saturating_add(told.untold);
                    });
                }
                if self.answers.swap(false, Ordering::Relaxed) {
                    tracing::warn!(%error, "the store of shared limits is away; each gateway limits alone");
                }
                false
            }
        }
    }

    /// The windows of a key's plan, as its policy numbers them.
    fn intervals(&self, tier: u32) -> impl Iterator<Item = u64> {
        let tier = usize::try_from(tier).unwrap_or_default();
        let windows = self.tiers.get(tier).into_iter().flat_map(|tier| &tier.windows);
        windows.take(WINDOWS_MAX).map(super::Window::interval)
    }

    /// How far ahead of now each key is in each window, in microseconds.
    async fn tell(&self, told: &[Told]) -> io::Result<Vec<u64>> {
        let known = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut link = match known {
            Some(link) => link,
            None => self.connect().await?,
        };
        let (mut keys, mut costs) = (Vec::new(), Vec::new());
        for Told { key, tier, untold } in told {
            for (window, interval) in self.intervals(*tier).enumerate() {
                keys.push(format!("tidegate:rate:{key:016x}:{window}"));
                let nanoseconds = u128::from(interval) * u128::from(*untold);
                let mut cost = String::new();
                // Writing to a String does not fail.
                let _always_ok = write!(cost, "{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
                costs.push(cost);
            }
        }
        let count = keys.len().to_string();
        let command = ["EVAL", SCRIPT, &count].into_iter();
        let command = command.chain(keys.iter().chain(&costs).map(String::as_str));
        let ahead = resp::ask(&mut link, command).await?.numbers()?;
        if ahead.len() != keys.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        Ok(ahead)
    }

    async fn connect(&self) -> io::Result<Link> {
        let mut link = match (&self.store.place, &self.store.tls) {
            (Place::Unix(path), _) => Link::over(dial::unix(path).await?),
            (Place::Tcp { host, port }, None) => Link::over(dial::tcp(host, *port).await?),
            (Place::Tcp { host, port }, Some(tls)) => {
                let socket = dial::tcp(host, *port).await?;
                Link::over(tls.connect(host, socket).await?)
            }
        };
        if let Some(password) = &self.store.password {
            resp::ask(&mut link, ["AUTH", password].into_iter()).await?;
        }
        if self.store.database != 0 {
            let database = self.store.database.to_string();
            resp::ask(&mut link, ["SELECT", &database].into_iter()).await?;
        }
        Ok(link)
    }

    fn learn(&self, told: &[Told], ahead: &[u64]) {
        let mut ahead = ahead.iter();
        for Told { key, tier, .. } in told {
            let intervals: Vec<u64> = self.intervals(*tier).collect();
            let theirs: Vec<u64> = ahead.by_ref().take(intervals.len()).copied().collect();
            let now = self.counts.now();
            self.counts.change(*key, |entry| {
                // What passed here since it was told comes on top.
                let since = u64::from(entry.untold);
                for ((paid_at, ahead), interval) in
                    entry.paid_at.iter_mut().zip(&theirs).zip(&intervals)
                {
                    let owed =
                        ahead.saturating_mul(1000).saturating_add(since.saturating_mul(*interval));
                    *paid_at = (*paid_at).max(now.saturating_add(owed));
                }
            });
        }
    }
}

impl Background for Shared {
    fn round<'a>(&'a self, _caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration> {
        Box::pin(async move {
            for _ in 0..CALLS_MAX {
                if !self.tell_some().await {
                    break;
                }
            }
            self.store.interval
        })
    }
}
