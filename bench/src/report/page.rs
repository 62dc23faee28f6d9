//! The report as one HTML file and as Markdown, and the command that writes them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;

use super::claims::{claims, table as claims_table};
use super::costs::Costs;
use super::documents::tables;
use super::graphs::graphs;
use super::results::{Measured, Results};
use super::summary::summary;
use super::table::{Table, escaped};
use crate::folder::BEFORE;
use crate::scenarios::{self, Scenario};

/// Where `bench report` writes. Without a file it prints Markdown.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ReportArguments {
    /// The folder of results.
    pub folder: PathBuf,
    /// Further folders, such as of another machine that ran a part of the rows.
    #[arg(long, value_name = "DIR")]
    pub with: Vec<PathBuf>,
    /// One file with all tables and graphs.
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// All tables as Markdown.
    #[arg(long)]
    pub markdown: Option<PathBuf>,
    /// `summary.csv` with the reference's columns.
    #[arg(long)]
    pub csv: Option<PathBuf>,
    /// A folder for all graphs as PNG files.
    #[arg(long)]
    pub png: Option<PathBuf>,
    /// A folder for a page in Markdown for each document, with its graphs, its summary and its rows as JSON.
    #[arg(long, value_name = "DIR")]
    pub pages: Option<PathBuf>,
}

const STYLE: &str = include_str!("page.css");

impl ReportArguments {
    /// Writes the requested files, and returns the text to print.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read or has no finished row. Nothing is written then.
    pub fn run(&self) -> Result<String> {
        let mut results = Results::read(&self.folder)?;
        for folder in &self.with {
            results.add(Results::read(folder)?)?;
        }
        anyhow::ensure!(!results.rows.is_empty(), "{} has no finished row", self.folder.display());
        let outputs = [
            (&self.html, html(&results)?),
            (&self.markdown, markdown(&results)),
            (&self.csv, summary(&results)),
        ];
        let mut printed = String::new();
        for (path, text) in outputs {
            if let Some(path) = path {
                crate::folder::write_whole(path, text.as_bytes())?;
                printed.push_str(&format!("{}\n", path.display()));
            }
        }
        if let Some(folder) = &self.png {
            for graph in graphs(&results) {
                if graph.write_png(folder)? {
                    printed.push_str(&format!(
                        "{}\n",
                        folder.join(format!("{}.png", graph.name)).display()
                    ));
                }
            }
        }
        if let Some(folder) = &self.pages {
            for page in super::pages::write(&results, folder)? {
                printed.push_str(&format!("{}\n", page.display()));
            }
        }
        Ok(if printed.is_empty() { markdown(&results) } else { printed })
    }
}

/// Returns all tables as Markdown.
#[must_use]
pub fn markdown(results: &Results) -> String {
    let tables = all_tables(results);
    let texts: Vec<String> = tables.iter().map(Table::markdown).collect();
    format!("# Load-test results: {}\n\n{}", results.name, texts.join("\n"))
}

/// Returns all tables and graphs as one HTML file that loads nothing.
///
/// # Errors
///
/// If a graph cannot be drawn.
pub fn html(results: &Results) -> Result<String> {
    let title = escaped(&format!("Load-test results: {}", results.name));
    let mut body = format!("<h1>{title}</h1>\n");
    for table in all_tables(results) {
        body.push_str(&table.html());
    }
    body.push_str("<h2>Graphs</h2>\n<div class=\"graphs\">\n");
    for graph in graphs(results) {
        if let Some(svg) = graph.svg()? {
            body.push_str(&format!("<figure>{svg}</figure>\n"));
        }
    }
    body.push_str("</div>\n");
    Ok(whole(&title, &body))
}

/// Returns a complete HTML page with this title and body.
pub(super) fn whole(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style></head>\n\
         <body><main>\n{body}</main></body></html>\n"
    )
}

fn all_tables(results: &Results) -> Vec<Table> {
    let mut all = tables(results);
    all.extend(costs(results));
    let mut claims = claims(results);
    claims.retain(|claim| results.rows.iter().any(|row| row.row.document == claim.document()));
    if !claims.is_empty() {
        all.push(claims_table(&claims));
    }
    all
}

/// Returns the tables of costs, if rows were run for their costs or in turn with another build.
fn costs(results: &Results) -> Vec<Table> {
    let is_one = |row: &Measured| row.row.document == "costs" || row.key.gateway == BEFORE;
    let names: BTreeSet<&str> = results
        .rows
        .iter()
        .filter(|row| is_one(row))
        .map(|row| row.key.scenario.as_str())
        .collect();
    // Harmless: the program's own files are read by a test.
    let known = scenarios::all().unwrap_or_default();
    let wanted: Vec<&Scenario> =
        known.iter().filter(|one| names.contains(one.name.as_str())).collect();
    Costs::of(results, &wanted).tables()
}
