//! Complaints: what is wrong, where, and what to write instead.
//!
//! Owns the list of complaints, and the printing of a report. It does not decide what is wrong.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::PathBuf;

use crate::excerpt::{Excerpt, excerpt};
use crate::hidden::HiddenTexts;
use crate::sources::{At, Source, Sources};

/// The effect of a complaint on the use of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration works, but probably not as intended.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The place that is wrong.
    pub at: At,
    /// Whether the configuration can be used.
    pub severity: Severity,
    /// What is wrong: one sentence without a full stop.
    pub what: String,
    /// What to write instead.
    pub help: Option<String>,
}

/// All complaints about a configuration, printed in order of place. Errors and warnings are kept and counted separately, so that many
/// warnings cannot displace an error.
#[derive(Clone, Debug, Default)]
pub struct Report {
    // Boxed, to keep `Result`s with a report small.
    errors: Box<ComplaintList>,
    warnings: Box<ComplaintList>,
    sources: Sources,
    files: BTreeSet<PathBuf>,
    hidden: HiddenTexts,
}

/// The complaints of one severity.
#[derive(Clone, Debug, Default)]
struct ComplaintList {
    complaints: Vec<Complaint>,
    /// The number of complaints that were counted but not kept.
    left_out: usize,
    /// Hashes of all complaints, to report an error in a shared part only once.
    seen: HashSet<u64>,
}

/// The maximum number of complaints of one severity that are kept. The rest are only counted, so that a hostile file of two million
/// unknown keys does not become two million strings.
const COMPLAINTS_MAX: usize = 1_000;

/// Longer words are not taken for typing errors.
const SUGGESTION_CHARS_MAX: usize = 64;

/// The maximum number of names that are compared to find the intended one.
const SUGGESTIONS_MAX: usize = 1_000;

impl Report {
    /// Returns the same report with file names relative to a folder.
    pub fn relative_to(mut self, folder: &std::path::Path) -> Report {
        let below = |source: &Source| {
            let name = std::path::Path::new(&source.name).strip_prefix(folder);
            let name = name.map_or_else(|_| source.name.clone(), |name| name.display().to_string());
            Source { name, ..source.clone() }
        };
        self.sources = Sources::new(self.sources.iter().map(below).collect());
        self
    }

    /// Creates an empty report about these files.
    pub fn new(sources: Sources) -> Self {
        Self { sources, ..Self::default() }
    }

    /// Adds an error: the configuration cannot be used.
    pub fn error(&mut self, at: At, what: impl Into<String>, help: impl Into<String>) {
        self.push(at, Severity::Error, what.into(), help.into());
    }

    /// Adds a warning: the configuration works, but probably not as intended.
    pub fn warn(&mut self, at: At, what: impl Into<String>, help: impl Into<String>) {
        self.push(at, Severity::Warning, what.into(), help.into());
    }

    /// Records a file that another file names, whether or not it exists. If it changes, the configuration has changed.
    pub fn depends_on(&mut self, file: PathBuf) {
        self.files.insert(file);
    }

    /// Returns true if further errors are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.is_full()
    }

    /// Returns the recorded files.
    pub fn files(&self) -> &BTreeSet<PathBuf> {
        &self.files
    }

    /// Records what a text with references became, to keep it out of complaints.
    pub(crate) fn hide(&mut self, at: At, written: &str, text: &str, values: &[String]) {
        self.hidden.record_substitution(at, written, text, values);
    }

    fn push(&mut self, at: At, severity: Severity, what: String, help: String) {
        let kept = match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if !kept.is_new(at, &what, &help) {
            return;
        }
        if kept.is_full() {
            kept.left_out += 1;
            return;
        }
        let what = self.hidden.without(at, &what);
        let help = Some(self.hidden.without(at, &help)).filter(|help| !help.is_empty());
        kept.complaints.push(Complaint { at, severity, what, help });
    }

    /// Returns the candidate that the operator most likely meant, if one is similar enough.
    pub fn suggest<'c>(
        &self,
        wrong: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        // A comparison costs microseconds: thousands of unknown names times thousands of candidates would take minutes. A full report does
        // not need suggestions.
        if self.is_full() { None } else { Report::nearest(wrong, candidates) }
    }

    /// Returns the candidate that a word was most likely meant to be, regardless of the number of complaints.
    pub(crate) fn nearest<'c>(
        wrong: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        let letters = wrong.chars().count();
        if letters > SUGGESTION_CHARS_MAX {
            return None;
        }
        // One error in short words, about one in three letters in long ones: `adress` matches `address`.
        let slips_max = (letters / 3).max(1);
        // Harmless: a complaint may have no suggestion.
        candidates
            .into_iter()
            .take(SUGGESTIONS_MAX)
            .filter(|candidate| candidate.len().abs_diff(wrong.len()) <= slips_max)
            .map(|candidate| (strsim::damerau_levenshtein(wrong, candidate), candidate))
            .filter(|(slips, _)| *slips <= slips_max)
            .min_by_key(|(slips, _)| *slips)
            .map(|(_, candidate)| candidate)
    }

    /// Returns true if the configuration cannot be used.
    pub fn has_errors(&self) -> bool {
        !self.errors.complaints.is_empty()
    }

    /// Returns true if there are no complaints.
    pub fn is_empty(&self) -> bool {
        self.errors.complaints.is_empty() && self.warnings.complaints.is_empty()
    }

    /// Returns the errors that were kept, in order of place.
    pub fn errors(&self) -> impl Iterator<Item = &Complaint> {
        self.errors.in_order()
    }

    /// Returns the warnings that were kept, in order of place.
    pub fn warnings(&self) -> impl Iterator<Item = &Complaint> {
        self.warnings.in_order()
    }

    /// Returns the number of errors that [`Report::errors`] leaves out.
    pub fn errors_left_out(&self) -> usize {
        self.errors.left_out
    }

    /// Returns the number of warnings that [`Report::warnings`] leaves out.
    pub fn warnings_left_out(&self) -> usize {
        self.warnings.left_out
    }

    /// Returns the files that the complaints refer to.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, complaint: &Complaint, label: &str) -> fmt::Result {
        writeln!(f, "{}: {label}{}", self.sources.place(complaint.at), complaint.what)?;
        if f.alternate()
            && let Some(Excerpt { line, column }) = excerpt(&self.sources, complaint.at)
        {
            writeln!(f, "    | {line}")?;
            writeln!(f, "    | {:>column$}", "^")?;
        }
        match &complaint.help {
            Some(help) => writeln!(f, "  help: {help}"),
            None => Ok(()),
        }
    }
}

impl ComplaintList {
    fn is_full(&self) -> bool {
        self.complaints.len() >= COMPLAINTS_MAX
    }

    /// Records a complaint, and returns true if it is new.
    fn is_new(&mut self, at: At, what: &str, help: &str) -> bool {
        self.seen.insert(kit::hash::fixed(&(at, what, help)))
    }

    fn in_order(&self) -> std::vec::IntoIter<&Complaint> {
        let mut all: Vec<&Complaint> = self.complaints.iter().collect();
        all.sort_by_key(|complaint| complaint.at);
        all.into_iter()
    }
}

/// Returns the end of a complaint about a word that is probably misspelt.
pub(crate) fn did_you_mean(meant: Option<&str>) -> String {
    meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

/// Writes `... and 2 more errors`, or nothing if the count is 0.
fn write_left_out(f: &mut fmt::Formatter<'_>, count: usize, what: &str) -> fmt::Result {
    match count {
        0 => Ok(()),
        1 => writeln!(f, "... and 1 more {what}"),
        count => writeln!(f, "... and {count} more {what}s"),
    }
}

/// Errors first, then warnings, each in order of place; `{:#}` quotes the line as well.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for complaint in self.errors() {
            self.write(f, complaint, "")?;
        }
        write_left_out(f, self.errors.left_out, "error")?;
        for complaint in self.warnings() {
            self.write(f, complaint, "warning: ")?;
        }
        write_left_out(f, self.warnings.left_out, "warning")
    }
}

impl std::error::Error for Report {}
