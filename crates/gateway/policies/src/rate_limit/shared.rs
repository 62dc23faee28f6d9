//! Shares counts among several gateways through a Redis or Valkey server.
//!
//! A request that the local counts refuse is refused, since they contain only requests that have passed. Of the other requests, up to a
//! hundredth of the burst may pass without asking the server. For the rest, the server is asked: it charges the request if every window
//! allows it, atomically for all gateways. So a burst of up to a hundred is exact, and each gateway exceeds a larger one by at most a
//! hundredth, which is charged afterwards. Requests that ask at the same time share a call.
//!
//! In every interval, a gateway reports the requests that passed without asking, and learns the totals. While the server is unavailable,
//! which a call or a ping detects within a second, each gateway limits alone and no request waits. Once the server is available again, the
//! gateway reports what still counts: debts that are not paid back, and requests in windows that are not over.
//!
//! If the answer to a call does not arrive, the server may have executed the call nevertheless. The requests since the previous call are
//! then counted twice, but no others. Debts reported by the server are bounded by their possible maximum, because its clock may have been
//! set back, for example after a failover.

use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kit::LocalBoxFuture;
use policy::{Background, Caller};
use telemetry::StoreMetrics;

use super::counts::{KeyCounts, SlotEntry, WINDOWS_MAX};
use super::window::on_clock::ClockCounts;
use super::window::{Algorithm, WindowNumbers};
use super::{Tier, Window};
use crate::stores::{self, QuestionQueue, Store, StoreConnection};

/// The shared counts of one limit. They are reported to the store for as long as this has an owner.
pub struct SharedCounts {
    connection: StoreConnection,
    counts: Arc<KeyCounts>,
    /// The tiers, in the order of the policy's indices.
    tiers: Vec<Tier>,
    /// Requests that wait for the server's answer.
    asks: QuestionQueue<KeyQuestion, StoreAnswer>,
}

/// The server's answer to a request.
#[derive(Debug)]
pub(crate) struct StoreAnswer {
    pub(crate) passes: bool,
    /// The resulting numbers of each window.
    pub(crate) numbers: [WindowNumbers; WINDOWS_MAX],
    /// The time to which the numbers refer.
    pub(crate) now: u64,
}

/// Whether one more request of a key passes.
struct KeyQuestion {
    key: u64,
    tier: u32,
    /// Whether the request is charged if it passes. Otherwise it only asks how its key stands.
    charges: bool,
}

/// A request that waits for an answer.
type WaitingQuestion = stores::WaitingQuestion<KeyQuestion, StoreAnswer>;

/// The unreported counts of one key.
struct CountReport {
    key: u64,
    tier: u32,
    unreported: u32,
    /// The part of them that still counts in each window: nanoseconds of debt, or the number of requests in a clock-aligned window.
    counts: [u64; WINDOWS_MAX],
}

/// The maximum number of keys in one call. The server executes one script at a time, so a call must be short.
const KEYS_MAX: usize = 1000;

/// Adds a cost in microseconds to each key's time, but not further ahead of the server's clock than allowed. Returns how far ahead each
/// time is then.
const SCRIPT: &str = "local t = redis.call('TIME') \
    local now = t[1] * 1000000 + t[2] \
    local out = {} \
    for i, key in ipairs(KEYS) do \
    local at = tonumber(redis.call('GET', key) or '0') \
    if at < now then at = now end \
    at = math.min(at + tonumber(ARGV[2 * i - 1]), now + tonumber(ARGV[2 * i])) \
    redis.call('SET', key, string.format('%.0f', at), 'PX', math.ceil((at - now) / 1000) + 1000) \
    out[i] = string.format('%.0f', at - now) \
    end \
    return out";

/// For each request: adds the debt to the times of its key, one for each window. If none of them is then further ahead of the server's
/// clock than the burst allows, adds the cost of one more request. Returns whether the request passes, and how far ahead each time is then.
/// A tolerance of a hundredth of the cost compensates for rounding to microseconds. No time is further ahead than two bursts.
const ASK: &str = "local t = redis.call('TIME') \
    local now = t[1] * 1000000 + t[2] \
    local out, k, a = {}, 0, 1 \
    while ARGV[a] do \
    local n, ats, passes = tonumber(ARGV[a]), {}, 1 \
    for w = 1, n do \
    local at = tonumber(redis.call('GET', KEYS[k + w]) or '0') \
    if at < now then at = now end \
    at = math.min(at + tonumber(ARGV[a + 3 * w - 2]), now + 2 * tonumber(ARGV[a + 3 * w])) \
    ats[w] = at \
    local cost = tonumber(ARGV[a + 3 * w - 1]) \
    if at + cost - now > tonumber(ARGV[a + 3 * w]) + cost / 100 then passes = 0 end \
    end \
    out[#out + 1] = passes \
    for w = 1, n do \
    local at = ats[w] + passes * tonumber(ARGV[a + 3 * w - 1]) \
    redis.call('SET', KEYS[k + w], string.format('%.0f', at), 'PX', math.ceil((at - now) / 1000) + 1000) \
    out[#out + 1] = string.format('%.0f', at - now) \
    end \
    k, a = k + n, a + 3 * n + 1 \
    end \
    return out";

/// The script for clock-aligned windows. Each is a hash with the end of the window by the server's clock, the requests in it, and those in
/// the previous window. For a key with a request to decide, the answer begins with 1 if the request passes, and 0 otherwise. Then follow
/// these three numbers for each window.
const ON_CLOCK: &str = "local t = redis.call('TIME') \
    local now = t[1] + t[2] / 1000000 \
    local out, k, a = {}, 0, 1 \
    while ARGV[a] do \
    local n, asks = tonumber(ARGV[a]), tonumber(ARGV[a + 1]) \
    local es, cs, ps, passes = {}, {}, {}, asks \
    for w = 1, n do \
    local i = a + 4 * w - 2 \
    local per = tonumber(ARGV[i + 2]) \
    local e = (math.floor(t[1] / per) + 1) * per \
    local had = redis.call('HMGET', KEYS[k + w], 'e', 'c', 'p') \
    local he, c, p = tonumber(had[1] or '0'), tonumber(had[2] or '0'), tonumber(had[3] or '0') \
    if he == e - per then p, c = c, 0 elseif he ~= e then p, c = 0, 0 end \
    c = c + tonumber(ARGV[i]) \
    local used = c + 1 + p * tonumber(ARGV[i + 3]) * (e - now) / per \
    if used > tonumber(ARGV[i + 1]) then passes = 0 end \
    es[w], cs[w], ps[w] = e, c, p \
    end \
    if asks == 1 then out[#out + 1] = passes end \
    for w = 1, n do \
    local per = tonumber(ARGV[a + 4 * w]) \
    local c = cs[w] + asks * passes \
    redis.call('HSET', KEYS[k + w], 'e', es[w], 'c', c, 'p', ps[w]) \
    redis.call('EXPIRE', KEYS[k + w], 2 * per + 1) \
    out[#out + 1] = string.format('%.0f', es[w]) \
    out[#out + 1] = string.format('%.0f', c) \
    out[#out + 1] = string.format('%.0f', ps[w]) \
    end \
    k, a = k + n, a + 4 * n + 2 \
    end \
    return out";

/// The number of values that the server returns for a clock-aligned window.
const CLOCK_NUMBERS: usize = 3;

impl SharedCounts {
    /// Creates shared counts. `counts` are those that the policy charges, and `plans` those of its settings.
    pub fn new(
        store: Store,
        counts: Arc<KeyCounts>,
        otherwise: Tier,
        plans: &[(Box<str>, Tier)],
        metrics: Arc<StoreMetrics>,
    ) -> SharedCounts {
        let plans = plans.iter().map(|(_, tier)| tier.clone());
        SharedCounts {
            connection: StoreConnection::new(store, metrics),
            counts,
            tiers: [otherwise].into_iter().chain(plans).collect(),
            asks: QuestionQueue::default(),
        }
    }

    pub fn counts(&self) -> Arc<KeyCounts> {
        self.counts.clone()
    }

    /// Returns true if the server did not answer the last call. Then no request waits for it.
    pub(crate) fn is_away(&self) -> bool {
        self.connection.is_away()
    }

    /// Asks the server whether one more request of a key passes. With `charges`, the server charges a request that passes. Returns `None`
    /// if the server does not answer, or if too many requests wait for it.
    pub(crate) async fn ask(&self, key: u64, tier: u32, charges: bool) -> Option<StoreAnswer> {
        self.asks.ask(&self.connection, KeyQuestion { key, tier, charges }).await
    }

    /// Asks the server about all waiting requests.
    async fn answer_all(&self) {
        loop {
            // Harmless: the loop takes the rest.
            let asks = self.asks.take(KEYS_MAX);
            if asks.is_empty() {
                return;
            }
            let (charged, looks): (Vec<WaitingQuestion>, Vec<WaitingQuestion>) =
                asks.into_iter().partition(|ask| ask.question.charges);
            self.answer(charged, true).await;
            self.answer(looks, false).await;
        }
    }

    async fn answer(&self, asks: Vec<WaitingQuestion>, charges: bool) {
        if asks.is_empty() {
            return;
        }
        let told: Vec<CountReport> =
            asks.iter().map(|ask| self.unreported(&ask.question)).collect();
        match self.call(&told, charges).await {
            Some(said) => self.pass_on(asks, &told, &said),
            // Without an answer, the local counts decide.
            None => self.take_back(&told),
        }
    }

    /// Returns the report for a waiting request, which includes the unreported requests of its key.
    fn unreported(&self, &KeyQuestion { key, tier, .. }: &KeyQuestion) -> CountReport {
        let mut told = CountReport { key, tier, unreported: 0, counts: [0; WINDOWS_MAX] };
        let now = self.counts.now();
        self.counts.change(key, |entry| {
            told.counts = self.still_counting(entry, now);
            told.unreported = std::mem::take(&mut entry.unreported);
        });
        told
    }

    /// Returns the part of a key's unreported counts that still counts. Requests that passed long ago, while the server was unavailable, do
    /// not count any more.
    fn still_counting(&self, entry: &SlotEntry, now: u64) -> [u64; WINDOWS_MAX] {
        let mut counts = [0; WINDOWS_MAX];
        let unreported = u64::from(entry.unreported);
        // Harmless: there are at most `WINDOWS_MAX` windows.
        for ((at, window), count) in self.windows(entry.tier).enumerate().zip(&mut counts) {
            let numbers = entry.numbers_of(at, window);
            *count = if self.is_on_clock() {
                unreported.min(ClockCounts::of(window, numbers, now).count)
            } else {
                let owed = numbers[0].saturating_sub(now);
                unreported.saturating_mul(window.interval()).min(owed)
            };
        }
        counts
    }

    /// Adds back the counts of a report that has failed.
    fn take_back(&self, told: &[CountReport]) {
        for told in told {
            self.counts.change(told.key, |entry| {
                entry.unreported = entry.unreported.saturating_add(told.unreported);
            });
        }
    }

    fn pass_on(&self, asks: Vec<WaitingQuestion>, told: &[CountReport], said: &[u64]) {
        let mut said = said.iter().copied();
        // Harmless: there is a report for each request, and an answer of the wrong length was refused.
        for (ask, told) in asks.into_iter().zip(told) {
            let charged = ask.question.charges.then(|| said.next() == Some(1));
            // Harmless: the rest belongs to the following requests.
            let theirs: Vec<u64> = said.by_ref().take(self.told_numbers(told.tier)).collect();
            self.learn_one(told, &theirs);
            let (numbers, now) = self.standings(told.tier, &theirs);
            let fits =
                |(window, numbers): (&Window, &WindowNumbers)| window.charge(*numbers, now).is_ok();
            // Harmless: there is one set of numbers for each window of a limit.
            let looked = || self.windows(told.tier).zip(&numbers).all(fits);
            let passes = charged.unwrap_or_else(looked);
            // Harmless: the request may have ended in the meantime.
            let _ = ask.answer.send(StoreAnswer { passes, numbers, now });
        }
    }

    /// Reports a batch of counts. Returns true if there is more to report.
    async fn tell_some(&self) -> bool {
        let mut told = Vec::new();
        let now = self.counts.now();
        self.counts.each_unreported(|entry| {
            if told.len() < KEYS_MAX {
                let counts = self.still_counting(entry, now);
                let (key, tier, unreported) = (entry.key, entry.tier, entry.unreported);
                told.push(CountReport { key, tier, unreported, counts });
                (entry.unreported, entry.refused) = (0, false);
            }
        });
        if told.is_empty() {
            // Harmless: `ping` records whether the server answers.
            let _ = self.connection.ping().await;
            return false;
        }
        match self.call(&told, false).await {
            Some(ahead) => {
                self.learn(&told, &ahead);
                told.len() == KEYS_MAX
            }
            None => {
                self.take_back(&told);
                false
            }
        }
    }

    fn windows(&self, tier: u32) -> impl Iterator<Item = &Window> {
        let windows = self.tiers.get(tier as usize).into_iter().flat_map(|tier| &tier.windows);
        // Harmless: a configuration with more windows is refused.
        windows.take(WINDOWS_MAX)
    }

    fn is_on_clock(&self) -> bool {
        self.counts.algorithm().is_on_clock()
    }

    /// Returns the number of values that the server returns for a key.
    fn told_numbers(&self, tier: u32) -> usize {
        let each = if self.is_on_clock() { CLOCK_NUMBERS } else { 1 };
        self.windows(tier).count() * each
    }

    /// Converts the server's answer to the numbers of each window, and the time to which they refer.
    fn standings(&self, tier: u32, theirs: &[u64]) -> ([WindowNumbers; WINDOWS_MAX], u64) {
        let mut numbers = [[0; 2]; WINDOWS_MAX];
        if !self.is_on_clock() {
            // Harmless: an answer of the wrong length was refused.
            for ((place, window), ahead) in numbers.iter_mut().zip(self.windows(tier)).zip(theirs) {
                *place = [owed(window, *ahead), 0];
            }
            return (numbers, 0);
        }
        // Harmless: an answer of the wrong length was refused, and there is one slot for each window of a limit.
        let counts = self.windows(tier).zip(theirs.chunks(CLOCK_NUMBERS));
        // Harmless: as above.
        for (place, (window, theirs)) in numbers.iter_mut().zip(counts) {
            *place = clock_counts(theirs).numbers(window);
        }
        (numbers, self.counts.now())
    }

    /// Reports what has passed. With `asks`, also asks about one more request of each key. Returns for each key whether the request passes,
    /// if asked, and how far ahead of now the key is in each window, in microseconds. Returns `None` if the server does not answer.
    async fn call(&self, told: &[CountReport], asks: bool) -> Option<Vec<u64>> {
        if self.is_on_clock() {
            return self.call_on_clock(told, asks).await;
        }
        let (mut keys, mut costs) = (Vec::new(), Vec::new());
        for CountReport { key, tier, counts, .. } in told {
            if asks {
                costs.push(self.windows(*tier).count().to_string());
            }
            // Harmless: there are at most `WINDOWS_MAX` windows.
            for ((index, window), owed) in self.windows(*tier).enumerate().zip(counts) {
                keys.push(key_of(*key, index));
                costs.push(microseconds(*owed));
                if asks {
                    costs.push(microseconds(window.interval()));
                    costs.push(microseconds(window.tolerance()));
                } else {
                    costs.push(microseconds(window.owed_max()))
                }
            }
        }
        let (script, verdicts) = if asks { (ASK, told.len()) } else { (SCRIPT, 0) };
        self.connection.script(script, &keys, &costs, keys.len() + verdicts).await
    }

    /// Like `call`, for clock-aligned windows.
    async fn call_on_clock(&self, told: &[CountReport], asks: bool) -> Option<Vec<u64>> {
        let (mut keys, mut arguments) = (Vec::new(), Vec::new());
        for CountReport { key, tier, counts, .. } in told {
            arguments.push(self.windows(*tier).count().to_string());
            arguments.push(u8::from(asks).to_string());
            // Harmless: there are at most `WINDOWS_MAX` windows.
            for ((index, window), count) in self.windows(*tier).enumerate().zip(counts) {
                keys.push(key_of(*key, index));
                arguments.push(count.to_string());
                arguments.push(window.requests.to_string());
                arguments.push(window.per.as_secs().max(1).to_string());
                let slides = window.algorithm == Algorithm::Sliding;
                arguments.push(u8::from(slides).to_string());
            }
        }
        let verdicts = if asks { told.len() } else { 0 };
        let count = CLOCK_NUMBERS * keys.len() + verdicts;
        self.connection.script(ON_CLOCK, &keys, &arguments, count).await
    }

    fn learn(&self, told: &[CountReport], said: &[u64]) {
        let mut said = said.iter();
        for told in told {
            let count = self.told_numbers(told.tier);
            // Harmless: the rest belongs to the following keys.
            let theirs: Vec<u64> = said.by_ref().take(count).copied().collect();
            self.learn_one(told, &theirs);
        }
    }

    fn learn_one(&self, told: &CountReport, theirs: &[u64]) {
        let now = self.counts.now();
        self.counts.with_entry(told.key, told.tier, now, |entry| {
            // Requests that have passed since the report are added.
            let since = u64::from(entry.unreported);
            let each = if self.is_on_clock() { CLOCK_NUMBERS } else { 1 };
            for ((at, window), theirs) in
                // Harmless: an answer of the wrong length was refused.
                self.windows(told.tier).enumerate().zip(theirs.chunks(each))
            {
                let ours = entry.numbers_of(at, window);
                let learned = if self.is_on_clock() {
                    learned_on_clock(window, ours, clock_counts(theirs), since, now)
                } else {
                    let ahead = theirs.first().copied().unwrap_or(0);
                    let since = since.saturating_mul(window.interval());
                    let owed = owed(window, ahead).saturating_add(since);
                    [ours[0].max(now.saturating_add(owed)), 0]
                };
                entry.set_numbers_of(at, window, learned);
            }
        });
    }
}

/// Returns the name of a key's window in the server.
fn key_of(key: u64, window: usize) -> String {
    format!("tidegate:rate:{key:016x}:{window}")
}

/// Converts a debt reported by the server, in microseconds, to nanoseconds, and bounds it.
fn owed(window: &Window, ahead: u64) -> u64 {
    ahead.saturating_mul(1000).min(window.owed_max())
}

fn clock_counts(theirs: &[u64]) -> ClockCounts {
    let mut theirs = theirs.iter().copied();
    let mut next = || theirs.next().unwrap_or(0);
    ClockCounts { end: next(), count: next(), before: next() }
}

/// Returns the numbers of a window after the server's answer. If the server's clock is in a different window, the answer does not apply.
fn learned_on_clock(
    window: &Window,
    ours: WindowNumbers,
    theirs: ClockCounts,
    since: u64,
    now: u64,
) -> WindowNumbers {
    let known = ClockCounts::of(window, ours, now);
    if known.end == theirs.end {
        ClockCounts {
            end: known.end,
            count: known.count.max(theirs.count.saturating_add(since)),
            before: known.before.max(theirs.before),
        }
        .numbers(window)
    } else {
        ours
    }
}

/// Formats nanoseconds as the microseconds that the scripts add.
fn microseconds(nanoseconds: u64) -> String {
    let mut text = String::new();
    let _ = write!(text, "{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
    text
}

impl Background for SharedCounts {
    fn round<'a>(&'a self, _caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration> {
        Box::pin(async move {
            let answer_all = async || self.answer_all().await;
            let report = async || self.tell_some().await;
            self.connection.round(&self.asks, answer_all, report).await;
            Duration::ZERO
        })
    }
}
