//! Counts the samples of a thread.
//!
//! Owns the division of time into warm-up and measurement, into steps and into intervals. A sample belongs to the phase in which it began,
//! as in the reference's splitter.

use std::collections::BTreeMap;
use std::time::Duration;

use super::latencies::{Counts, Latencies};
use super::load::Load;
use super::outcome::{ErrorKind, Interval, LabelOutcome, Phase, Step};

/// The samples of one label.
pub(super) struct Recorder {
    outcome: LabelOutcome,
    shape: Shape,
    /// Latencies of the current interval.
    warm_up: Latencies,
    measured: Latencies,
    /// Samples and errors since the last [`Recorder::take_counts`].
    counts: (u64, u64),
}

/// How time is divided into phases, steps and intervals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) warm_up: Duration,
    pub(super) duration: Duration,
    pub(super) step: Duration,
    pub(super) interval: Duration,
}

/// A request with its reply. Times are from the start of the load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) begin: Duration,
    pub(super) end: Duration,
    pub(super) result: Result<(), ErrorKind>,
    pub(super) status: Option<u16>,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}

/// Maximum number of steps: an hour of seconds.
const STEPS_MAX: u64 = 3600;
/// Maximum number of intervals: enough to show how latency changes over a row, and few enough for a small file.
const INTERVALS_MAX: u64 = 60;

impl Shape {
    pub(super) fn of(load: &Load) -> Shape {
        let whole =
            |parts: u64| Duration::from_secs(load.duration.as_secs().div_ceil(parts).max(1));
        Shape {
            warm_up: load.warm_up,
            duration: load.duration,
            step: whole(STEPS_MAX),
            interval: whole(INTERVALS_MAX),
        }
    }

    /// Returns the index of the part of this length to which a time belongs. What ends after the load belongs to the last part.
    fn part(&self, at: Duration, length: Duration) -> usize {
        let last = self.duration.saturating_sub(Duration::from_nanos(1));
        let part = at.min(last).as_nanos() / length.as_nanos().max(1);
        usize::try_from(part).unwrap_or(usize::MAX)
    }
}

impl Recorder {
    pub(super) fn new(label: String, think: Duration, shape: Shape) -> Recorder {
        let (warm_up, measured) = (Phase::default(), Phase::default());
        let (steps, intervals) = (Vec::new(), Vec::new());
        let outcome = LabelOutcome { label, think, warm_up, measured, steps, intervals };
        let (warm_up, measured) = (Latencies::default(), Latencies::default());
        Recorder { outcome, shape, warm_up, measured, counts: (0, 0) }
    }

    pub(super) fn record(&mut self, sample: &Sample) {
        let latency = sample.end.saturating_sub(sample.begin);
        let interval = self.shape.part(sample.end, self.shape.interval);
        while self.outcome.intervals.len() < interval {
            self.rotate();
        }
        let phase = if sample.begin <= self.shape.warm_up {
            self.warm_up.record(latency);
            &mut self.outcome.warm_up
        } else {
            self.measured.record(latency);
            &mut self.outcome.measured
        };
        count(phase, sample);
        let errors = u64::from(sample.result.is_err());
        let (latency_sum, latency_max) = (latency, latency);
        self.step(sample.end, Step { samples: 1, errors, untimed: 0, latency_sum, latency_max });
    }

    /// Counts samples without a latency that were received at this time: events of a stream.
    pub(super) fn saw(&mut self, at: Duration, samples: u64, errors: u64) {
        self.step(at, Step { samples, errors, untimed: samples, ..Step::default() });
    }

    /// Returns the samples and errors since the last call.
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.counts)
    }

    fn step(&mut self, at: Duration, counted: Step) {
        self.counts.0 += counted.samples;
        self.counts.1 += counted.errors;
        let step = self.shape.part(at, self.shape.step);
        if self.outcome.steps.len() <= step {
            self.outcome.steps.resize(step + 1, Step::default());
        }
        if let Some(step) = self.outcome.steps.get_mut(step) {
            step.add(counted);
        }
    }

    fn rotate(&mut self) {
        let (warm_up, measured) = (Counts::of(&self.warm_up), Counts::of(&self.measured));
        self.outcome.warm_up.latencies.add(&self.warm_up);
        self.outcome.measured.latencies.add(&self.measured);
        self.outcome.intervals.push(Interval { warm_up, measured });
        self.warm_up.clear();
        self.measured.clear();
    }

    pub(super) fn label(&self) -> &str {
        &self.outcome.label
    }

    pub(super) fn finish(mut self) -> LabelOutcome {
        self.rotate();
        self.outcome
    }
}

fn count(phase: &mut Phase, sample: &Sample) {
    if let Err(kind) = sample.result {
        *phase.errors.entry(kind).or_default() += 1;
    }
    if let Some(status) = sample.status {
        add(&mut phase.statuses, status);
    }
    phase.sent_bytes += sample.sent_bytes;
    phase.received_bytes += sample.received_bytes;
    phase.window = Some(match phase.window {
        None => (sample.begin, sample.end),
        Some((begin, end)) => (begin.min(sample.begin), end.max(sample.end)),
    });
}

fn add(statuses: &mut BTreeMap<u16, u64>, status: u16) {
    *statuses.entry(status).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_belong_to_the_phase_in_which_they_began() {
        let seconds = Duration::from_secs_f64;
        let shape = Shape {
            warm_up: seconds(2.0),
            duration: seconds(5.0),
            step: seconds(1.0),
            interval: seconds(2.0),
        };
        let mut recorder = Recorder::new("a".to_owned(), Duration::ZERO, shape);
        for (begin, end, result) in [
            (0.5, 0.75, Ok(())),
            (2.0, 2.5, Err(ErrorKind::Status)),
            (2.25, 3.0, Ok(())),
            (4.5, 7.5, Err(ErrorKind::Content)),
        ] {
            let (begin, end) = (seconds(begin), seconds(end));
            let (sent_bytes, received_bytes) = (10, 20);
            let status = Some(200);
            recorder.record(&Sample { begin, end, result, status, sent_bytes, received_bytes });
        }
        recorder.saw(seconds(1.5), 7, 1);
        assert_eq!((recorder.take_counts(), recorder.take_counts()), ((11, 3), (0, 0)));
        let outcome = recorder.finish();
        let (warm_up, measured) = (&outcome.warm_up, &outcome.measured);
        assert_eq!((warm_up.latencies.len(), measured.latencies.len()), (2, 2));
        assert_eq!((warm_up.error_count(), measured.error_count()), (1, 1));
        assert_eq!(measured.window, Some((seconds(2.25), seconds(7.5))));
        assert_eq!((measured.sent_bytes, measured.received_bytes), (20, 40));
        let samples: Vec<u64> = outcome.steps.iter().map(|step| step.samples).collect();
        assert_eq!(samples, [1, 7, 1, 1, 1], "the last one ended after the load");
        assert_eq!((outcome.steps[1].errors, outcome.steps[1].untimed), (1, 7));
        let counts = outcome.intervals.iter();
        let counts: Vec<_> = counts.map(|one| (one.warm_up.len(), one.measured.len())).collect();
        assert_eq!(counts, [(1, 0), (1, 1), (0, 1)]);
    }
}
