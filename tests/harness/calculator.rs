//! `tidegate backend calculator` as a process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// A running calculator. It is killed with the test.
pub(crate) struct Calculator {
    process: Child,
    url: String,
}

impl Calculator {
    #[track_caller]
    pub(crate) fn start() -> Calculator {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["backend", "calculator", "--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("its output");
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("calculator: ").expect("an address").to_owned();
        Calculator { process, url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Calculator {
    fn drop(&mut self) {
        // It may have ended already.
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}
