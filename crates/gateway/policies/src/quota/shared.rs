//! Shares quotas among several gateways through a Redis or Valkey server.
//!
//! A stream does not wait for the server for each message: messages are counted locally, and in every interval each gateway reports what
//! has passed and learns what has passed elsewhere. Together, the gateways exceed a quota at most by what passes at the other gateways
//! within an interval. A client that opens a stream waits until its count is known. While the server is unavailable, each gateway counts
//! alone, and reports its counts afterwards.

use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use kit::LocalBoxFuture;
use kit::clock::{self, Instant};
use policy::{Background, Caller};
use telemetry::StoreMetrics;

use super::{Quota, Quotas, Tier, UnreportedUse, UsedWindow};
use crate::stores::{QuestionQueue, Store, StoreConnection};

/// The shared quotas of one policy. Counts are reported to the store for as long as this has an owner.
pub struct SharedQuotas {
    connection: StoreConnection,
    quotas: Arc<Quotas>,
    /// Streams that wait for the count of their client. Each asks for its windows.
    asks: QuestionQueue<Vec<WindowReport>, ()>,
}

/// The report about one window.
#[derive(Debug, Clone, Copy)]
struct WindowReport {
    client: u64,
    number: usize,
    per: Duration,
    unreported: UnreportedUse,
}

/// The maximum number of windows in one call. The server executes one script at a time, so a call must be short.
const WINDOWS_PER_CALL: usize = 1000;

/// Adds messages and bytes to each window, which begins with its first message. Returns the resulting counts and the milliseconds until the
/// window ends, or zeros if there is no window.
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
    /// Creates shared quotas. `quotas` are those that the policy charges.
    pub fn new(store: Store, quotas: Arc<Quotas>, metrics: Arc<StoreMetrics>) -> SharedQuotas {
        let connection = StoreConnection::new(store, metrics);
        SharedQuotas { connection, quotas, asks: QuestionQueue::default() }
    }

    pub fn quotas(&self) -> Arc<Quotas> {
        self.quotas.clone()
    }

    /// Waits until the client's use at other gateways is known, unless the server is unavailable.
    pub(crate) async fn load_counts(&self, client: u64, tier: &Tier) {
        if self.connection.is_away() {
            return;
        }
        let told = |(number, quota): (usize, &Quota)| WindowReport {
            client,
            number,
            per: quota.per,
            unreported: UnreportedUse::default(),
        };
        let windows: Vec<WindowReport> = tier.numbered().map(told).collect();
        if !windows.is_empty() {
            // Harmless: without an answer in time, the locally known counts apply.
            let _ = self.asks.ask(&self.connection, windows).await;
        }
    }

    /// Queries the counts of all waiting streams.
    async fn answer_all(&self) {
        loop {
            // Harmless: the loop takes the rest.
            let asks = self.asks.take(WINDOWS_PER_CALL / super::WINDOWS_MAX);
            if asks.is_empty() {
                return;
            }
            let windows: Vec<WindowReport> =
                asks.iter().flat_map(|ask| ask.question.clone()).collect();
            if let Some(answer) = self.call(&windows).await {
                self.quotas.learn(&windows, &answer);
            }
            for ask in asks {
                // Harmless: the stream may have ended in the meantime.
                let _ = ask.answer.send(());
            }
        }
    }

    /// Reports a batch of counts. Returns true if there is more to report.
    async fn tell_some(&self) -> bool {
        let told = self.quotas.take_unreported(WINDOWS_PER_CALL);
        if told.is_empty() {
            // Harmless: `ping` records whether the server answers.
            let _ = self.connection.ping().await;
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

    /// Reports what has passed. Returns three numbers for each window, or `None` if the server does not answer.
    async fn call(&self, told: &[WindowReport]) -> Option<Vec<u64>> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for WindowReport { client, number, per, unreported } in told {
            keys.push(format!("tidegate:quota:{client:016x}:{number}"));
            values.push(unreported.messages.to_string());
            values.push(unreported.bytes.to_string());
            values.push(per.as_millis().max(1).to_string());
        }
        self.connection.script(SCRIPT, &keys, &values, values.len()).await
    }
}

impl Background for SharedQuotas {
    fn round<'a>(&'a self, _caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration> {
        Box::pin(async move {
            let answer_all = async || self.answer_all().await;
            let report = async || self.tell_some().await;
            self.connection.round(&self.asks, answer_all, report).await;
            Duration::ZERO
        })
    }
}

impl Quotas {
    /// Takes at most `max` windows with unreported counts.
    fn take_unreported(&self, max: usize) -> Vec<WindowReport> {
        let now = clock::now();
        let mut all = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            while all.len() < max
                && let Some((client, number)) = shard.unreported.pop()
            {
                let Some(used) = shard.windows.get_mut(&(client, number)) else { continue };
                let unreported = std::mem::take(&mut used.unreported);
                // An expired window need not be reported.
                if used.ends > now && unreported != UnreportedUse::default() {
                    all.push(WindowReport { client, number, per: used.per, unreported });
                }
            }
        }
        all
    }

    /// Adds back the counts of a report that has failed.
    fn take_back(&self, told: &[WindowReport]) {
        for WindowReport { client, number, unreported, .. } in told {
            if let Some(mut shard) = self.shard(*client) {
                self.note(&mut shard, *client, *number, *unreported);
            }
        }
    }

    /// Records the totals of all gateways: messages, bytes, and the milliseconds until the window ends.
    fn learn(&self, told: &[WindowReport], answer: &[u64]) {
        let now = clock::now();
        // Harmless: an answer of the wrong length was refused.
        for (told, numbers) in told.iter().zip(answer.chunks(3)) {
            let &[messages, bytes, left] = numbers else { continue };
            if left == 0 {
                continue;
            }
            let Some(mut shard) = self.shard(told.client) else { continue };
            let used = shard.window(told.client, told.number, told.per, now);
            // The remaining time is bounded by the length of the window, whatever the server reports.
            let left = Duration::from_millis(left).min(told.per);
            used.learn(messages, bytes, left, now);
        }
    }
}

impl UsedWindow {
    /// Replaces the counts by the totals of all gateways, plus the local counts that are not reported yet.
    fn learn(&mut self, messages: u64, bytes: u64, left: Duration, now: Instant) {
        self.messages = messages.saturating_add(self.unreported.messages);
        self.bytes = bytes.saturating_add(self.unreported.bytes);
        self.ends = now.checked_add(left).unwrap_or(now);
    }
}
