//! A wall clock for a process, which a test can set while the process runs. The monotonic clock is not changed.

use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Pid;
use tempfile::TempDir;

/// Debian's `libfaketime`, which replaces the clocks of the C library. `scripts/setup.sh tests` installs it.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// A wall clock. It has the real time until it is set.
pub(crate) struct Clock {
    folder: TempDir,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let clock = Clock { folder: tempfile::tempdir().unwrap() };
        clock.set(0);
        clock
    }

    /// Sets the clock to this many seconds after the real time, or before it if negative.
    pub(crate) fn set(&self, by: i64) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, format!("{by:+}\n")).unwrap();
        std::fs::rename(&new, self.file()).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    /// Returns the environment variables that give a process this clock.
    pub(crate) fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", library().display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }
}

fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().filter_map(Result::ok);
    let mut found = folders.map(|folder| folder.path().join(LIBRARY)).filter(|path| path.exists());
    found.next().expect("libfaketime; scripts/setup.sh installs it")
}

/// Removes the shared memory and semaphores that the library of a killed process has left.
pub(super) fn tidy(process: Pid) {
    for name in ["faketime_shm_", "sem.faketime_sem_"] {
        // Most processes do not use the library.
        let _ = std::fs::remove_file(format!("/dev/shm/{name}{}", process.as_raw_nonzero()));
    }
}

/// Returns the beginning of a `Date` header, up to the hour, for this many seconds after the real time.
pub(crate) fn hour(by: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let at = format!("@{}", now.saturating_add_signed(by));
    let mut command = Command::new("date");
    let said = command.env("LC_ALL", "C").args(["-u", "-d", &at, "+%a, %d %b %Y %H:"]).output();
    String::from_utf8(said.unwrap().stdout).unwrap().trim().to_owned()
}
