//! The verdicts of other engines: xmllint and xsltproc as programs, Xerces-J and Saxon 6.5 in one Java process.
//!
//! Owns the communication with them and its end: an engine that takes too long is stopped and has no verdict. It does not judge who is
//! right.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::ours::canonical;
use crate::Failure;

/// Time limit of an answer. An answer takes milliseconds, and the first one of Java a second or two, but libxml2 loops forever on some
/// schemas.
const LATE: Duration = Duration::from_secs(20);

/// The verdict of one engine about a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Accepted; for a transformation, the result in canonical form.
    Yes(String),
    /// Refused, with the reason.
    No(String),
    /// Its schema or stylesheet is refused.
    Bad(String),
    /// No answer in time.
    Silent,
    /// Only for our engine: the verdict depends on whether shortcuts are taken.
    Split(String),
}

impl Verdict {
    /// Returns true if the verdicts are equal. The words of a refusal are ignored.
    pub(crate) fn agrees(&self, other: &Verdict) -> bool {
        match (self, other) {
            (Verdict::Yes(one), Verdict::Yes(two)) => one == two,
            (Verdict::No(_), Verdict::No(_)) | (Verdict::Bad(_), Verdict::Bad(_)) => true,
            // Without two definite verdicts there is no agreement.
            (
                Verdict::Yes(_)
                | Verdict::No(_)
                | Verdict::Bad(_)
                | Verdict::Silent
                | Verdict::Split(_),
                _,
            ) => false,
        }
    }
}

/// The Java process.
pub(crate) struct Java {
    command: Vec<String>,
    late: Duration,
    process: Child,
    questions: ChildStdin,
    /// Its output by lines, until it ends.
    answers: Receiver<io::Result<String>>,
}

impl Java {
    pub(crate) fn start(class_path: &str) -> Result<Java, Failure> {
        let command = ["java", "-Xss16m", "-cp", class_path, "Oracle"].map(str::to_owned).to_vec();
        Java::start_as(command, LATE)
    }

    fn start_as(command: Vec<String>, late: Duration) -> Result<Java, Failure> {
        let (program, arguments) =
            command.split_first().map_or(("", [].as_slice()), |(p, a)| (p, a));
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Failure::Broken(format!("java does not start: {error}")))?;
        let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::Broken("java has no input or output".to_owned()));
        };
        Ok(Java { command, late, process, questions, answers: lines(answers) })
    }

    pub(crate) fn well_formed(&mut self, file: &Path) -> Result<Verdict, Failure> {
        self.ask(&["wf", &text(file)])
    }

    pub(crate) fn valid(&mut self, schema: &Path, file: &Path) -> Result<Verdict, Failure> {
        self.ask(&["xsd", &text(schema), &text(file)])
    }

    pub(crate) fn transformed(
        &mut self,
        stylesheet: &Path,
        file: &Path,
        out: &Path,
    ) -> Result<Verdict, Failure> {
        let verdict = self.ask(&["xslt", &text(stylesheet), &text(file), &text(out)])?;
        match verdict {
            Verdict::Yes(_) => {
                let bytes = fs::read(out).map_err(|e| Failure::Broken(format!("saxon: {e}")))?;
                Ok(Verdict::Yes(canonical(&bytes)))
            }
            Verdict::No(_) | Verdict::Bad(_) | Verdict::Silent | Verdict::Split(_) => Ok(verdict),
        }
    }

    fn ask(&mut self, question: &[&str]) -> Result<Verdict, Failure> {
        let gone = |error: io::Error| Failure::Broken(format!("java has ended: {error}"));
        writeln!(self.questions, "{}", question.join("\t")).map_err(gone)?;
        self.questions.flush().map_err(gone)?;
        let answer = match self.answers.recv_timeout(self.late) {
            Ok(answer) => answer.map_err(gone)?,
            Err(RecvTimeoutError::Timeout) => {
                println!("no answer from java within {:?}: {}", self.late, question.join(" "));
                // Replacing the value stops the rest of the old process.
                *self = Java::start_as(self.command.clone(), self.late)?;
                return Ok(Verdict::Silent);
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Broken("java has ended".to_owned()));
            }
        };
        let (word, why) = answer.trim_end().split_once(' ').unwrap_or((answer.trim_end(), ""));
        match word {
            "ok" => Ok(Verdict::Yes(String::new())),
            "no" => Ok(Verdict::No(why.to_owned())),
            "bad" => Ok(Verdict::Bad(why.to_owned())),
            _ => Err(Failure::Broken(format!("java says {answer:?}"))),
        }
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The verdicts of libxml2: well-formed, or valid by a schema.
pub(crate) fn xmllint(files: &[PathBuf], schema: Option<&Path>) -> Result<Vec<Verdict>, Failure> {
    let mut command = Command::new("xmllint");
    command.args(["--noout", "--nonet"]);
    if let Some(schema) = schema {
        command.arg("--schema").arg(schema);
    }
    let Some(output) = output(command.args(files), LATE)? else {
        return Ok(files.iter().map(|_| Verdict::Silent).collect());
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("failed to compile") {
        return Ok(files.iter().map(|_| Verdict::Bad(first_line(&said))).collect());
    }
    let validated: HashSet<&str> =
        said.lines().filter_map(|line| line.strip_suffix(" validates")).collect();
    let verdict = |file: &PathBuf| {
        let name = text(file);
        let about = format!("{name}:");
        let fault = said.lines().find(|line| line.starts_with(&about) && line.contains("error"));
        let refused = match schema {
            Some(_) => !validated.contains(name.as_str()),
            None => fault.is_some(),
        };
        if refused {
            Verdict::No(fault.unwrap_or_default().to_owned())
        } else {
            Verdict::Yes(String::new())
        }
    };
    Ok(files.iter().map(verdict).collect())
}

/// The result of libxslt for a document.
pub(crate) fn xsltproc(stylesheet: &Path, file: &Path) -> Result<Verdict, Failure> {
    let mut command = Command::new("xsltproc");
    command.arg("--nonet").arg(stylesheet).arg(file);
    let Some(output) = output(&mut command, LATE)? else { return Ok(Verdict::Silent) };
    match output.status.code() {
        Some(0) => Ok(Verdict::Yes(canonical(&output.stdout))),
        Some(4 | 5) => Ok(Verdict::Bad(first_line(&String::from_utf8_lossy(&output.stderr)))),
        _ => Ok(Verdict::No(first_line(&String::from_utf8_lossy(&output.stderr)))),
    }
}

/// The output of a program until its end.
struct Output {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Runs a program to its end. Returns `None`, after printing a message, if it was stopped for taking too long.
fn output(command: &mut Command, late: Duration) -> Result<Option<Output>, Failure> {
    let broken = |error: io::Error| Failure::Broken(error.to_string());
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::Broken(format!("{:?}: {error}", command.get_program())))?;
    let (stdout, stderr) = (process.stdout.take().map(whole), process.stderr.take().map(whole));
    let read = |from: Option<Receiver<Vec<u8>>>| from.and_then(|text| text.recv_timeout(late).ok());
    let texts = read(stdout).and_then(|stdout| Some((stdout, read(stderr)?)));
    if texts.is_none() {
        process.kill().map_err(broken)?;
    }
    let status = process.wait().map_err(broken)?;
    if texts.is_none() {
        println!("no answer within {late:?}: {command:?}");
    }
    Ok(texts.map(|(stdout, stderr)| Output { status, stdout, stderr }))
}

/// The whole content of a pipe, once it is closed.
fn whole(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        let mut text = Vec::new();
        // If reading fails, nothing is sent, and the receiver sees the closed channel.
        if pipe.read_to_end(&mut text).is_ok() {
            let _ = sender.send(text);
        }
    });
    receiver
}

/// The lines of a pipe.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<io::Result<String>> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(200);

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_program_that_spins_is_stopped_and_has_no_answer() {
        let mut spins = Command::new("sh");
        spins.args(["-c", "while :; do :; done"]);
        assert!(output(&mut spins, SHORT).unwrap_or(None).is_none());
        let mut answers = Command::new("sh");
        answers.args(["-c", "echo out; echo why >&2; exit 3"]);
        let said = output(&mut answers, LATE).unwrap_or(None);
        let said = said.map(|said| (said.status.code(), said.stdout, said.stderr));
        assert_eq!(said, Some((Some(3), b"out\n".to_vec(), b"why\n".to_vec())));
    }

    #[test]
    fn java_is_restarted_if_its_answer_is_late() {
        let script = "while read -r line; do case $line in *never*) while :; do :; done;; *) echo \"no $line\";; esac; done";
        let Ok(mut java) = Java::start_as(shell(script), SHORT) else { panic!("no shell") };
        let mut ask = |file: &str| java.well_formed(Path::new(file)).ok();
        assert_eq!(ask("a"), Some(Verdict::No("wf\ta".to_owned())));
        assert_eq!(ask("never"), Some(Verdict::Silent));
        assert_eq!(ask("b"), Some(Verdict::No("wf\tb".to_owned())));
    }

    #[test]
    fn silence_agrees_with_nobody() {
        for other in [Verdict::Silent, Verdict::No(String::new()), Verdict::Yes(String::new())] {
            assert!(!Verdict::Silent.agrees(&other) && !other.agrees(&Verdict::Silent));
        }
    }
}
