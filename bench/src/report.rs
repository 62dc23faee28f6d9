//! Tables, graphs and claims of folders of results, as pages for readers and as the reference's files.
//!
//! It measures nothing, and shows no number that was not measured.

mod chart;
mod claims;
mod compare;
mod costs;
mod documents;
mod forest;
mod gc;
mod graphs;
mod own;
mod page;
mod pages;
mod png;
#[cfg(test)]
mod reference_tests;
#[cfg(test)]
#[path = "report/tests.rs"]
mod report_tests;
mod results;
mod stream_tables;
mod summary;
mod system;
mod table;

pub use chart::{Chart, Series};
pub use claims::{Claim, Verdict, claims};
pub use compare::CompareArguments;
pub use costs::Costs;
pub use documents::tables;
pub use graphs::graphs;
pub use page::{ReportArguments, html, markdown};
pub use results::{Measured, Results};
pub use summary::{columns, summary};
pub use table::Table;
