//! Artifacts of Apache Synapse and WSO2 Micro Integrator, turned into a configuration.
//!
//! Owns the counterpart of each artifact and mediator: proxies and APIs are routes, sequences are flows, endpoints are upstreams.
//! It runs nothing that it reads and downloads nothing. Every part is in the table: converted, approximated with the
//! difference, or refused with the reason; a comment stands in the place of a refused part.

mod archive;
mod artifacts;
mod converter;
mod dollar;
mod element;
mod endpoint_templates;
mod endpoints;
mod expressions;
mod mediators;
mod output;
mod scheduled;
mod services;
mod table;
mod times;
mod xpath_text;

use std::path::Path;

use artifacts::{Artifacts, Files};
use converter::{Converter, Flow};
use element::Element;
pub use table::{ArtifactPosition, Outcome, Row, Table};

/// The result of an import.
#[derive(Debug)]
pub struct ImportResult {
    /// A whole configuration, as YAML.
    pub configuration: String,
    /// The same without a listener, for a gateway that has its own.
    pub part: String,
    /// Files that it names, by their paths beside it.
    pub files: Vec<(String, Vec<u8>)>,
    /// The outcome of each part.
    pub table: Table,
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
    let mut converter = Converter::new(&artifacts, table);
    converter.all();
    let Converter { out, mut table, .. } = converter;
    table.unite();
    let whole = out.configuration();
    let mut part = whole.clone();
    if let Some(keys) = part.as_object_mut() {
        keys.remove("listen");
    }
    let (configuration, part) = (crate::yaml(&whole), crate::yaml(&part));
    Ok(ImportResult { configuration, part, files: out.files, table })
}

impl<'a> Converter<'a> {
    /// Converts every artifact.
    fn all(&mut self) {
        let artifacts = self.artifacts;
        artifacts.stores.iter().for_each(|store| self.store(store));
        artifacts.proxies.iter().for_each(|proxy| self.proxy(proxy));
        artifacts.apis.iter().for_each(|api| self.api(api));
        if let Some(main) = artifacts.sequences.get("main") {
            self.main(*main);
        }
        artifacts.processors.iter().for_each(|processor| self.processor(processor));
        artifacts.tasks.iter().for_each(|task| self.task(task));
        artifacts.named.iter().for_each(|named| self.unused(named));
        artifacts.others.iter().for_each(|other| self.other(other));
        self.keep_unprocessed();
        self.out.give_times();
    }

    /// Converts artifacts that no other refers to, so that one file of a project can be imported alone.
    fn unused(&mut self, named: &Element<'a>) {
        let name = named.attribute("name").or(named.attribute("key")).unwrap_or("");
        match named.name() {
            "sequence" if !matches!(name, "main" | "fault") => self.unused_sequence(named, name),
            "endpoint" => {
                let notes = std::mem::take(&mut self.notes);
                // Whose path its variables are of is known where it is called.
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
            "localEntry" => match self.artifacts.is_taken(name) {
                true => self.artifact(named, Outcome::Converted, ""),
                false => {
                    self.artifact(named, Outcome::Approximated, "nothing takes it; it is left out")
                }
            },
            "template" if named.child("sequence").is_none() => {
                match self.artifacts.is_template_used(name) {
                    true => self.artifact(named, Outcome::Converted, ""),
                    false => self.artifact(
                        named,
                        Outcome::Approximated,
                        "no endpoint is made of it; it is left out",
                    ),
                }
            }
            "template" if self.template_flows.iter().all(|(known, _)| *known != name) => {
                self.artifact(named, Outcome::Approximated, "nothing calls it; it is left out");
            }
            // Harmless: others have rows where they are used, or of their own.
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
        self.flow_of(flow, |this| this.steps(&items).0, catch);
    }

    /// Reports an artifact that has no counterpart as a whole.
    fn other(&mut self, other: &Element<'a>) {
        let protocol = other.attribute("protocol").unwrap_or("its own class");
        let why = match other.name() {
            "inboundEndpoint" => match protocol {
                "http" | "https" => {
                    "a listener of its own is `listen.NAME`, and a route with `match: { listener }` and the flow of its sequence".to_owned()
                }
                "ws" | "wss" => "WebSockets pass through a route with an upstream; no flow looks into them".to_owned(),
                _ => format!("nothing takes messages from `{protocol}`; a service of yours can post them"),
            },
            "import" | "localEntries" => "operations of connectors have no counterpart".to_owned(),
            "priority-executor" => "there are no executors with priorities".to_owned(),
            name => format!("the artifact `{name}` has no counterpart"),
        };
        self.refuse("routes", &mediators::told(other), other.place(), &why);
    }
}
