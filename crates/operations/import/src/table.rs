//! The table of an import: converted, approximated and refused parts, each with its place; and mistakes in the configuration.

use std::collections::HashMap;
use std::fmt;

/// A place in an artifact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactPosition {
    /// The file's path below the imported folder.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

/// The outcome of a part of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The configuration does the same.
    Converted,
    /// The result is nearly equivalent; the note names the difference.
    Approximated,
    /// It has no counterpart; the note is the reason. A comment replaces it.
    Refused,
}

/// A part of an artifact and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub outcome: Outcome,
    /// The element, with the attribute that tells it from others.
    pub what: String,
    pub place: ArtifactPosition,
    /// Empty for a converted part.
    pub note: String,
}

/// A mistake in the configuration, by the line and column of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub line: u32,
    pub column: u32,
    pub what: String,
}

/// All rows, in the order in which they were met.
#[derive(Debug, Default, Clone)]
pub struct Table {
    pub rows: Vec<Row>,
}

impl Table {
    /// Opens a row, so that it comes before those of inner elements.
    pub(crate) fn begin(&mut self, what: String, place: ArtifactPosition) -> usize {
        self.rows.push(Row { outcome: Outcome::Converted, what, place, note: String::new() });
        self.rows.len() - 1
    }

    /// Sets the outcome of a row; the worst one stays.
    pub(crate) fn set(&mut self, row: usize, outcome: Outcome, note: &str) {
        let Some(row) = self.rows.get_mut(row) else { return };
        row.outcome = row.outcome.max(outcome);
        if !row.note.is_empty() && !note.is_empty() {
            row.note.push_str("; ");
        }
        row.note.push_str(note);
    }

    /// Refuses a part with the reason. Changes its row, or adds a row if it has none.
    pub(crate) fn refuse(&mut self, what: &str, place: &ArtifactPosition, why: &str) {
        let known = self.rows.iter().position(|row| row.place == *place && row.what == what);
        match known {
            Some(row) => self.set(row, Outcome::Refused, why),
            None => self.add(Outcome::Refused, what, place.clone(), why),
        }
    }

    /// Adds a row with its outcome and note.
    pub(crate) fn add(
        &mut self,
        outcome: Outcome,
        what: &str,
        place: ArtifactPosition,
        note: &str,
    ) {
        let row = self.begin(what.to_owned(), place);
        self.set(row, outcome, note);
    }

    /// The number of rows with this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.rows.iter().filter(|row| row.outcome == outcome).count()
    }

    /// Unites equal rows: a sequence that is expanded in several flows counts once.
    pub(crate) fn unite(&mut self) {
        let mut kept: Vec<Row> = Vec::new();
        let mut known: HashMap<(ArtifactPosition, String), usize> = HashMap::new();
        for row in self.rows.drain(..) {
            let key = (row.place.clone(), row.what.clone());
            let at = *known.entry(key).or_insert(kept.len());
            match kept.get_mut(at) {
                None => kept.push(row),
                Some(known) if known.outcome < row.outcome => *known = row,
                Some(_) => {}
            }
        }
        self.rows = kept;
    }
}

impl fmt::Display for ArtifactPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Converted => "converted",
            Outcome::Approximated => "approximated",
            Outcome::Refused => "refused",
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = |text: fn(&Row) -> String| {
            self.rows.iter().fold(0, |widest, row| text(row).chars().count().max(widest)).min(60)
        };
        let (places, whats) = (widest(|row| row.place.to_string()), widest(|row| row.what.clone()));
        for Row { outcome, what, place, note } in &self.rows {
            let line =
                format!("{outcome:<12}  {:<places$}  {what:<whats$}  {note}", place.to_string());
            writeln!(f, "{}", line.trim_end())?;
        }
        let [converted, approximated, refused] =
            [Outcome::Converted, Outcome::Approximated, Outcome::Refused].map(|o| self.count(o));
        write!(f, "{converted} converted, {approximated} approximated, {refused} refused")
    }
}
