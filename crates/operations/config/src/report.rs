//! Complaints: what is wrong, where, and what to write instead.
//!
//! Owns places, the texts they refer to, and the printing of a report. It does not decide what is wrong.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::excerpt::{Excerpt, excerpt};
use crate::hidden::HiddenTexts;

/// A place in one of the [`Sources`]. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// The index of the file in its [`Sources`].
    pub file: u32,
    /// The line, from 1, or 0 for the file as a whole.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// One file as it was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name as the operator would write it.
    pub name: String,
    /// The folder that relative paths in this file are based on.
    pub folder: PathBuf,
    /// The text before substitution.
    pub text: String,
}

/// The files a configuration was read from; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Arc<[Source]>,
    /// The offsets of the lines of each file, computed on first use: a hostile file can have many complaints and many lines.
    begins: Arc<OnceLock<Vec<Vec<usize>>>>,
}

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

/// The longest part of a file that a complaint quotes, in characters.
const QUOTE_CHARS_MAX: usize = 60;

/// Appended to a quote that was truncated.
pub(crate) const CUT: &str = "...";

impl At {
    /// The place of defaults, which are not in a file.
    pub const NOWHERE: At = At { file: u32::MAX, line: 0, column: 0 };

    /// Returns the place of a file as a whole.
    pub fn file(file: u32) -> At {
        At { file, line: 0, column: 0 }
    }
}

impl Sources {
    /// Creates sources from files, which `At::file` indexes.
    pub fn new(files: Vec<Source>) -> Self {
        Self { files: files.into(), begins: Arc::default() }
    }

    /// Returns the files, in the order they were read.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.files.iter()
    }

    /// Returns the file a place is in.
    pub fn of(&self, at: At) -> Option<&Source> {
        self.files.get(index(at.file))
    }

    /// Returns the line of a place, and the text above it.
    pub(crate) fn line(&self, at: At) -> Option<(&str, &str)> {
        let line = index(at.line.checked_sub(1)?);
        let begins = self.begins.get_or_init(|| {
            let of = |source: &Source| {
                let ends = source.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
                std::iter::once(0).chain(ends.map(|(end, _)| end + 1)).collect()
            };
            self.iter().map(of).collect()
        });
        let begin = *begins.get(index(at.file))?.get(line)?;
        let (above, rest) = self.of(at)?.text.split_at_checked(begin)?;
        // A line end at the end of the text does not begin another line.
        let line = rest.split('\n').next().filter(|_| !rest.is_empty())?;
        Some((line.trim_end_matches('\r'), above))
    }

    /// Returns a place as `file:line:column`.
    pub fn place(&self, at: At) -> String {
        let name = self.of(at).map_or("(default)", |source| source.name.as_str());
        match at.line {
            0 => format!("{name}:1:1"),
            line => format!("{name}:{line}:{}", at.column),
        }
    }
}

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
        let mut hasher = DefaultHasher::new();
        (at, what, help).hash(&mut hasher);
        self.seen.insert(hasher.finish())
    }

    fn in_order(&self) -> std::vec::IntoIter<&Complaint> {
        let mut all: Vec<&Complaint> = self.complaints.iter().collect();
        all.sort_by_key(|complaint| complaint.at);
        all.into_iter()
    }
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

/// Converts a number to an index. A number that does not fit becomes an index that is not in any list.
fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns a part of the file as a complaint quotes it: on one line, printable and not too long.
pub(crate) fn quote(text: &str) -> String {
    // Harmless: `...` stands for the rest.
    let mut quoted: String =
        text.chars().take(QUOTE_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(QUOTE_CHARS_MAX).is_some() {
        quoted.push_str(CUT);
    }
    format!("`{quoted}`")
}
