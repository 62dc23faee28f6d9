//! Quotas that several gateways share through a Redis or Valkey server.
//!
//! A stream never waits for the server: its messages are counted here, and every interval each gateway tells what has passed and learns
//! what passed elsewhere. So all gateways together let through at most what passes at the others within an interval too much. Whoever
//! opens a stream waits until its count is known. While the server is away each gateway counts alone; what passed is told once it
//! is back.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kit::LocalBoxFuture;
use kit::clock::{self, Instant};
use policy::{Background, Caller};
use telemetry::StoreMetrics;
use tokio::sync::{Notify, oneshot};

use super::{Quota, Quotas, Tier, UnreportedUse, UsedWindow};
use crate::stores::{Line, Store};

/// One policy's quotas, told to a store for as long as somebody holds this.
pub struct SharedQuotas {
    line: Line,
    quotas: Arc<Quotas>,
    /// Streams that wait until the count of their client is known.
    asks: Mutex<Vec<Ask>>,
    /// Rung when there is one.
    bell: Notify,
}

struct Ask {
    windows: Vec<WindowReport>,
    answer: oneshot::Sender<()>,
}

/// The report about one window.
#[derive(Debug, Clone, Copy)]
struct WindowReport {
    client: u64,
    number: usize,
    per: Duration,
    untold: UnreportedUse,
}

/// Streams that wait at once; more begin with what is known here.
const ASKS_MAX: usize = 10_000;

/// Windows told with one call. The server does nothing else meanwhile, so a call has to be short.
const WINDOWS_PER_CALL: usize = 1000;

/// Calls of one round: all windows that there can be. What is left waits for the next.
const CALLS_MAX: usize = 100;

/// Adds messages and bytes to each window, which begins with its first, and gives what is in it then and the milliseconds until it ends;
/// zeros where there is none.
const SCRIPT: &str = "local out = {} \
    for i, key in ipairs(KEYS) do \
    local m, b, left = 0, 0, 0 \
    if ARGV[3 * i - 2] ~= '0' or ARGV[3 * i - 1] ~= '0' or redis.call('EXISTS', key) == 1 then \
    m = redis.call('HINCRBY', key, 'm', ARGV[3 * i - 2]) \
    b = redis.call('HINCRBY', key, 'b', ARGV[3 * i - 1]) \
    left = redis.call('PTTL', key) \
    if left < 0 then left = tonumber(ARGV[3 * i]) redis.call('PEXPIRE', key, left) end \
    end \
    out[#out + 1] = string.format('%.0f', m) \
    out[#out + 1] = string.format('%.0f', b) \
    out[#out + 1] = string.format('%.0f', left) \
    end \
    return out";

impl SharedQuotas {
    /// The quotas are those that the policy charges.
    pub fn new(store: Store, quotas: Arc<Quotas>, metrics: Arc<StoreMetrics>) -> SharedQuotas {
        let line = Line::new(store, metrics);
        SharedQuotas { line, quotas, asks: Mutex::default(), bell: Notify::new() }
    }

    pub fn quotas(&self) -> Arc<Quotas> {
        self.quotas.clone()
    }

    /// Waits until it is known here what a client has used elsewhere, unless the server is away.
    pub(crate) async fn look(&self, client: u64, tier: &Tier) {
        if self.line.is_away() {
            return;
        }
        let told = |(number, quota): (usize, &Quota)| WindowReport {
            client,
            number,
            per: quota.per,
            untold: UnreportedUse::default(),
        };
        let windows: Vec<WindowReport> = tier.numbered().map(told).collect();
        let (answer, known) = oneshot::channel();
        {
            let mut asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
            if asks.len() >= ASKS_MAX || windows.is_empty() {
                return;
            }
            asks.push(Ask { windows, answer });
        }
        self.bell.notify_one();
        // Who asks the server has a deadline, behind one call that is under way. Without an answer it goes on with what is known.
        // Harmless: so it does where the answer is late.
        let _known = tokio::time::timeout(2 * self.line.store.timeout, known).await;
    }

    /// Asks for everybody who waits.
    async fn answer_all(&self) {
        loop {
            let asks: Vec<Ask> = {
                let mut asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
                let count = asks.len().min(WINDOWS_PER_CALL / super::WINDOWS_MAX);
                asks.drain(..count).filter(|ask| !ask.answer.is_closed()).collect()
            };
            if asks.is_empty() {
                return;
            }
            let windows: Vec<WindowReport> =
                asks.iter().flat_map(|ask| ask.windows.clone()).collect();
            if let Some(answer) = self.call(&windows).await {
                self.quotas.learn(&windows, &answer);
            }
            for ask in asks {
                // Harmless: it may have gone meanwhile.
                let _heard = ask.answer.send(());
            }
        }
    }

    /// True if there is more to tell.
    async fn tell_some(&self) -> bool {
        // A server that stops and goes on hears all that it was sent meanwhile.
        if self.line.is_away() && !self.line.ping().await {
            return false;
        }
        let told = self.quotas.take_untold(WINDOWS_PER_CALL);
        if told.is_empty() {
            // Harmless: whether it answers is noted there.
            let _there = self.line.ping().await;
            return false;
        }
        match self.call(&told).await {
            Some(answer) => {
                self.quotas.learn(&told, &answer);
                told.len() == WINDOWS_PER_CALL
            }
            None => {
                self.quotas.take_back(&told);
                false
            }
        }
    }

    /// Tells of what passed. Three numbers for each window.
    async fn call(&self, told: &[WindowReport]) -> Option<Vec<u64>> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for WindowReport { client, number, per, untold } in told {
            keys.push(format!("tidegate:quota:{client:016x}:{number}"));
            values.push(untold.messages.to_string());
            values.push(untold.bytes.to_string());
            values.push(per.as_millis().max(1).to_string());
        }
        let count = keys.len().to_string();
        let command = ["EVAL", SCRIPT, &count].into_iter();
        let command = command.chain(keys.iter().chain(&values).map(String::as_str));
        self.line.numbers(command, values.len()).await
    }
}

impl Background for SharedQuotas {
    fn round<'a>(&'a self, _caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration> {
        Box::pin(async move {
            let answer_all = async || self.answer_all().await;
            self.line.answer_for_an_interval(&self.bell, answer_all).await;
            for _ in 0..CALLS_MAX {
                if !self.tell_some().await {
                    break;
                }
            }
            Duration::ZERO
        })
    }
}

impl Quotas {
    /// Up to so many windows of which nobody was told what passed.
    fn take_untold(&self, max: usize) -> Vec<WindowReport> {
        let now = clock::now();
        let mut all = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            while all.len() < max
                && let Some((client, number)) = shard.untold.pop()
            {
                let Some(used) = shard.windows.get_mut(&(client, number)) else { continue };
                let untold = std::mem::take(&mut used.untold);
                // Nobody asks for a window that is over.
                if used.ends > now && untold != UnreportedUse::default() {
                    all.push(WindowReport { client, number, per: used.per, untold });
                }
            }
        }
        all
    }

    /// Nobody was told of it.
    fn take_back(&self, told: &[WindowReport]) {
        for WindowReport { client, number, untold, .. } in told {
            if let Some(mut shard) = self.shard(*client) {
                self.note(&mut shard, *client, *number, *untold);
            }
        }
    }

    /// Notes what all gateways have let through: messages, bytes, and the milliseconds until the window ends.
    fn learn(&self, told: &[WindowReport], answer: &[u64]) {
        let now = clock::now();
        // Harmless: an answer of another length was refused.
        for (told, numbers) in told.iter().zip(answer.chunks(3)) {
            let &[messages, bytes, left] = numbers else { continue };
            if left == 0 {
                continue;
            }
            let Some(mut shard) = self.shard(told.client) else { continue };
            let used = shard.window(told.client, told.number, told.per, now);
            // No window is longer, whatever the server says.
            let left = Duration::from_millis(left).min(told.per);
            used.learn(messages, bytes, left, now);
        }
    }
}

impl UsedWindow {
    /// What passed here since it was told comes on top of what all have said.
    fn learn(&mut self, messages: u64, bytes: u64, left: Duration, now: Instant) {
        self.messages = messages.saturating_add(self.untold.messages);
        self.bytes = bytes.saturating_add(self.untold.bytes);
        self.ends = now.checked_add(left).unwrap_or(now);
    }
}
