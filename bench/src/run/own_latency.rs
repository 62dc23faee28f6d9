//! The gateway's own part of the latency, from its metrics before and after.

use crate::folder::OwnLatency;

const BUCKET: &str = "tidegate_own_duration_seconds_bucket";
const SUM: &str = "tidegate_own_duration_seconds_sum";

/// Returns what was counted between two scrapes, over all routes, or `None` if there is no such metric.
pub(super) fn own_latency(before: &str, after: &str) -> Option<OwnLatency> {
    let (before, after) = (OwnCounts::of(before), OwnCounts::of(after));
    if after.buckets.is_empty() {
        return None;
    }
    let earlier = |bound: Option<f64>| {
        let found = before.buckets.iter().find(|(other, _)| *other == bound);
        found.map_or(0.0, |(_, count)| *count)
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of at least 0"
    )]
    let count =
        |(bound, count): &(Option<f64>, f64)| (*bound, (count - earlier(*bound)).max(0.0) as u64);
    let buckets = after.buckets.iter().map(count).collect();
    Some(OwnLatency { buckets, sum_seconds: after.sum - before.sum })
}

#[derive(Default)]
struct OwnCounts {
    buckets: Vec<(Option<f64>, f64)>,
    sum: f64,
}

impl OwnCounts {
    fn of(text: &str) -> OwnCounts {
        let mut counted = OwnCounts::default();
        for line in text.lines() {
            // Harmless: a line without a number is not a sample.
            let Some(value) = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok())
            else {
                continue;
            };
            if line.starts_with(SUM) {
                counted.sum += value;
            }
            let Some(rest) = line.strip_prefix(BUCKET) else { continue };
            let Some((_, rest)) = rest.split_once("le=\"") else { continue };
            let bound = rest.split('"').next().unwrap_or_default();
            // Harmless: the last bound is +Inf.
            let bound = bound.parse::<f64>().ok().filter(|bound| bound.is_finite());
            match counted.buckets.iter_mut().find(|(other, _)| *other == bound) {
                Some((_, count)) => *count += value,
                None => counted.buckets.push((bound, value)),
            }
        }
        counted.buckets.sort_by(|(a, _), (b, _)| {
            a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY))
        });
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_all_routes_are_added_and_earlier_ones_taken_off() {
        let text = |a: u32, b: u32| {
            format!(
                "# HELP x\n{BUCKET}{{route=\"a\",le=\"0.001\"}} {a}\n{BUCKET}{{route=\"b\",le=\"0.001\"}} {b}\n\
                 {BUCKET}{{route=\"a\",le=\"+Inf\"}} {}\n{SUM}{{route=\"a\"}} {}.5\n",
                a + b,
                a
            )
        };
        let own = own_latency(&text(1, 2), &text(10, 20)).unwrap();
        assert_eq!(own.buckets, [(Some(0.001), 27), (None, 27)]);
        assert!((own.sum_seconds - 9.0).abs() < 1e-9);
        assert_eq!(own_latency("", "a 1\n"), None);
    }
}
