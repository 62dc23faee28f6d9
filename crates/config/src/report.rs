//! Complaints: what is wrong, where, and what to write instead.
//!
//! Owns places, the texts they point into, and the printing of a report. Never decides what is wrong.

use std::collections::BTreeSet;
use std::fmt;
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

/// Every complaint about one configuration, gathered and then printed in order of place.
#[derive(Clone, Debug, Default)]
pub struct Report {
    complaints: Vec<Complaint>,
    left_out: usize,
    sources: Sources,
    files: BTreeSet<PathBuf>,
    hidden: HiddenTexts,
}

/// Past this many complaints the rest is only counted: nobody reads the thousand-and-first, and a
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
        self.files.get(usize::try_from(at.file).ok()?)
    }

    /// The line of a place, and the text above it.
    pub(crate) fn line(&self, at: At) -> Option<(&str, &str)> {
        let index = usize::try_from(at.line.checked_sub(1)?).ok()?;
        let begins = self.begins.get_or_init(|| {
            let of = |source: &Source| {
                let ends = source.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
                std::iter::once(0).chain(ends.map(|(end, _)| end + 1)).collect()
            };
            self.iter().map(of).collect()
        });
        let begin = *begins.get(usize::try_from(at.file).ok()?)?.get(index)?;
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

    /// True if further complaints are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.complaints.len() >= COMPLAINTS_MAX
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
        if self.is_full() && severity == Severity::Warning {
            return;
        }
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        let what = self.hidden.without(at, &what);
        let help = Some(self.hidden.without(at, &help)).filter(|help| !help.is_empty());
        let complaint = Complaint { at, severity, what, help };
        // What several routes share is wrong once.
        if !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
    }

    /// The candidate an operator most likely meant, if one is near enough to be worth saying.
    pub fn suggest<'c>(
        &self,
        wrong: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        // Comparing costs microseconds. Nobody reads what a full report leaves out, and thousands of
        // unknown names times thousands of candidates would be minutes.
        let letters = wrong.chars().count();
        if self.is_full() || letters > SUGGESTION_CHARS_MAX {
            return None;
        }
        // One slip in short words, about one in three letters in long ones: `adress` finds `address`,
        // `flow` finds nothing.
        let slips_max = (letters / 3).max(1);
        candidates
            .into_iter()
            .take(SUGGESTIONS_MAX)
            .filter(|candidate| candidate.len().abs_diff(wrong.len()) <= slips_max)
            .map(|candidate| (strsim::damerau_levenshtein(wrong, candidate), candidate))
            .filter(|(slips, _)| *slips <= slips_max)
            .min_by_key(|(slips, _)| *slips)
            .map(|(_, candidate)| candidate)
    }

    /// Takes over what another report about the same files found.
    pub fn append(&mut self, other: Report) {
        self.left_out += other.left_out;
        for complaint in other.complaints {
            let what = self.hidden.without(complaint.at, &complaint.what);
            let help = complaint.help.map(|help| self.hidden.without(complaint.at, &help));
            self.complaints.push(Complaint { what, help, ..complaint });
        }
    }

    /// True if anything stops the configuration from being used.
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    /// True if there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.complaints.is_empty()
    }

    /// Complaints that stop the configuration, in order of place.
    pub fn errors(&self) -> impl Iterator<Item = &Complaint> {
        self.of_severity(Severity::Error)
    }

    /// Complaints that do not stop it, in order of place.
    pub fn warnings(&self) -> impl Iterator<Item = &Complaint> {
        self.of_severity(Severity::Warning)
    }

    /// The files the complaints point into.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    fn of_severity(&self, severity: Severity) -> std::vec::IntoIter<&Complaint> {
        let mut found: Vec<&Complaint> =
            self.complaints.iter().filter(|complaint| complaint.severity == severity).collect();
        found.sort_by_key(|complaint| complaint.at);
        found.into_iter()
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

/// Errors first, then warnings, each in order of place; `{:#}` quotes the line as well.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for complaint in self.errors() {
            self.write(f, complaint, "")?;
        }
        if self.left_out > 0 {
            writeln!(f, "... and {} more", self.left_out)?;
        }
        for complaint in self.warnings() {
            self.write(f, complaint, "warning: ")?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

/// A piece of the file as a complaint quotes it: on one line, printable, and not too long.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted: String =
        text.chars().take(QUOTE_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(QUOTE_CHARS_MAX).is_some() {
        quoted.push_str(CUT);
    }
    format!("`{quoted}`")
}
