//! A rig in a process of its own: the descriptors of three gateways' streams are more than one process may have.
//!
//! It is told what to do on its standard input and answers on its standard output, a line each.

use std::env;
use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::str::SplitWhitespace;
use std::time::Duration;

use bench::process::{cpu_of, pinned};

use crate::rig::{Count, Rig};
use crate::scenario::rig_of;

/// A rig that runs elsewhere.
pub(crate) struct Apart {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    port: u16,
}

impl Apart {
    /// Starts the rig of this name.
    pub(crate) fn start(name: &str, core: usize) -> io::Result<Apart> {
        let mut command = pinned(core, env::current_exe()?);
        command.args(["--rig", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let ends = process.stdin.take().zip(process.stdout.take());
        let (input, output) = ends.ok_or_else(|| io::Error::other("a rig without pipes"))?;
        let output = BufReader::new(output).lines();
        let mut apart = Apart { process, input, output, port: 0 };
        apart.port = apart.heard(|words| words.next()?.parse().ok())?;
        Ok(apart)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Gives how many streams did not open.
    pub(crate) fn open(&mut self, port: u16) -> io::Result<usize> {
        writeln!(self.input, "open {port}")?;
        self.heard(|words| words.next()?.parse().ok())
    }

    pub(crate) fn run(&mut self, rate: f64, time: Duration) -> io::Result<Count> {
        writeln!(self.input, "run {rate} {}", time.as_micros())?;
        self.heard(|words| {
            let mut number = || words.next()?.parse::<u64>().ok();
            let (sent, came, wrong, late) = (number()?, number()?, number()?, number()?);
            Some(Count { sent, came, wrong, late, wall: Duration::from_micros(number()?) })
        })
    }

    pub(crate) fn cpu(&self) -> Duration {
        cpu_of(self.process.id())
    }

    /// The next line that it says: `ok` and numbers, or why not.
    fn heard<T>(&mut self, read: impl Fn(&mut SplitWhitespace<'_>) -> Option<T>) -> io::Result<T> {
        let ended = || io::Error::other("the rig ended");
        let line = self.output.next().ok_or_else(ended)??;
        let mut words = line.split_whitespace();
        let is_good = words.next() == Some("ok");
        let heard = if is_good { read(&mut words) } else { None };
        heard.ok_or_else(|| io::Error::other(line.clone()))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Serves as a rig until whoever started it is gone.
pub(crate) fn serve(name: &str) -> io::Result<()> {
    let mut rig = rig_of(name)?;
    let mut output = io::stdout();
    writeln!(output, "ok {}", rig.port())?;
    for line in io::stdin().lines() {
        match obey(&mut rig, &line?) {
            Ok(answer) => writeln!(output, "ok {answer}")?,
            Err(error) => writeln!(output, "{}", error.to_string().replace(['\r', '\n'], " "))?,
        }
    }
    Ok(())
}

fn obey(rig: &mut Rig, line: &str) -> io::Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["open", port] => {
            let failed = rig.open(port.parse().map_err(io::Error::other)?)?;
            Ok(failed.to_string())
        }
        ["run", rate, micros] => {
            let rate = rate.parse().map_err(io::Error::other)?;
            let time = Duration::from_micros(micros.parse().map_err(io::Error::other)?);
            let Count { sent, came, wrong, late, wall } = rig.run(rate, time)?;
            Ok(format!("{sent} {came} {wrong} {late} {}", wall.as_micros()))
        }
        _ => Err(io::Error::other("not understood")),
    }
}
