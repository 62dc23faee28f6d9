//! Requests, errors and times of each route over the last hour.
//!
//! Owns the samples. One is taken every [`STEP`] on a thread that is not a worker: the counts of each route since the
//! previous sample. Workers are not affected. A route without requests takes no memory, and the number of rows in all samples
//! is limited.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::histogram::{Sum, WAIT_MICROS};
use crate::named_map::NamedMap;
use crate::route::{CLASSES, RouteMetrics};

/// The length of a sample. It is short enough to show a change soon.
pub const STEP: Duration = Duration::from_secs(30);

/// The number of samples in an hour.
const SAMPLES_MAX: usize = 120;

/// The limit of rows in all samples, about 20 MiB: 1,600 routes that are busy for the whole hour. Above it, the oldest
/// samples are removed.
const ROWS_MAX: usize = 200_000;

const BUCKETS: usize = WAIT_MICROS.len() + 1;

/// The samples of the last hour.
#[derive(Debug)]
pub struct Traffic(Mutex<Samples>);

#[derive(Debug)]
struct Samples {
    /// The counts of the routes at the end of the last sample, without unused routes.
    counted: BTreeMap<Arc<str>, Counts<u64>>,
    /// The end of the last sample, since the Unix epoch.
    taken: Duration,
    /// The samples, oldest first.
    closed: VecDeque<Sample>,
    /// The number of rows in all samples.
    rows: usize,
}

/// The counts of one interval.
#[derive(Debug)]
struct Sample {
    begin: Duration,
    end: Duration,
    /// The routes with requests, in the order of their names.
    rows: Vec<(Arc<str>, Counts<u32>)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts<N> {
    client_errors: N,
    server_errors: N,
    /// Requests by duration. Their sum is the number of requests.
    buckets: [N; BUCKETS],
}

/// The traffic of one interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrafficPoint {
    /// Since the Unix epoch.
    pub begin: Duration,
    pub seconds: f64,
    pub numbers: TrafficNumbers,
}

/// Requests, errors, and the 50th, 95th and 99th percentile of the durations. There are no percentiles without
/// requests.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TrafficNumbers {
    pub requests: u64,
    pub client_errors: u64,
    pub server_errors: u64,
    pub p50: Option<Duration>,
    pub p95: Option<Duration>,
    pub p99: Option<Duration>,
}

/// A route over the whole time.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteTraffic {
    pub name: Arc<str>,
    pub numbers: TrafficNumbers,
    /// Requests per second in the newest samples.
    pub rate: f64,
}

impl Traffic {
    /// Creates traffic without samples. `now` is the time since the Unix epoch.
    pub(crate) fn new(now: Duration) -> Traffic {
        let (counted, closed) = (BTreeMap::new(), VecDeque::new());
        Traffic(Mutex::new(Samples { counted, taken: now, closed, rows: 0 }))
    }

    /// Ends a sample.
    pub(crate) fn sample(&self, routes: &NamedMap<RouteMetrics>, now: Duration) {
        let readings = readings(routes);
        let mut samples = self.lock();
        let sample = samples.open(&readings, now);
        samples.counted = readings;
        samples.taken = now;
        samples.rows += sample.rows.len();
        samples.closed.push_back(sample);
        while samples.closed.len() > SAMPLES_MAX || samples.rows > ROWS_MAX {
            let Some(oldest) = samples.closed.pop_front() else { break };
            samples.rows -= oldest.rows.len();
        }
    }

    /// The traffic of all routes in each sample, oldest first, and of each route in total. The last sample is the current one, which
    /// has not ended.
    pub(crate) fn all(
        &self,
        routes: &NamedMap<RouteMetrics>,
        now: Duration,
    ) -> (Vec<TrafficPoint>, Vec<RouteTraffic>) {
        let readings = readings(routes);
        let samples = self.lock();
        let open = samples.open(&readings, now);
        let all = || samples.closed.iter().chain([&open]);
        let mut sums: BTreeMap<&Arc<str>, Counts<u64>> = BTreeMap::new();
        for (name, counts) in all().flat_map(|sample| &sample.rows) {
            sums.entry(name).or_default().add(counts);
        }
        // Harmless: the newest two are enough for a rate.
        let newest: Vec<&Sample> = all().rev().take(2).collect();
        let routes = sums.into_iter().map(|(name, counts)| RouteTraffic {
            name: name.clone(),
            numbers: counts.numbers(),
            rate: rate(&newest, name),
        });
        let routes = routes.collect();
        (all().map(|sample| sample.point(|_| true)).collect(), routes)
    }

    /// The traffic of one route in each sample, oldest first.
    pub(crate) fn of(
        &self,
        routes: &NamedMap<RouteMetrics>,
        name: &str,
        now: Duration,
    ) -> Vec<TrafficPoint> {
        let readings = readings(routes);
        let samples = self.lock();
        let open = samples.open(&readings, now);
        let all = samples.closed.iter().chain([&open]);
        all.map(|sample| sample.point(|other| other == name)).collect()
    }

    /// Requests and server errors in total.
    pub(crate) fn sum(&self, routes: &NamedMap<RouteMetrics>, now: Duration) -> (u64, u64) {
        let (points, _) = self.all(routes, now);
        let numbers = points.iter().map(|point| point.numbers);
        numbers.fold((0, 0), |(requests, errors), numbers| {
            (requests + numbers.requests, errors + numbers.server_errors)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Samples {
    /// The sample that has not ended yet.
    fn open(&self, readings: &BTreeMap<Arc<str>, Counts<u64>>, now: Duration) -> Sample {
        // Harmless: routes without requests have no rows.
        let rows = readings.iter().filter_map(|(name, counts)| {
            // Harmless: a route that counted nothing before counts from zero.
            let before = self.counted.get(name).copied().unwrap_or_default();
            let counts = counts.since(&before);
            (counts.requests() > 0).then(|| (name.clone(), counts))
        });
        Sample { begin: self.taken, end: now.max(self.taken), rows: rows.collect() }
    }
}

impl Sample {
    fn seconds(&self) -> f64 {
        // A clock that was set back must not make a rate infinite.
        self.end.saturating_sub(self.begin).as_secs_f64().max(0.1)
    }

    fn point(&self, wanted: impl Fn(&str) -> bool) -> TrafficPoint {
        let mut sum = Counts::<u64>::default();
        for (_, counts) in self.rows.iter().filter(|(name, _)| wanted(name)) {
            sum.add(counts);
        }
        TrafficPoint { begin: self.begin, seconds: self.seconds(), numbers: sum.numbers() }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a rate needs no more than 52 bits of precision")]
fn rate(newest: &[&Sample], name: &str) -> f64 {
    let mut requests = 0;
    for sample in newest {
        // Harmless: a route without a row had no requests.
        if let Ok(at) = sample.rows.binary_search_by(|(other, _)| (**other).cmp(name)) {
            requests += sample.rows.get(at).map_or(0, |(_, counts)| counts.requests());
        }
    }
    requests as f64 / newest.iter().map(|sample| sample.seconds()).sum::<f64>()
}

/// Requests and server errors since the start.
pub(crate) fn exchanges(routes: &NamedMap<RouteMetrics>) -> (u64, u64) {
    readings(routes).values().fold((0, 0), |(requests, errors), counts| {
        (requests + counts.buckets.iter().sum::<u64>(), errors + counts.server_errors)
    })
}

/// The counts of each route so far, without unused routes.
fn readings(routes: &NamedMap<RouteMetrics>) -> BTreeMap<Arc<str>, Counts<u64>> {
    // Harmless: a route that no worker has served has no counts.
    let read = |(name, route): (Box<str>, Arc<RouteMetrics>)| Some((name.into(), reading(&route)?));
    // Harmless: a route that no worker has served has no counts.
    routes.all().into_iter().filter_map(read).collect()
}

fn reading(route: &RouteMetrics) -> Option<Counts<u64>> {
    route.shards.all().next()?;
    let mut classes = [0; CLASSES];
    let mut total = Sum::default();
    for shard in route.shards.all() {
        // Harmless: both are arrays of one length.
        classes.iter_mut().zip(&shard.classes).for_each(|(sum, class)| *sum += class.get());
        shard.total.add_to(&mut total);
    }
    let [.., client_errors, server_errors] = classes;
    Some(Counts { client_errors, server_errors, buckets: total.buckets })
}

impl Counts<u64> {
    /// The counts since an earlier reading. They start again from zero if a route was removed and added again.
    fn since(&self, before: &Counts<u64>) -> Counts<u32> {
        // Harmless: all are arrays of one length.
        let is_new = self.buckets.iter().zip(&before.buckets).any(|(now, before)| now < before);
        let before = if is_new { Counts::default() } else { *before };
        let less =
            |now: u64, before: u64| u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX);
        let mut buckets = [0; BUCKETS];
        // Harmless: all are arrays of one length.
        for ((bucket, now), before) in buckets.iter_mut().zip(&self.buckets).zip(&before.buckets) {
            *bucket = less(*now, *before);
        }
        Counts {
            client_errors: less(self.client_errors, before.client_errors),
            server_errors: less(self.server_errors, before.server_errors),
            buckets,
        }
    }

    fn add(&mut self, more: &Counts<u32>) {
        self.client_errors += u64::from(more.client_errors);
        self.server_errors += u64::from(more.server_errors);
        // Harmless: both are arrays of one length.
        for (sum, bucket) in self.buckets.iter_mut().zip(&more.buckets) {
            *sum += u64::from(*bucket);
        }
    }

    fn numbers(&self) -> TrafficNumbers {
        TrafficNumbers {
            requests: self.buckets.iter().sum(),
            client_errors: self.client_errors,
            server_errors: self.server_errors,
            p50: self.quantile(0.5),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
        }
    }

    /// The duration that this share of requests did not exceed, assuming an even distribution between two bounds. Durations above the
    /// last bound count as that bound.
    #[allow(clippy::cast_precision_loss, reason = "an estimate between two bounds")]
    fn quantile(&self, share: f64) -> Option<Duration> {
        let requests: u64 = self.buckets.iter().sum();
        let wanted = requests as f64 * share;
        let (mut below, mut from) = (0.0, 0.0);
        // Harmless: the last bucket has no bound, and is handled after the loop.
        for (bucket, bound) in self.buckets.iter().zip(WAIT_MICROS) {
            let (here, to) = (*bucket as f64, f64::from(bound));
            if here > 0.0 && below + here >= wanted {
                let micros = from + (to - from) * ((wanted - below) / here).clamp(0.0, 1.0);
                return Some(Duration::from_secs_f64(micros / 1e6));
            }
            (below, from) = (below + here, to);
        }
        (requests > 0).then(|| Duration::from_secs_f64(from / 1e6))
    }
}

impl Counts<u32> {
    fn requests(&self) -> u64 {
        self.buckets.iter().map(|bucket| u64::from(*bucket)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reasons;
    use crate::route::Record;

    const MILLI: Duration = Duration::from_millis(1);

    fn routes() -> NamedMap<RouteMetrics> {
        NamedMap::new(9, RouteMetrics::new(1, Arc::<Reasons>::default()))
    }

    fn pass(routes: &NamedMap<RouteMetrics>, name: &str, status: u16, duration: Duration) {
        let route = routes.get_or_create(name, || RouteMetrics::new(1, Arc::default()));
        route.record(&Record { status, duration, ..Record::default() });
    }

    #[test]
    fn a_sample_counts_the_requests_since_the_previous_sample() {
        let routes = routes();
        let at = |seconds| Duration::from_secs(seconds);
        let traffic = Traffic::new(at(100));
        for _ in 0..60 {
            pass(&routes, "a", 200, 3 * MILLI);
        }
        traffic.sample(&routes, at(130));
        pass(&routes, "a", 404, MILLI);
        pass(&routes, "b", 502, MILLI);
        let (points, all) = traffic.all(&routes, at(140));
        let requests: Vec<u64> = points.iter().map(|point| point.numbers.requests).collect();
        assert_eq!((requests, points[1].begin, points[1].seconds), (vec![60, 2], at(130), 10.0));
        let [a, b] = &all[..] else { panic!("{all:?}") };
        assert_eq!((&*a.name, a.numbers.requests, a.numbers.client_errors), ("a", 61, 1));
        assert_eq!((&*b.name, b.numbers.requests, b.numbers.server_errors), ("b", 1, 1));
        assert_eq!(a.rate, 61.0 / 40.0);
        let of_a = traffic.of(&routes, "a", at(140));
        assert_eq!((of_a[0].numbers.requests, of_a[1].numbers.requests), (60, 1));
        assert_eq!(traffic.of(&routes, "c", at(140))[0].numbers, TrafficNumbers::default());
    }

    #[test]
    fn percentiles_are_between_the_bounds_of_their_buckets() {
        let routes = routes();
        let traffic = Traffic::new(Duration::ZERO);
        for _ in 0..98 {
            pass(&routes, "a", 200, 3 * MILLI);
        }
        pass(&routes, "a", 200, 400 * MILLI);
        pass(&routes, "a", 200, Duration::from_secs(90));
        let (points, _) = traffic.all(&routes, Duration::from_secs(1));
        let TrafficNumbers { p50, p95, p99, .. } = points[0].numbers;
        let is_between = |time: Option<Duration>, from, to| {
            time.is_some_and(|time| (from * MILLI..=to * MILLI).contains(&time))
        };
        assert!(is_between(p50, 2, 5) && is_between(p95, 2, 5), "{p50:?} {p95:?}");
        assert!(is_between(p99, 250, 500), "{p99:?}");
    }

    #[test]
    fn samples_and_rows_are_bounded() {
        let routes = routes();
        let traffic = Traffic::new(Duration::ZERO);
        for second in 1..=200 {
            pass(&routes, "a", 200, MILLI);
            traffic.sample(&routes, Duration::from_secs(second));
        }
        let samples = traffic.lock();
        assert_eq!((samples.closed.len(), samples.rows), (SAMPLES_MAX, SAMPLES_MAX));
    }
}
