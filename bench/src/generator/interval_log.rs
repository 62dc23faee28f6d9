//! `results.hdr`: an interval log of HdrHistogram (V2, compressed), in nanoseconds, which the tools of HdrHistogram read.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::outcome::Outcome;

/// Writes the intervals of all labels. The tags are `warm-up:LABEL` and `measurement:LABEL`, with `_` for characters that a tag must not
/// contain.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_interval_log(outcome: &Outcome, mut file: impl Write) -> Result<(), String> {
    let mut serializer = V2DeflateSerializer::new();
    let started = UNIX_EPOCH + outcome.started;
    let mut log = IntervalLogWriterBuilder::new();
    log.add_comment("[Latencies in nanoseconds; the column of the maximum is in milliseconds]");
    log.with_start_time(started).with_base_time(UNIX_EPOCH).with_max_value_divisor(1e6);
    let mut log =
        log.begin_log_with(&mut file, &mut serializer).map_err(|error| error.to_string())?;
    let intervals = outcome.labels.iter().map(|label| label.intervals.len()).max().unwrap_or(0);
    for interval in 0..intervals {
        let count = u32::try_from(interval).map_err(|error| error.to_string())?;
        let begin = outcome.interval * count;
        for label in &outcome.labels {
            let Some(one) = label.intervals.get(interval) else { continue };
            for (phase, counts) in [("warm-up", &one.warm_up), ("measurement", &one.measured)] {
                if counts.is_empty() {
                    continue;
                }
                let tag = tag(phase, &label.label);
                let tag = Tag::new(&tag).ok_or_else(|| format!("`{tag}` cannot be a tag"))?;
                log.write_histogram(
                    &counts.to_histogram()?,
                    outcome.started + begin,
                    length(outcome, begin),
                    Some(tag),
                )
                .map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}

/// Returns the length of an interval. The last one includes what ended after the load.
fn length(outcome: &Outcome, begin: Duration) -> Duration {
    if begin + outcome.interval >= outcome.duration {
        outcome.elapsed.max(outcome.duration).saturating_sub(begin)
    } else {
        outcome.interval
    }
}

fn tag(phase: &str, label: &str) -> String {
    let good = |letter: char| if letter == ',' || letter.is_whitespace() { '_' } else { letter };
    format!("{phase}:{}", label.chars().map(good).collect::<String>())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::generator::outcome::tests::outcome_of;

    #[test]
    fn the_log_is_read_by_the_tools_of_the_histogram() {
        let outcome = outcome_of(&[("a, b", &[1, 2, 1500])]);
        let mut file = Vec::new();
        write_interval_log(&outcome, &mut file).unwrap();
        let entries = IntervalLogIterator::new(&file).map(Result::unwrap);
        let mut found = Vec::new();
        for entry in entries {
            let LogEntry::Interval(one) = entry else { continue };
            let bytes = STANDARD.decode(one.encoded_histogram()).unwrap();
            let histogram: Histogram<u64> =
                Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            let tag = one.tag().unwrap().as_str().to_owned();
            found.push((tag, histogram.len(), (histogram.max() as f64 / 1e7).round()));
            assert!((one.max() - histogram.max() as f64 / 1e6).abs() < 1.0, "milliseconds");
        }
        assert_eq!(found, [("measurement:a__b".to_owned(), 3, 150.0)]);
    }
}
