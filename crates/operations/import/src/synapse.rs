//! Artifacts of Apache Synapse and WSO2 Micro Integrator, turned into a configuration.
//!
//! Owns the mapping of artifacts and mediators: proxies and APIs become routes, sequences become flows, endpoints become
//! upstreams. It runs no artifact and downloads nothing. Every part is in the table: converted, approximated with the difference,
//! or refused with the reason. A comment replaces a refused part.

mod archive;
mod artifacts;
mod computed;
mod converter;
mod data_services;
mod dollar;
mod element;
mod endpoint_security;
mod endpoint_templates;
mod endpoints;
mod expressions;
mod jdbc;
mod kept;
mod known;
mod mediators;
mod message_path;
mod output;
mod pending;
mod processors;
mod recheck;
mod rewritten;
mod scheduled;
mod sending;
mod services;
mod soap_action;
mod times;
mod value;
mod walk;
mod xpath_text;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use artifacts::{Artifacts, Files};
use converter::{Converter, Flow};
use element::{Element, label};
use output::Output;
use recheck::Origin;
use serde_json::Value as Json;

pub use known::rows;

pub use crate::table::{ArtifactPosition, Mistake, Outcome, Row, Table};

/// The result of an import.
#[derive(Debug)]
pub struct ImportResult {
    /// A whole configuration, as YAML.
    pub configuration: String,
    /// The configuration without a listener, for a gateway that has its own.
    pub part: String,
    /// Files to which it refers, by their relative paths.
    pub files: Vec<(String, Vec<u8>)>,
    /// The outcome of each part.
    pub table: Table,
    /// Stand-in values for the environment variables that the configuration names, so that it can be checked.
    pub stand_ins: HashMap<String, String>,
    /// The configuration, with the origin of each step.
    whole: Json,
    /// The artifact from which each entry of a section was made.
    owners: HashMap<(String, String), Origin>,
}

/// Reads a file, a folder or a Composite Application archive. The error names an unreadable file; a part without a counterpart
/// is in the table.
pub fn import(path: &Path) -> Result<ImportResult, String> {
    let sources = archive::read(path)?;
    let mut table = Table::default();
    let files = Files::parse(sources, &mut table);
    if files.is_empty() {
        let first = table.rows.first();
        let refused = first.map(|row| format!("; {}: {}", row.place, row.note)).unwrap_or_default();
        return Err(format!("there is no artifact of Synapse in `{}`{refused}", path.display()));
    }
    let artifacts = Artifacts::of(&files, &mut table);
    let Converter { out, mut table, .. } = converted(&artifacts, &table);
    table.unite();
    let whole = out.configuration();
    let (configuration, part) = (String::new(), String::new());
    let Output { files, owners, stand_ins, .. } = out;
    let mut made = ImportResult { configuration, part, files, table, stand_ins, whole, owners };
    made.write();
    Ok(made)
}

/// Converts all artifacts. A conversion may find properties that are set in one place and take effect in another. Then everything is
/// converted again, with variables for these properties.
fn converted<'a>(artifacts: &'a Artifacts<'a>, table: &Table) -> Converter<'a> {
    let mut kept = HashSet::new();
    loop {
        let mut converter = Converter::new(artifacts, table.clone(), kept.clone());
        converter.all();
        let known = kept.len();
        kept.extend(converter.wanted.iter().cloned());
        // Each further round has found a new property, so the number of properties bounds the number of rounds.
        if kept.len() == known {
            return converter;
        }
    }
}

impl<'a> Converter<'a> {
    /// Converts every artifact.
    fn all(&mut self) {
        let artifacts = self.artifacts;
        self.each(&artifacts.stores, Self::store);
        self.each(&artifacts.proxies, Self::proxy);
        self.each(&artifacts.apis, Self::api);
        self.each(&artifacts.data_services, Self::data_service);
        if let Some(main) = artifacts.sequences.get("main") {
            self.each(&[*main], |this, main| this.main(*main));
        }
        self.each(&artifacts.processors, Self::processor);
        self.each(&artifacts.tasks, Self::task);
        self.each(&artifacts.named, Self::unused);
        self.each(&artifacts.others, Self::other);
        self.keep_unprocessed();
        self.out.set_timeouts();
    }

    /// Converts artifacts of one kind. Entries that are made meanwhile are recorded as theirs.
    fn each(&mut self, artifacts: &[Element<'a>], convert: fn(&mut Self, &Element<'a>)) {
        for artifact in artifacts {
            self.owner = format!("{} {}", label(artifact), artifact.place());
            convert(self, artifact);
            self.out.own(&label(artifact), &artifact.place());
        }
    }

    /// Converts artifacts that no other refers to, so that one file of a project can be imported alone.
    fn unused(&mut self, named: &Element<'a>) {
        let name = named.attribute("name").or(named.attribute("key")).unwrap_or("");
        match named.name() {
            "sequence" if !matches!(name, "main" | "fault") => self.unused_sequence(named, name),
            "endpoint" => {
                let notes = std::mem::take(&mut self.notes);
                // Only its callers know the path to which variables in its address refer, so they are not checked here.
                let flow = Flow { expanding: vec![name], ..Flow::default() };
                let flow = std::mem::replace(&mut self.flow, flow);
                let made = self.endpoint(named);
                self.flow = flow;
                let notes = std::mem::replace(&mut self.notes, notes).join("; ");
                match (made, notes.is_empty()) {
                    (Err(why), _) => {
                        self.refuse("upstreams", &format!("endpoint {name}"), named.place(), &why);
                    }
                    (Ok(_), false) => self.artifact(named, Outcome::Approximated, &notes),
                    (Ok(_), true) => self.artifact(named, Outcome::Converted, ""),
                }
            }
            "localEntry" => {
                if self.artifacts.is_taken(name) {
                    self.artifact(named, Outcome::Converted, "")
                } else {
                    self.artifact(named, Outcome::Approximated, "nothing takes it; it is left out")
                }
            }
            "template" if named.child("sequence").is_none() => {
                if self.artifacts.is_template_used(name) {
                    self.artifact(named, Outcome::Converted, "")
                } else {
                    self.artifact(
                        named,
                        Outcome::Approximated,
                        "no endpoint is made of it; it is left out",
                    )
                }
            }
            "template" if self.template_flows.iter().all(|(known, _)| *known != name) => {
                self.artifact(named, Outcome::Approximated, "nothing calls it; it is left out");
            }
            // Harmless: other artifacts get their rows where they are used or converted.
            _ => {}
        }
    }

    fn unused_sequence(&mut self, sequence: &Element<'a>, name: &'a str) {
        if self.used.iter().any(|known| known == name) {
            self.artifact(sequence, Outcome::Converted, "");
            return;
        }
        if !self.has_side(sequence, &mut Vec::new()) {
            self.sequence_flow(name, *sequence);
            return;
        }
        self.artifact(sequence, Outcome::Converted, "");
        let flow =
            Flow { name: self.out.fresh("flow", name), expanding: vec![name], ..Flow::default() };
        let items = sequence.children();
        let catch =
            sequence.attribute("onError").and_then(|key| self.fault_sequence(Some(key), None));
        let make = |this: &mut Self| {
            let begun: Vec<Json> = this.begin_kept().into_iter().collect();
            begun.into_iter().chain(this.steps(&items).0).collect()
        };
        self.flow_of(flow, make, catch);
    }

    /// Reports an artifact that has no counterpart as a whole.
    fn other(&mut self, other: &Element<'a>) {
        let protocol = other.attribute("protocol").unwrap_or("its own class");
        let why = match other.name() {
            "inboundEndpoint" => match protocol {
                "http" => return self.inbound(other),
                "https" => "its certificate is in a keystore of Java; write `listen.NAME` with `tls` and a route with `match: { listener }`".to_owned(),
                "ws" | "wss" => "WebSockets pass through a route with an upstream; no flow looks into them".to_owned(),
                _ => format!("nothing takes messages from `{protocol}`; a service of yours can post them"),
            },
            "import" | "localEntries" => "operations of connectors have no counterpart".to_owned(),
            "priority-executor" => "there are no executors with priorities".to_owned(),
            name => format!("the artifact `{name}` has no counterpart"),
        };
        self.refuse("routes", &label(other), other.place(), &why);
    }
}
