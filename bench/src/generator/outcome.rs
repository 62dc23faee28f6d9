//! What a load measured: counts and histograms of each label, samples over time, and how busy the generator was.
//!
//! Owns how the outcomes of several generators are merged. It holds only what was measured.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::latencies::{Counts, Latencies};

/// What a load measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The start of the load, since 1970.
    pub started: Duration,
    /// The time from the start to the last reply.
    pub elapsed: Duration,
    /// The load's own warm-up and duration.
    pub warm_up: Duration,
    /// See [`Outcome::warm_up`].
    pub duration: Duration,
    /// True if the load was stopped before its end.
    pub stopped: bool,
    /// The length of a [`Step`]: one second, or more for loads that take more than an hour.
    pub step: Duration,
    /// The length of an [`Interval`].
    pub interval: Duration,
    /// One for each label, in the order of the load.
    pub labels: Vec<LabelOutcome>,
    /// The average number of users, for Little's law.
    pub users: Users,
    /// How busy each generator was: one for each load server.
    pub generators: Vec<GeneratorUse>,
    /// Counts of streams. `None` if the load has only requests.
    pub streams: Option<Streams>,
    /// Load servers whose results are missing.
    pub agents_lost: Vec<String>,
    /// Why the log of samples is incomplete. `None` if it is complete, or was not requested.
    #[serde(default)]
    pub log_failed: Option<String>,
}

/// What was measured under one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelOutcome {
    /// From the load's templates.
    pub label: String,
    /// The pause of its users between a reply and the next request.
    pub think: Duration,
    /// Samples that began within the warm-up.
    pub warm_up: Phase,
    /// Samples that began after the warm-up.
    pub measured: Phase,
    /// Samples by the step in which they ended. The last step is that of the load's end.
    pub steps: Vec<Step>,
    /// Latencies by the interval in which samples ended, for the interval log.
    pub intervals: Vec<Interval>,
}

/// Samples of the warm-up, or of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The latencies of all samples, right or wrong. Their number is that of the samples.
    pub latencies: Latencies,
    /// The errors, by their first reason.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Complete replies by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of requests, with their heads.
    pub sent_bytes: u64,
    /// Bytes of replies, with their heads, as received.
    pub received_bytes: u64,
    /// The start of the first sample and the end of the last one, from the start of the load.
    pub window: Option<(Duration, Duration)>,
}

/// Why a sample is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The connection was refused or could not be opened.
    Connect,
    /// The connection was not open in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// The reply was not complete in time.
    ResponseTimeout,
    /// The connection ended before the reply was complete.
    Closed,
    /// The reply is not HTTP, or exceeds a limit of the generator.
    Protocol,
    /// The status is not the expected one.
    Status,
    /// A header or the body is not the expected one.
    Content,
}

/// Samples that ended within one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Number of samples.
    pub samples: u64,
    /// Number of errors among them.
    pub errors: u64,
    /// Number of samples without a latency: events of a stream, which are not replies to a request.
    #[serde(default)]
    pub untimed: u64,
    /// The sum of the latencies of the other samples.
    pub latency_sum: Duration,
    /// The longest latency.
    pub latency_max: Duration,
}

/// Latencies of one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// The latencies of samples that began within the warm-up.
    pub warm_up: Counts,
    /// The latencies of samples that began after it.
    pub measured: Counts,
}

/// The average number of users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// During the warm-up.
    pub warm_up: f64,
    /// During the measurement.
    pub measured: f64,
}

/// How busy a generator was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratorUse {
    /// Number of threads that sent.
    pub threads: u32,
    /// CPU time of these threads after the warm-up.
    pub cpu: Duration,
    /// CPU time of the busiest thread.
    pub cpu_max: Duration,
    /// The time in which these threads were ready to run but had no CPU, after the warm-up.
    pub waited: Duration,
    /// The wall-clock time of this measurement.
    pub wall: Duration,
}

/// Counts of streams, with the names of `row.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Streams {
    /// Of WebSockets.
    Websocket(WebSocketCounts),
    /// Of event streams.
    Sse(SseCounts),
    /// Of a hub.
    Websub(WebSubCounts),
}

/// Counts of WebSockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSocketCounts {
    /// Connections that were attempted.
    pub attempted: u64,
    /// Connections that were not opened.
    pub failed: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages that came back reversed.
    pub received: u64,
    /// (sent - received) / sent, from 0 to 1. `None` if nothing was sent.
    pub error_rate: Option<f64>,
}

/// Counts of event streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SseCounts {
    /// Connections that were attempted.
    pub attempted: u64,
    /// Connections that were not opened, or were refused.
    pub failed: u64,
    /// Events that were received, without duplicates.
    pub received: u64,
    /// Events of open streams that were not received.
    pub lost: u64,
    /// Events that were received again.
    pub duplicated: u64,
    /// Events that were received after a later one.
    pub reordered: u64,
}

/// Counts of a hub's deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSubCounts {
    /// Subscriptions that were verified.
    pub subscribers: u64,
    /// Deliveries that did not come in time, and those of subscriptions that failed.
    pub undelivered: u64,
    /// Deliveries whose signature or body was not right.
    pub bad_signatures: u64,
    /// The longest time from publishing an event to its last delivery. `None` if nothing was delivered.
    pub last_delivery_ms: Option<f64>,
}

/// Maximum share of the time that a generator thread may be busy. Above it, the generator limits the load.
const BUSY_MAX: f64 = 0.9;
/// Maximum difference between the starts of generators that run one load. With more, they did not run at the same time.
const APART_MAX: Duration = Duration::from_secs(2);

impl Outcome {
    /// Returns true if a generator thread had no time left, so that the target could have done more.
    #[must_use]
    pub fn is_generator_bottleneck(&self) -> bool {
        self.generators.iter().any(GeneratorUse::is_bottleneck)
    }

    /// Returns the measurement of all labels together.
    #[must_use]
    pub fn measured(&self) -> Phase {
        merged(self.labels.iter().map(|label| &label.measured))
    }

    /// Returns the warm-up of all labels together.
    #[must_use]
    pub fn warmed_up(&self) -> Phase {
        merged(self.labels.iter().map(|label| &label.warm_up))
    }

    /// Returns the number of users during the measurement by Little's law: throughput x (response time + pause). It must be close to
    /// `users.measured`, which tests of the generator check. A row is marked by the figures in its tables, see
    /// [`crate::folder::Row::deviates_from_little`].
    ///
    /// A sample belongs to the phase in which it began. So the time of each user lacks the end of a sample that began before the
    /// measurement, and includes the end of one that outlasts it. Both are equally long on average. The time after the end of the load, in
    /// which the last replies arrive, does not count, because fewer and fewer users are left.
    #[cfg(test)]
    pub(crate) fn users_accounted(&self) -> Option<f64> {
        let whole = self.measured();
        let span = self.duration.saturating_sub(self.warm_up);
        let seconds = whole.window_length()?.min(span).as_secs_f64();
        let busy = self.labels.iter().map(|label| {
            let phase = &label.measured;
            let mean = phase.latencies.mean().unwrap_or_default();
            (mean + label.think).as_secs_f64() * phase.latencies.len() as f64
        });
        (seconds > 0.0).then(|| busy.sum::<f64>() / seconds)
    }

    /// Merges the outcomes of generators that each ran a share of one load at the same time.
    ///
    /// # Errors
    ///
    /// If they did not run shares of one load, or not at the same time.
    pub fn merge(all: Vec<Outcome>) -> Result<Outcome, String> {
        let mut all = all.into_iter();
        let mut merged = all.next().ok_or("there is nothing to merge")?;
        for one in all {
            merged.add(one)?;
        }
        Ok(merged)
    }

    fn add(&mut self, other: Outcome) -> Result<(), String> {
        let shape = |one: &Outcome| (one.warm_up, one.duration, one.step, one.interval);
        let labels = |one: &Outcome| one.labels.iter().map(|one| one.label.clone()).collect();
        let (ours, theirs): (Vec<String>, Vec<String>) = (labels(self), labels(&other));
        if shape(self) != shape(&other) || ours != theirs {
            return Err("the results are not parts of one load".to_owned());
        }
        if self.started.abs_diff(other.started) > APART_MAX {
            let apart = self.started.abs_diff(other.started);
            return Err(format!(
                "the starts of the generators are {apart:?} apart; synchronise their clocks"
            ));
        }
        self.started = self.started.min(other.started);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.stopped |= other.stopped;
        self.users.warm_up += other.users.warm_up;
        self.users.measured += other.users.measured;
        self.generators.extend(other.generators);
        self.agents_lost.extend(other.agents_lost);
        self.log_failed = self.log_failed.take().or(other.log_failed);
        for (label, other) in self.labels.iter_mut().zip(other.labels) {
            label.add(other);
        }
        match (&mut self.streams, other.streams) {
            (None, None) => Ok(()),
            (Some(ours), Some(theirs)) => ours.add(&theirs),
            _ => Err("one of the results has no streams".to_owned()),
        }
    }
}

impl LabelOutcome {
    fn add(&mut self, other: LabelOutcome) {
        self.warm_up.add(&other.warm_up);
        self.measured.add(&other.measured);
        let steps = self.steps.len().max(other.steps.len());
        self.steps.resize(steps, Step::default());
        for (step, other) in self.steps.iter_mut().zip(other.steps) {
            step.add(other);
        }
        let intervals = self.intervals.len().max(other.intervals.len());
        self.intervals.resize(intervals, Interval::default());
        for (interval, other) in self.intervals.iter_mut().zip(&other.intervals) {
            interval.warm_up.add(&other.warm_up);
            interval.measured.add(&other.measured);
        }
    }

    /// Returns the latencies, corrected for coordinated omission: with those that were not measured because users waited. A user is
    /// expected to send one request in the sum of the median response time and its pause.
    #[must_use]
    pub fn corrected(&self) -> Latencies {
        let latencies = &self.measured.latencies;
        latencies.corrected(latencies.quantile(0.5) + self.think)
    }
}

impl Phase {
    /// Returns the number of errors.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Returns the time from the start of the first sample to the end of the last one.
    #[must_use]
    pub fn window_length(&self) -> Option<Duration> {
        let (begin, end) = self.window?;
        Some(end.saturating_sub(begin))
    }

    /// Returns the samples per second in that time.
    #[must_use]
    pub fn throughput(&self) -> Option<f64> {
        let seconds = self.window_length()?.as_secs_f64();
        (seconds > 0.0).then(|| self.latencies.len() as f64 / seconds)
    }

    /// Adds the samples of another phase.
    pub fn add(&mut self, other: &Phase) {
        self.latencies.add(&other.latencies);
        for (kind, count) in &other.errors {
            *self.errors.entry(*kind).or_default() += count;
        }
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.window = match (self.window, other.window) {
            (Some((begin, end)), Some((from, to))) => Some((begin.min(from), end.max(to))),
            (ours, theirs) => ours.or(theirs),
        };
    }
}

impl Step {
    pub(super) fn add(&mut self, other: Step) {
        self.samples += other.samples;
        self.errors += other.errors;
        self.untimed += other.untimed;
        self.latency_sum += other.latency_sum;
        self.latency_max = self.latency_max.max(other.latency_max);
    }
}

impl GeneratorUse {
    /// Returns true if a thread was busy nearly all the time.
    #[must_use]
    pub fn is_bottleneck(&self) -> bool {
        !self.wall.is_zero() && self.cpu_max.as_secs_f64() > self.wall.as_secs_f64() * BUSY_MAX
    }
}

impl Streams {
    fn add(&mut self, other: &Streams) -> Result<(), String> {
        match (self, other) {
            (Streams::Websocket(ours), Streams::Websocket(theirs)) => {
                ours.attempted += theirs.attempted;
                ours.failed += theirs.failed;
                ours.sent += theirs.sent;
                ours.received += theirs.received;
                ours.error_rate = WebSocketCounts::rate(ours.sent, ours.received);
            }
            (Streams::Sse(ours), Streams::Sse(theirs)) => {
                ours.attempted += theirs.attempted;
                ours.failed += theirs.failed;
                ours.received += theirs.received;
                ours.lost += theirs.lost;
                ours.duplicated += theirs.duplicated;
                ours.reordered += theirs.reordered;
            }
            (Streams::Websub(ours), Streams::Websub(theirs)) => {
                ours.subscribers += theirs.subscribers;
                ours.undelivered += theirs.undelivered;
                ours.bad_signatures += theirs.bad_signatures;
                let later = theirs.last_delivery_ms.unwrap_or_default();
                ours.last_delivery_ms =
                    ours.last_delivery_ms.map(|ms| ms.max(later)).or(theirs.last_delivery_ms);
            }
            _ => return Err("the results are of different kinds of streams".to_owned()),
        }
        Ok(())
    }
}

impl WebSocketCounts {
    /// Returns (sent - received) / sent, or `None` if nothing was sent.
    #[must_use]
    pub fn rate(sent: u64, received: u64) -> Option<f64> {
        (sent > 0).then(|| sent.saturating_sub(received) as f64 / sent as f64)
    }
}

fn merged<'p>(phases: impl Iterator<Item = &'p Phase>) -> Phase {
    let mut whole = Phase::default();
    phases.for_each(|phase| whole.add(phase));
    whole
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::generator::recorder::{Recorder, Sample, Shape};

    /// Returns an outcome with these labels. Each sample took the given milliseconds and began 3 s after the start.
    pub(in crate::generator) fn outcome_of(labels: &[(&str, &[u64])]) -> Outcome {
        let seconds = Duration::from_secs;
        let shape = Shape {
            warm_up: seconds(1),
            duration: seconds(10),
            step: seconds(1),
            interval: seconds(5),
        };
        let label = |(label, samples): &(&str, &[u64])| {
            let mut recorder = Recorder::new((*label).to_owned(), Duration::ZERO, shape);
            for ms in *samples {
                let (begin, end) = (seconds(3), seconds(3) + Duration::from_millis(*ms));
                recorder.record(&Sample::opened(begin, end, 200));
            }
            recorder.finish()
        };
        Outcome {
            started: seconds(1_000_000),
            elapsed: seconds(10),
            warm_up: seconds(1),
            duration: seconds(10),
            stopped: false,
            step: seconds(1),
            interval: seconds(5),
            labels: labels.iter().map(label).collect(),
            users: Users { warm_up: 1.0, measured: 2.0 },
            generators: vec![GeneratorUse::default()],
            streams: None,
            agents_lost: Vec::new(),
            log_failed: None,
        }
    }

    #[test]
    fn outcomes_of_two_generators_merge_to_that_of_one() {
        let (first, second) = (outcome_of(&[("a", &[1, 2])]), outcome_of(&[("a", &[3, 900])]));
        let mut whole = outcome_of(&[("a", &[1, 2, 3, 900])]);
        let merged = Outcome::merge(vec![first.clone(), second]).unwrap();
        whole.users = Users { warm_up: 2.0, measured: 4.0 };
        whole.generators = vec![GeneratorUse::default(); 2];
        assert_eq!(merged, whole);
        let json = serde_json::to_string(&merged).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), merged);

        let later = Outcome { started: Duration::from_secs(1_000_003), ..first.clone() };
        let wrong = Outcome::merge(vec![first.clone(), later]).unwrap_err();
        assert!(wrong.contains("apart"), "{wrong}");
        let other = outcome_of(&[("b", &[1])]);
        assert!(Outcome::merge(vec![first, other]).unwrap_err().contains("parts of one load"));
        assert!(Outcome::merge(Vec::new()).is_err());
    }

    /// Two requests of half a second within half a second: that is two users.
    #[test]
    fn users_are_accounted_for() {
        let two = outcome_of(&[("a", &[500, 500])]);
        assert!((two.users_accounted().unwrap() - 2.0).abs() < 1e-9);
        // Three users with ten requests of a second each in ten seconds; the last one ends a second after the load.
        let mut late = Outcome { warm_up: Duration::ZERO, ..outcome_of(&[("a", &[1000; 30])]) };
        late.labels[0].measured.window = Some((Duration::ZERO, Duration::from_millis(11_000)));
        assert!((late.users_accounted().unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(outcome_of(&[("a", &[])]).users_accounted(), None);
    }

    #[test]
    fn streams_merge_and_the_rate_is_computed_again() {
        let of = |sent, received| {
            let error_rate = WebSocketCounts::rate(sent, received);
            Streams::Websocket(WebSocketCounts {
                attempted: 10,
                failed: 1,
                sent,
                received,
                error_rate,
            })
        };
        let mut merged = of(100, 100);
        merged.add(&of(300, 200)).unwrap();
        assert_eq!(
            merged,
            Streams::Websocket(WebSocketCounts {
                attempted: 20,
                failed: 2,
                sent: 400,
                received: 300,
                error_rate: Some(0.25)
            })
        );
        assert!(merged.add(&Streams::Sse(SseCounts::default())).is_err());
        assert_eq!(WebSocketCounts::rate(0, 0), None);
    }
}
