//! The files of a configuration, places in them, and how a complaint quotes them.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

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
