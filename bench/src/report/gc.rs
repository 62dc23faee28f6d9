//! The log of garbage collections of a JVM (`-Xlog:gc`), as the reference's tool reads it.

/// The figures of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gc {
    /// The percentage of time outside pauses.
    pub throughput_percent: f64,
    /// The largest heap, in MiB.
    pub footprint_mib: f64,
    /// Memory after each full collection, in MiB.
    pub after_full_mib: Vec<f64>,
}

impl Gc {
    /// Parses lines such as `[12.345s][info][gc] GC(7) Pause Young (Normal) 24M->4M(256M) 1.234ms`. Returns `None` without a pause.
    #[must_use]
    pub fn parse(text: &str) -> Option<Gc> {
        let (mut gc, mut paused_ms, mut end, mut pauses) = (Gc::default(), 0.0, 0.0_f64, 0);
        for line in text.lines() {
            if let Some(uptime) = uptime_seconds(line) {
                end = end.max(uptime);
            }
            let Some((before, after, heap, ms)) = pause(line) else { continue };
            paused_ms += ms;
            pauses += 1;
            gc.footprint_mib = gc.footprint_mib.max(heap).max(before);
            if line.contains("Pause Full") {
                gc.after_full_mib.push(after);
            }
        }
        if pauses == 0 || end <= 0.0 {
            return None;
        }
        gc.throughput_percent = 100.0 - paused_ms / 10.0 / end;
        Some(gc)
    }

    /// Returns the mean and the standard deviation of memory after full collections, or `None` if there was none.
    #[must_use]
    pub fn after_full(&self) -> Option<(f64, f64)> {
        let count = self.after_full_mib.len() as f64;
        let mean = self.after_full_mib.iter().sum::<f64>() / count;
        let squares = self.after_full_mib.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (count > 0.0).then(|| (mean, (squares / count).sqrt()))
    }
}

/// Returns the seconds of `[12.345s]`, at the beginning of a line or after a date.
fn uptime_seconds(line: &str) -> Option<f64> {
    let mut tags = line.split('[').map(|tag| tag.split(']').next().unwrap_or(tag));
    tags.find_map(|tag| tag.strip_suffix('s')?.parse().ok())
}

/// Returns memory before and after, the heap, and the milliseconds of a pause.
fn pause(line: &str) -> Option<(f64, f64, f64, f64)> {
    let at = line.find(" Pause ")?;
    let words: Vec<&str> = line.get(at..)?.split_whitespace().collect();
    let ms = words.last()?.strip_suffix("ms")?.parse().ok()?;
    let change = words.iter().find(|word| word.contains("->"))?;
    let (before, rest) = change.split_once("->")?;
    let (after, heap) = rest.strip_suffix(')')?.split_once('(')?;
    Some((mib(before)?, mib(after)?, mib(heap)?, ms))
}

fn mib(text: &str) -> Option<f64> {
    let unit = text.chars().last()?;
    let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
    match unit {
        'K' => Some(number / 1024.0),
        'M' => Some(number),
        'G' => Some(number * 1024.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_and_full_collections_are_counted() {
        let log = "[0.010s][info][gc] Using G1\n\
            [1.000s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 60.000ms\n\
            [2024-01-01T00:00:00.000+0000][4.000s][info][gc] GC(1) Pause Full (System.gc()) 40M->10M(128M) 100.000ms\n\
            [5.000s][info][gc] GC(2) Concurrent Mark Cycle 1.000ms\n\
            [8.000s][info][gc] GC(3) Pause Full (System.gc()) 1G->20480K(1G) 40.000ms\n";
        let gc = Gc::parse(log).unwrap();
        assert!((gc.throughput_percent - 97.5).abs() < 1e-9, "{gc:?}");
        assert_eq!((gc.footprint_mib, gc.after_full()), (1024.0, Some((15.0, 5.0))));
        assert_eq!(Gc::parse("[0.010s][info][gc] Using G1\n"), None);
        assert_eq!(Gc::default().after_full(), None);
    }
}
