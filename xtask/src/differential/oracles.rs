//! What others say about files: xmllint and xsltproc as programs, Xerces-J and Saxon 6.5 in one Java process.
//!
//! Owns the talking to them. It never judges who is right.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::ours::canonical;
use crate::Failure;

/// What somebody says about a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Accepted; the result of a transformation in canonical form.
    Yes(String),
    /// Refused, and why.
    No(String),
    /// Its schema or stylesheet is refused.
    Bad(String),
}

impl Verdict {
    /// The same but for the words of a refusal.
    pub(crate) fn agrees(&self, other: &Verdict) -> bool {
        match (self, other) {
            (Verdict::Yes(one), Verdict::Yes(two)) => one == two,
            (Verdict::No(_), Verdict::No(_)) | (Verdict::Bad(_), Verdict::Bad(_)) => true,
            (Verdict::Yes(_) | Verdict::No(_) | Verdict::Bad(_), _) => false,
        }
    }
}

/// The Java process.
pub(crate) struct Java {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Java {
    pub(crate) fn start(class_path: &str) -> Result<Java, Failure> {
        let mut process = Command::new("java")
            .args(["-Xss16m", "-cp", class_path, "Oracle"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Failure::Broken(format!("java does not start: {error}")))?;
        let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::Broken("java has no input or output".to_owned()));
        };
        Ok(Java { process, questions, answers: BufReader::new(answers) })
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
            Verdict::No(_) | Verdict::Bad(_) => Ok(verdict),
        }
    }

    fn ask(&mut self, question: &[&str]) -> Result<Verdict, Failure> {
        let gone = |error: std::io::Error| Failure::Broken(format!("java has ended: {error}"));
        writeln!(self.questions, "{}", question.join("\t")).map_err(gone)?;
        self.questions.flush().map_err(gone)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(gone)?;
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
        // It may have ended by itself.
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// What libxml2 says: well-formed, or valid by a schema.
pub(crate) fn xmllint(files: &[PathBuf], schema: Option<&Path>) -> Result<Vec<Verdict>, Failure> {
    let mut command = Command::new("xmllint");
    command.args(["--noout", "--nonet"]);
    if let Some(schema) = schema {
        command.arg("--schema").arg(schema);
    }
    let output = command.args(files).output();
    let output = output.map_err(|error| Failure::Broken(format!("xmllint: {error}")))?;
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
        match refused {
            true => Verdict::No(fault.unwrap_or_default().to_owned()),
            false => Verdict::Yes(String::new()),
        }
    };
    Ok(files.iter().map(verdict).collect())
}

/// What libxslt makes of a document.
pub(crate) fn xsltproc(stylesheet: &Path, file: &Path) -> Result<Verdict, Failure> {
    let output = Command::new("xsltproc").arg("--nonet").arg(stylesheet).arg(file).output();
    let output = output.map_err(|error| Failure::Broken(format!("xsltproc: {error}")))?;
    match output.status.code() {
        Some(0) => Ok(Verdict::Yes(canonical(&output.stdout))),
        Some(4 | 5) => Ok(Verdict::Bad(first_line(&String::from_utf8_lossy(&output.stderr)))),
        _ => Ok(Verdict::No(first_line(&String::from_utf8_lossy(&output.stderr)))),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
