//! Counts that several gateways share through a Redis or Valkey server.
//!
//! A request that the local counts refuse is refused: they know of nothing that did not pass. Of the others, one in a hundred of the
//! burst passes untold, which is none of a small one; for the rest the server is asked, which charges the request where every
//! window allows it, in one step for all gateways. So a burst up to a hundred is exact, and of a larger one each gateway lets through a
//! hundredth too much at the most, which is owed and paid back. Requests that ask at the same time share a call.
//!
//! Every interval a gateway tells what passed untold, and learns what all did. While the server is away, which a call
//! or the question whether it is there shows within a second, each gateway limits alone and no request waits. Once the server is back
//! it is told what of that still counts: what is not paid back, or passed in a window that is not over.
//!
//! A call without an answer may have been heard, so only what passed since the call before may be told twice. No debt that the
//! server names is taken for longer than it can be: its clock may have been set back, as after a failover.

use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kit::LocalBoxFuture;
use policy::{Background, Caller};
use telemetry::StoreMetrics;
use tokio::sync::{Notify, oneshot};

use super::counts::{KeyCounts, SlotEntry, WINDOWS_MAX};
use super::window::on_clock::ClockCounts;
use super::window::{Algorithm, WindowNumbers};
use super::{Tier, Window};
use crate::stores::{Line, Store};

/// One limit's counts, told to a store for as long as somebody holds this.
pub struct SharedCounts {
    line: Line,
    counts: Arc<KeyCounts>,
    /// As the policy numbers them.
    tiers: Vec<Tier>,
    /// Requests that wait for the server's word.
    asks: Mutex<Vec<Ask>>,
    /// Rung when there is one.
    bell: Notify,
}

/// The server's answer to a request.
#[derive(Debug)]
pub(crate) struct StoreAnswer {
    pub(crate) passes: bool,
    /// The numbers of each window.
    pub(crate) numbers: [WindowNumbers; WINDOWS_MAX],
    /// The moment at which they are so.
    pub(crate) now: u64,
}

/// A request that waits for it.
struct Ask {
    key: u64,
    tier: u32,
    answer: oneshot::Sender<StoreAnswer>,
}

/// Requests that wait at once; more are decided alone.
const ASKS_MAX: usize = 10_000;

/// The counts that one key has to tell.
struct CountReport {
    key: u64,
    tier: u32,
    untold: u32,
    /// The part of them that still counts in each window: as nanoseconds that are owed, or as requests in a window on the clock.
    counts: [u64; WINDOWS_MAX],
}

/// The most that a key may owe, in bursts: what has passed at one gateway and at others that limited alone.
const BURSTS_OWED_MAX: u64 = 2;

/// Keys told with one call. The server does nothing else meanwhile, so a call has to be short.
const KEYS_MAX: usize = 1000;

/// Calls of one round: a hundred thousand keys. What is left waits for the next.
const CALLS_MAX: usize = 100;

/// Adds a cost in microseconds to each key's time, which is ahead of the server's clock by no more than allowed, and gives how far
/// ahead it is then.
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

/// For each request: adds what is owed to the times of its key, one for each window, and if none of them is further ahead of
/// the server's clock then than the burst allows, the cost of one more. Gives whether it passes, and how far ahead each is then. A hundredth
/// of a cost is forgiven, for what rounding to microseconds takes. No time is further ahead than two bursts.
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

/// The same for windows on the clock, of which a key has a hash: the end of the window by the server's clock, the requests in it, and
/// those in the one before. Where it asks, the answer says first whether the request passes; then these three for each window.
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

/// The server's numbers for a window on the clock.
const CLOCK_NUMBERS: usize = 3;

impl SharedCounts {
    /// The counts are those the policy charges; `plans` those of its settings.
    pub fn new(
        store: Store,
        counts: Arc<KeyCounts>,
        otherwise: Tier,
        plans: &[(Box<str>, Tier)],
        metrics: Arc<StoreMetrics>,
    ) -> SharedCounts {
        let plans = plans.iter().map(|(_, tier)| tier.clone());
        SharedCounts {
            line: Line::new(store, metrics),
            counts,
            tiers: [otherwise].into_iter().chain(plans).collect(),
            asks: Mutex::default(),
            bell: Notify::new(),
        }
    }

    pub fn counts(&self) -> Arc<KeyCounts> {
        self.counts.clone()
    }

    /// The server did not answer the last time; no request waits for it.
    pub(crate) fn is_away(&self) -> bool {
        self.line.is_away()
    }

    /// True if one more request of a key passes, by the server's word. None where it does not answer.
    pub(crate) async fn ask(&self, key: u64, tier: u32) -> Option<StoreAnswer> {
        let (answer, said) = oneshot::channel();
        {
            let mut asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
            if asks.len() >= ASKS_MAX {
                return None;
            }
            asks.push(Ask { key, tier, answer });
        }
        self.bell.notify_one();
        // Harmless: a caller without an answer decides alone. It has a deadline, after one call that is in progress.
        tokio::time::timeout(2 * self.line.store.timeout, said).await.ok()?.ok()
    }

    /// Asks for everybody who waits.
    async fn answer_all(&self) {
        loop {
            let asks: Vec<Ask> = {
                let mut asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
                let count = asks.len().min(KEYS_MAX);
                asks.drain(..count).filter(|ask| !ask.answer.is_closed()).collect()
            };
            if asks.is_empty() {
                return;
            }
            let told: Vec<CountReport> = asks.iter().map(|ask| self.untold(ask)).collect();
            match self.call(&told, true).await {
                Some(said) => self.pass_on(asks, &told, &said),
                // Without an answer they decide alone.
                None => self.take_back(&told),
            }
        }
    }

    /// The requests of a key that passed untold go with it.
    fn untold(&self, ask: &Ask) -> CountReport {
        let (key, tier) = (ask.key, ask.tier);
        let mut told = CountReport { key, tier, untold: 0, counts: [0; WINDOWS_MAX] };
        let now = self.counts.now();
        self.counts.change(key, |entry| {
            told.counts = self.still_counting(entry, now);
            told.untold = std::mem::take(&mut entry.untold);
        });
        told
    }

    /// The part of what a key has to tell that counts at this moment. What passed long ago, while the server was away, is paid back.
    fn still_counting(&self, entry: &SlotEntry, now: u64) -> [u64; WINDOWS_MAX] {
        let mut counts = [0; WINDOWS_MAX];
        let untold = u64::from(entry.untold);
        // Harmless: windows never outnumber places.
        for ((at, window), count) in self.windows(entry.tier).enumerate().zip(&mut counts) {
            let numbers = entry.numbers_of(at, window);
            *count = if self.is_on_clock() {
                untold.min(ClockCounts::of(window, numbers, now).count)
            } else {
                let owed = numbers[0].saturating_sub(now);
                untold.saturating_mul(window.interval()).min(owed)
            };
        }
        counts
    }

    /// Nobody was told of it.
    fn take_back(&self, told: &[CountReport]) {
        for told in told {
            self.counts.change(told.key, |entry| {
                entry.untold = entry.untold.saturating_add(told.untold);
            });
        }
    }

    fn pass_on(&self, asks: Vec<Ask>, told: &[CountReport], said: &[u64]) {
        let mut said = said.iter().copied();
        // Harmless: each ask was reported, and an answer of another length was refused.
        for (ask, told) in asks.into_iter().zip(told) {
            let passes = said.next() == Some(1);
            // Harmless: the rest belongs to the asks after it.
            let theirs: Vec<u64> = said.by_ref().take(self.told_numbers(ask.tier)).collect();
            self.learn_one(told, &theirs);
            let (numbers, now) = self.standings(ask.tier, &theirs);
            // Harmless: it may have gone meanwhile.
            let _heard = ask.answer.send(StoreAnswer { passes, numbers, now });
        }
    }

    /// True if there is more to tell.
    async fn tell_some(&self) -> bool {
        // A server that stops and goes on hears all that it was sent meanwhile.
        if self.is_away() && !self.line.ping().await {
            return false;
        }
        let mut told = Vec::new();
        let now = self.counts.now();
        self.counts.each_untold(|entry| {
            if told.len() < KEYS_MAX {
                let counts = self.still_counting(entry, now);
                let (key, tier, untold) = (entry.key, entry.tier, entry.untold);
                told.push(CountReport { key, tier, untold, counts });
                (entry.untold, entry.refused) = (0, false);
            }
        });
        if told.is_empty() {
            // Harmless: whether it answers is noted there.
            let _there = self.line.ping().await;
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

    /// As many numbers as the server says of a key.
    fn told_numbers(&self, tier: u32) -> usize {
        let each = if self.is_on_clock() { CLOCK_NUMBERS } else { 1 };
        self.windows(tier).count() * each
    }

    /// The numbers of each window by the server's word, and the moment at which they are so.
    fn standings(&self, tier: u32, theirs: &[u64]) -> ([WindowNumbers; WINDOWS_MAX], u64) {
        let mut numbers = [[0; 2]; WINDOWS_MAX];
        if !self.is_on_clock() {
            // Harmless: the server gives as many numbers as it is asked for.
            for ((place, window), ahead) in numbers.iter_mut().zip(self.windows(tier)).zip(theirs) {
                *place = [owed(window, *ahead), 0];
            }
            return (numbers, 0);
        }
        // Harmless: an answer of another length was refused, and there are as many places as a limit may have windows.
        let counts = self.windows(tier).zip(theirs.chunks(CLOCK_NUMBERS));
        // Harmless: as above.
        for (place, (window, theirs)) in numbers.iter_mut().zip(counts) {
            *place = clock_counts(theirs).numbers(window);
        }
        (numbers, self.counts.now())
    }

    /// Tells of what passed; where it `asks`, one more request of each key comes with that. How far ahead of now each key is in
    /// each window, in microseconds, and before that whether the request passes.
    async fn call(&self, told: &[CountReport], asks: bool) -> Option<Vec<u64>> {
        if self.is_on_clock() {
            return self.call_on_clock(told, asks).await;
        }
        let (mut keys, mut costs) = (Vec::new(), Vec::new());
        for CountReport { key, tier, counts, .. } in told {
            if asks {
                costs.push(self.windows(*tier).count().to_string());
            }
            // Harmless: windows never outnumber places.
            for ((index, window), owed) in self.windows(*tier).enumerate().zip(counts) {
                keys.push(key_of(*key, index));
                costs.push(microseconds(*owed));
                if asks {
                    costs.push(microseconds(window.interval()));
                    costs.push(microseconds(window.tolerance()));
                } else {
                    costs.push(microseconds(owed_max(window)))
                }
            }
        }
        let (script, verdicts) = if asks { (ASK, told.len()) } else { (SCRIPT, 0) };
        let count = keys.len().to_string();
        let command = ["EVAL", script, &count].into_iter();
        let command = command.chain(keys.iter().chain(&costs).map(String::as_str));
        self.line.numbers(command, keys.len() + verdicts).await
    }

    /// The same for windows on the clock.
    async fn call_on_clock(&self, told: &[CountReport], asks: bool) -> Option<Vec<u64>> {
        let (mut keys, mut arguments) = (Vec::new(), Vec::new());
        for CountReport { key, tier, counts, .. } in told {
            arguments.push(self.windows(*tier).count().to_string());
            arguments.push(u8::from(asks).to_string());
            // Harmless: windows never outnumber places.
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
        let count = keys.len().to_string();
        let command = ["EVAL", ON_CLOCK, &count].into_iter();
        let command = command.chain(keys.iter().chain(&arguments).map(String::as_str));
        self.line.numbers(command, CLOCK_NUMBERS * keys.len() + verdicts).await
    }

    fn learn(&self, told: &[CountReport], said: &[u64]) {
        let mut said = said.iter();
        for told in told {
            let count = self.told_numbers(told.tier);
            // Harmless: the rest belongs to the keys after it.
            let theirs: Vec<u64> = said.by_ref().take(count).copied().collect();
            self.learn_one(told, &theirs);
        }
    }

    fn learn_one(&self, told: &CountReport, theirs: &[u64]) {
        let now = self.counts.now();
        self.counts.with_entry(told.key, told.tier, now, |entry| {
            // What passed here since it was told comes on top.
            let since = u64::from(entry.untold);
            let each = if self.is_on_clock() { CLOCK_NUMBERS } else { 1 };
            for ((at, window), theirs) in
                // Harmless: an answer of another length was refused.
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

/// The name of a key's window in the server.
fn key_of(key: u64, window: usize) -> String {
    format!("tidegate:rate:{key:016x}:{window}")
}

/// The most that a key may owe in a window, in nanoseconds.
fn owed_max(window: &Window) -> u64 {
    window.tolerance().saturating_mul(BURSTS_OWED_MAX)
}

/// The debt that the server names in microseconds, in nanoseconds.
fn owed(window: &Window, ahead: u64) -> u64 {
    ahead.saturating_mul(1000).min(owed_max(window))
}

fn clock_counts(theirs: &[u64]) -> ClockCounts {
    let mut theirs = theirs.iter().copied();
    let mut next = || theirs.next().unwrap_or(0);
    ClockCounts { end: next(), count: next(), before: next() }
}

/// The numbers of a window after the server's word. Where the server's clock is in another window than ours, it says nothing of ours.
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

/// Nanoseconds as the script adds them.
fn microseconds(nanoseconds: u64) -> String {
    let mut text = String::new();
    // Harmless: writing to a String does not fail.
    let _always_ok = write!(text, "{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
    text
}

impl Background for SharedCounts {
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
