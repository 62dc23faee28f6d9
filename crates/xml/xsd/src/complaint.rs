//! Complaints about a schema.
//!
//! Owns the list of complaints and its limit. It does not decide what is wrong.

use std::fmt;
use std::sync::Arc;

use xml::Position;

/// An error in a schema, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The violated rule of XML Schema Part 1 or 2, such as `src-resolve` or `cos-nonambig`; or `limit`.
    pub code: &'static str,
    /// Location of the document, as given or as resolved.
    pub location: Arc<str>,
    pub at: Position,
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.location, self.at, self.code, self.message)
    }
}

/// A list of complaints with a maximum length.
#[derive(Debug)]
pub(crate) struct Report {
    complaints: Vec<Complaint>,
    max: usize,
}

impl Report {
    pub(crate) fn new(max: usize) -> Report {
        Report { complaints: Vec::new(), max: max.max(1) }
    }

    /// Adds a complaint, unless the list is full.
    pub(crate) fn push(&mut self, complaint: Complaint) {
        if self.complaints.len() < self.max {
            self.complaints.push(complaint);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.complaints.is_empty()
    }

    pub(crate) fn into_complaints(self) -> Vec<Complaint> {
        self.complaints
    }
}
