//! The measurements of one generator, stored in a file and merged with those of other generators at the same time.
//!
//! Owns the format of the file and the merging. Histograms are added; percentiles are never averaged.

use std::time::Duration;

use serde_json::{Value, json};

use crate::report::{Recorder, Report};

/// The counts of one scenario, without its warm-up.
#[derive(Clone, Debug)]
pub struct Results {
    /// The scenario's name.
    pub scenario: String,
    /// The average number of users.
    pub users: f64,
    /// The size of each request.
    pub payload_bytes: usize,
    /// The begin of counting, since 1970.
    pub from: Duration,
    /// The end of counting.
    pub to: Duration,
    /// The counts of requests.
    pub recorder: Recorder,
}

/// Generators of one run begin and end together. If they differ by more than this part of the time, they did not.
const APART_MAX: f64 = 0.1;

impl Results {
    /// The figures.
    #[must_use]
    pub fn report(&self) -> Report {
        let window = self.to.saturating_sub(self.from);
        self.recorder.report(&self.scenario, window, self.users)
    }

    /// Merges the measurements of generators that ran the same scenario at the same time.
    ///
    /// # Errors
    ///
    /// If they did not.
    pub fn merge(all: &[Results]) -> Result<Results, String> {
        let (first, others) = all.split_first().ok_or("there is nothing to merge")?;
        let mut merged = first.clone();
        for one in others {
            if (&one.scenario, one.payload_bytes) != (&first.scenario, first.payload_bytes) {
                let (one, other) = (&one.scenario, &first.scenario);
                return Err(format!("{one} and {other} are not parts of one load"));
            }
            let together = one.to.min(merged.to).saturating_sub(one.from.max(merged.from));
            (merged.from, merged.to) = (merged.from.min(one.from), merged.to.max(one.to));
            let whole = merged.to.saturating_sub(merged.from);
            if together.as_secs_f64() < whole.as_secs_f64() * (1.0 - APART_MAX) {
                return Err(format!(
                    "they loaded together for {together:?} of {whole:?}: start them at one time"
                ));
            }
            merged.users += one.users;
            merged.recorder.add(&one.recorder)?;
        }
        Ok(merged)
    }

    /// The file's content: times in nanoseconds except `from_ms` and `to_ms`, latencies as `[value, count]` of the histogram.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Recorder { latencies, latency_sum, think_sum, errors } = &self.recorder;
        let counts = latencies.iter_recorded();
        let counts = counts.map(|one| json!([one.value_iterated_to(), one.count_at_value()]));
        json!({
            "scenario": self.scenario,
            "users": self.users,
            "payload_bytes": self.payload_bytes,
            "from_ms": number(self.from.as_millis()),
            "to_ms": number(self.to.as_millis()),
            "requests": latencies.len(),
            "errors": errors,
            "latency_sum": number(latency_sum.as_nanos()),
            "think_sum": number(think_sum.as_nanos()),
            "latencies": counts.collect::<Vec<Value>>(),
        })
    }

    /// Parses the output of [`Results::to_json`].
    ///
    /// # Errors
    ///
    /// If something is missing in the file.
    pub fn from_json(file: &Value) -> Result<Results, String> {
        let of = |name: &str| file.get(name).ok_or_else(|| format!("it has no `{name}`"));
        let wrong = |name: &str| format!("its `{name}` is none");
        let number = |name: &str| of(name)?.as_u64().ok_or_else(|| wrong(name));
        let mut recorder = Recorder::new().map_err(|error| error.to_string())?;
        for pair in of("latencies")?.as_array().ok_or_else(|| wrong("latencies"))? {
            let [value, count] = [pair.get(0), pair.get(1)].map(|of| of.and_then(Value::as_u64));
            let (Some(value), Some(count)) = (value, count) else { return Err(wrong("latencies")) };
            let kept = recorder.latencies.record_n(value, count);
            kept.map_err(|error| format!("a latency of {value} ns: {error}"))?;
        }
        recorder.latency_sum = Duration::from_nanos(number("latency_sum")?);
        recorder.think_sum = Duration::from_nanos(number("think_sum")?);
        recorder.errors = number("errors")?;
        if number("requests")? != recorder.latencies.len()
            || recorder.errors > recorder.latencies.len()
        {
            return Err("it has other requests than latencies".to_owned());
        }
        Ok(Results {
            scenario: of("scenario")?.as_str().ok_or_else(|| wrong("scenario"))?.to_owned(),
            users: of("users")?.as_f64().ok_or_else(|| wrong("users"))?,
            payload_bytes: usize::try_from(number("payload_bytes")?).unwrap_or(usize::MAX),
            from: Duration::from_millis(number("from_ms")?),
            to: Duration::from_millis(number("to_ms")?),
            recorder,
        })
    }
}

impl Recorder {
    /// Adds the counts of another recorder.
    fn add(&mut self, other: &Recorder) -> Result<(), String> {
        self.latencies.add(&other.latencies).map_err(|error| error.to_string())?;
        self.latency_sum += other.latency_sum;
        self.think_sum += other.think_sum;
        self.errors += other.errors;
        Ok(())
    }
}

/// Enough for centuries of nanoseconds.
fn number(amount: u128) -> u64 {
    u64::try_from(amount).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One request for each number of milliseconds, of which the last has a wrong reply.
    fn results(milliseconds: std::ops::RangeInclusive<u64>, from: u64, to: u64) -> Results {
        let mut recorder = Recorder::new().unwrap();
        let last = *milliseconds.end();
        for one in milliseconds {
            recorder.record(one != last, Duration::from_millis(one), Duration::ZERO);
        }
        Results {
            scenario: "test".to_owned(),
            users: 50.0,
            payload_bytes: 1024,
            from: Duration::from_secs(from),
            to: Duration::from_secs(to),
            recorder,
        }
    }

    #[test]
    fn a_file_says_what_was_measured() {
        let one = results(1..=1000, 300, 900);
        let read = Results::from_json(&one.to_json()).unwrap();
        assert_eq!(read.to_json(), one.to_json());
        assert_eq!(read.report().to_string(), one.report().to_string());
        assert_eq!(read.report().window, Duration::from_secs(600));
        for (name, value) in [
            ("errors", json!(-1)),
            ("errors", json!(1001)),
            ("latencies", json!([[1]])),
            ("requests", json!(999)),
            ("users", json!("many")),
        ] {
            let mut file = one.to_json();
            file[name] = value;
            assert!(Results::from_json(&file).is_err(), "{file}");
        }
    }

    /// Of 1 to 100 ms and 901 to 1000 ms the 90th percentile is 980 ms; the mean of both percentiles would be 540 ms.
    #[test]
    fn histograms_are_added_and_percentiles_are_not_averaged() {
        let (fast, slow) = (results(1..=100, 300, 900), results(901..=1000, 301, 901));
        let merged = Results::merge(&[fast.clone(), slow.clone()]).unwrap().report();
        assert_eq!((merged.requests, merged.errors, merged.users), (200, 2, 100.0));
        assert_eq!(merged.window, Duration::from_secs(601));
        let near = |time: Duration, ms: f64| (time.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.001;
        assert!(near(merged.latency.p90, 980.0) && near(merged.latency.p50, 100.0), "{merged}");
        assert_eq!(merged.latency.mean, Duration::from_micros(500_500));

        let later = results(1..=100, 901, 1501);
        assert!(Results::merge(&[fast.clone(), later]).unwrap_err().contains("one time"));
        let other = Results { scenario: "other".to_owned(), ..slow };
        assert!(Results::merge(&[fast, other]).is_err());
        assert!(Results::merge(&[]).is_err());
    }
}
