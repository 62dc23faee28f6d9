//! The wall clock of a process, which a test sets while the process runs. Its monotonic clock stays as it is.

use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Pid;
use tempfile::TempDir;

/// Debian's `libfaketime`, which puts itself before the C library's clocks. `scripts/setup.sh tests` installs it.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// A wall clock. It is right until it is set.
pub(crate) struct Clock {
    folder: TempDir,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let clock = Clock { folder: tempfile::tempdir().unwrap() };
        clock.set(0);
        clock
    }

    /// Sets it to so many seconds before or behind the right time.
    pub(crate) fn set(&self, by: i64) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, format!("{by:+}\n")).unwrap();
        std::fs::rename(&new, self.file()).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    /// What gives a process this clock.
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

/// Removes what the library shares among the children of a process that was killed.
pub(super) fn tidy(process: Pid) {
    for name in ["faketime_shm_", "sem.faketime_sem_"] {
        // Most processes have a clock like everybody's.
        let _absent = std::fs::remove_file(format!("/dev/shm/{name}{}", process.as_raw_nonzero()));
    }
}

/// The day and the hour, as the header `Date` begins, so many seconds behind the right time.
pub(crate) fn hour(by: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let at = format!("@{}", now.saturating_add_signed(by));
    let mut command = Command::new("date");
    let said = command.env("LC_ALL", "C").args(["-u", "-d", &at, "+%a, %d %b %Y %H:"]).output();
    String::from_utf8(said.unwrap().stdout).unwrap().trim().to_owned()
}
