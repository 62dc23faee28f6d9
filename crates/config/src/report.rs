//! Complaints: what is wrong, where, and what to write instead.
//!
//! Owns places, the texts they point into, and the printing of a report. Never decides what is wrong.

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
    /// The line, from 1; 0 where the place is the file as a whole.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// One file as it was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name as the operator would write it.
    pub name: String,
    /// The folder that relative paths in this file start from.
    pub folder: PathBuf,
    /// The text before substitution.
    pub text: String,
}

/// The files a configuration was read from; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Arc<[Source]>,
    /// The offsets of the lines of each, once somebody asks: a hostile file has very many complaints, and very many lines.
    begins: Arc<OnceLock<Vec<Vec<usize>>>>,
}

/// The effect of a complaint on the use of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration works, and probably not as meant.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Its place.
    pub at: At,
    /// Errors stop the configuration, warnings do not.
    pub severity: Severity,
    /// The defect: one sentence without a full stop.
    pub what: String,
    /// The text to write instead.
    pub help: Option<String>,
}

/// Every complaint about one configuration, gathered and then printed in order of place. Errors and warnings are kept and counted
/// apart: however many warnings there are, an error is never unknown.
#[derive(Clone, Debug, Default)]
pub struct Report {
    // Boxed, so that a result with a report is small.
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
    /// The number of those that are counted and not kept.
    left_out: usize,
    /// Hashes of all of them, since what several routes share is wrong once.
    seen: HashSet<u64>,
}

/// The most complaints of one severity that are kept. The rest is only counted: nobody reads the thousand-and-first, and a
/// hostile file of two million unknown keys must not become two million strings.
const COMPLAINTS_MAX: usize = 1_000;

/// Longer words are not typing slips.
const SUGGESTION_CHARS_MAX: usize = 64;

/// More names than this are not looked through for the one that was meant.
const SUGGESTIONS_MAX: usize = 1_000;

/// The longest piece of a file that a complaint quotes, in characters.
const QUOTE_CHARS_MAX: usize = 60;

/// Behind a piece that was longer.
pub(crate) const CUT: &str = "...";

impl At {
    /// The place of what nobody wrote: defaults.
    pub const NOWHERE: At = At { file: u32::MAX, line: 0, column: 0 };

    /// A file as a whole.
    pub fn file(file: u32) -> At {
        At { file, line: 0, column: 0 }
    }
}

impl Sources {
    /// Names the files; `At::file` indexes into them.
    pub fn new(files: Vec<Source>) -> Self {
        Self { files: files.into(), begins: Arc::default() }
    }

    /// The files, in the order they were read.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.files.iter()
    }

    /// The file a place is in.
    pub fn of(&self, at: At) -> Option<&Source> {
        self.files.get(index(at.file))
    }

    /// The line of a place, and the text above it.
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
        // A line end at the end of the text begins no line.
        let line = rest.split('\n').next().filter(|_| !rest.is_empty())?;
        Some((line.trim_end_matches('\r'), above))
    }

    /// `file:line:column`.
    pub fn place(&self, at: At) -> String {
        let name = self.of(at).map_or("(default)", |source| source.name.as_str());
        match at.line {
            0 => format!("{name}:1:1"),
            line => format!("{name}:{line}:{}", at.column),
        }
    }
}

impl Report {
    /// The same report about files that are named as they are seen from a folder.
    pub fn relative_to(mut self, folder: &std::path::Path) -> Report {
        let below = |source: &Source| {
            let name = std::path::Path::new(&source.name).strip_prefix(folder);
            let name = name.map_or_else(|_| source.name.clone(), |name| name.display().to_string());
            Source { name, ..source.clone() }
        };
        self.sources = Sources::new(self.sources.iter().map(below).collect());
        self
    }

    /// An empty report about these files.
    pub fn new(sources: Sources) -> Self {
        Self { sources, ..Self::default() }
    }

    /// Complains: the configuration cannot be used.
    pub fn error(&mut self, at: At, what: impl Into<String>, help: impl Into<String>) {
        self.push(at, Severity::Error, what.into(), help.into());
    }

    /// Warns: the configuration works, and probably not as meant.
    pub fn warn(&mut self, at: At, what: impl Into<String>, help: impl Into<String>) {
        self.push(at, Severity::Warning, what.into(), help.into());
    }

    /// Notes a file that was looked for because another names it: a change of it is a change of the configuration.
    pub fn depends_on(&mut self, file: PathBuf) {
        self.files.insert(file);
    }

    /// True if further errors are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.is_full()
    }

    /// The files that others name.
    pub fn files(&self) -> &BTreeSet<PathBuf> {
        &self.files
    }

    /// Notes what a text with references became: no complaint says it.
    pub(crate) fn hide(&mut self, at: At, written: &str, text: &str, values: &[String]) {
        self.hidden.put_in(at, written, text, values);
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

    /// The candidate an operator most likely meant, if one is near enough to be worth saying.
    pub fn suggest<'c>(
        &self,
        wrong: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        // Comparing costs microseconds. Nobody reads what a full report leaves out, and thousands of
        // unknown names times thousands of candidates would be minutes.
        if self.is_full() { None } else { Report::nearest(wrong, candidates) }
    }

    /// The candidate that a word was most likely meant to be, however many complaints there are.
    pub(crate) fn nearest<'c>(
        wrong: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        let letters = wrong.chars().count();
        if letters > SUGGESTION_CHARS_MAX {
            return None;
        }
        // One slip in short words, about one in three letters in long ones: `adress` finds `address`,
        // `flow` finds nothing.
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

    /// True if anything stops the configuration from being used.
    pub fn has_errors(&self) -> bool {
        !self.errors.complaints.is_empty()
    }

    /// True if there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.errors.complaints.is_empty() && self.warnings.complaints.is_empty()
    }

    /// Complaints that stop the configuration, in order of place, as far as they are kept.
    pub fn errors(&self) -> impl Iterator<Item = &Complaint> {
        self.errors.in_order()
    }

    /// Complaints that do not stop it, in order of place, as far as they are kept.
    pub fn warnings(&self) -> impl Iterator<Item = &Complaint> {
        self.warnings.in_order()
    }

    /// The number of errors that [`Report::errors`] leaves out.
    pub fn errors_left_out(&self) -> usize {
        self.errors.left_out
    }

    /// The number of warnings that [`Report::warnings`] leaves out.
    pub fn warnings_left_out(&self) -> usize {
        self.warnings.left_out
    }

    /// The files the complaints point into.
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

    /// True the first time.
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

/// `... and 2 more errors`; nothing where none is left out.
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

/// The index of a number; none of a list where it is larger than a list can be.
fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A piece of the file as a complaint quotes it: on one line, printable, and not too long.
pub(crate) fn quote(text: &str) -> String {
    // Harmless: `...` matches the rest.
    let mut quoted: String =
        text.chars().take(QUOTE_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(QUOTE_CHARS_MAX).is_some() {
        quoted.push_str(CUT);
    }
    format!("`{quoted}`")
}
