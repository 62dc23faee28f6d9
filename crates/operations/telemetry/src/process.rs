//! Metrics of this process, read from `/proc` at each scrape. Without `/proc` they are absent.

use std::fs;

/// The metrics of one scrape. A value that could not be read is absent, not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) open_fds: Option<u64>,
    pub(crate) max_fds: Option<u64>,
}

/// The unit of CPU time in `/proc`, `USER_HZ`. It does not depend on the kernel's own tick rate (`man 5 proc`).
const TICKS_PER_SECOND: f64 = 100.0;

impl Process {
    pub(crate) fn read() -> Process {
        // Harmless: a value that cannot be read is absent.
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        // Harmless: a value that cannot be read is absent.
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // Harmless: a value that cannot be read is absent.
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        Process {
            // These values are in kB. `statm` has them in pages, whose size only libc knows.
            resident_bytes: field(&status, "VmRSS:").map(|kb| kb * 1024),
            virtual_bytes: field(&status, "VmSize:").map(|kb| kb * 1024),
            threads: field(&status, "Threads:"),
            cpu_seconds: cpu_seconds(&stat),
            // Harmless: a value that cannot be read is absent.
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64),
            max_fds: field(&limits, "Max open files"),
        }
    }
}

/// Returns the number after a label at the start of a line.
fn field(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    // Harmless: a value that cannot be read is absent.
    rest.split_whitespace().next()?.parse().ok()
}

/// Returns the sum of the user and system time, fields 14 and 15. The second field is the program's name in parentheses. The name
/// may contain spaces and parentheses, so fields are counted from the last closing parenthesis.
#[allow(clippy::cast_precision_loss, reason = "ticks of a process fit into 52 bits")]
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_formats_of_proc() {
        let stat =
            "7 (ti) de (gate) S 1 7 7 0 -1 4194304 900 0 0 0 250 50 0 0 20 0 5 0 123 456 789";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("nothing"), None);
        assert_eq!(field("Name:\tx\nVmRSS:\t   2048 kB\n", "VmRSS:"), Some(2048));
        assert_eq!(
            field("Max open files            1024   4096   files\n", "Max open files"),
            Some(1024)
        );
        assert_eq!(field("VmRSS:\n", "VmRSS:"), None);
    }

    #[test]
    fn reads_this_process() {
        let process = Process::read();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{process:?}");
        assert!(process.open_fds.is_some_and(|fds| fds >= 3), "{process:?}");
        assert!(
            process.cpu_seconds.is_some() && process.threads.is_some() && process.max_fds.is_some()
        );
    }
}
