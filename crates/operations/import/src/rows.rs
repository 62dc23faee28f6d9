//! The tables that report imports of OpenAPI documents and WSDL descriptions. Each operation has a row with its place, and so has
//! each part that is left out or approximated.

use std::collections::HashMap;
use std::path::Path;

use xml::{Here, QName, Sink, Start};

use crate::files::normal;
use crate::json_location::JsonLocation;
use crate::model::Model;
use crate::note::ImportNote;
use crate::uri::path_of;
use crate::wsdl::WsdlImport;
use crate::{ArtifactPosition, Outcome, Row, Table};
use crate::{GeneratedApi, files};

/// The rows of an OpenAPI document that was read from a file. `more` are notes about the document as a whole.
pub fn of_openapi(file: &Path, model: &Model, made: &GeneratedApi, more: &[ImportNote]) -> Table {
    let mut places = JsonPlaces { document: file, texts: HashMap::new() };
    let mut table = Table::default();
    for path in &model.paths {
        for operation in &path.operations {
            let what = format!("{} {}", operation.method, path.template);
            let place = places.of(&operation.location);
            table.rows.push(Row { outcome: Outcome::Converted, what, place, note: String::new() });
        }
    }
    for note in made.notes.iter().chain(more) {
        table.rows.push(Row {
            outcome: note.outcome,
            what: note.what.clone(),
            place: places.of(&note.location),
            note: note.note.clone(),
        });
    }
    table
}

/// Places in the files of a document.
struct JsonPlaces<'d> {
    /// The path as given by the user.
    document: &'d Path,
    texts: HashMap<String, String>,
}

impl JsonPlaces<'_> {
    fn of(&mut self, location: &JsonLocation) -> ArtifactPosition {
        let path = path_of(location.uri());
        // Harmless: the file could be read before. If it cannot be read now, the place is its first line.
        let read = || config::read_text(&path, files::FILE_BYTES_MAX).unwrap_or_default();
        let text = self.texts.entry(location.uri().to_owned()).or_insert_with(read);
        let (line, column) = config::place_of(text, location.pointer());
        // Harmless: a path that cannot be made absolute is shown as it is.
        let is_document = std::path::absolute(self.document).is_ok_and(|own| normal(&own) == path);
        // Harmless: without a current folder the path is shown as it is.
        let here = std::env::current_dir().unwrap_or_default();
        let shown =
            if is_document { self.document } else { path.strip_prefix(here).unwrap_or(&path) };
        ArtifactPosition { file: shown.display().to_string(), line, column }
    }
}

/// The rows of a description: each converted operation with the result of its round trip, and the operations that are
/// left out.
pub fn of_wsdl(file: &Path, import: &WsdlImport) -> Table {
    let mut named = NamedPlaces::default();
    for (location, bytes) in &import.documents {
        named.file.clone_from(location);
        // Harmless: the document was parsed before. After an error, the remaining names only lack their places.
        let _ = xml::parse(bytes, &xml::Options::default(), &mut named);
    }
    let whole = ArtifactPosition { file: file.display().to_string(), line: 1, column: 1 };
    let place = |kind: &'static str, name: &str| {
        let known = named.places.get(&(kind, name.to_owned()));
        known.cloned().unwrap_or_else(|| whole.clone())
    };
    let mut table = Table::default();
    let mut add = |outcome, kind, name: &str, note: String| {
        let what = format!("{kind} {name}");
        table.rows.push(Row { outcome, what, place: place(kind, name), note });
    };
    for proof in &import.proofs {
        let faults: Vec<&str> =
            proof.unproved.iter().chain(&proof.failures).map(String::as_str).collect();
        let outcome = if faults.is_empty() { Outcome::Converted } else { Outcome::Approximated };
        add(outcome, "operation", &proof.operation, faults.join("; "));
    }
    for (name, why) in &import.left_out {
        add(Outcome::Refused, "operation", name, format!("is not offered: {why}"));
    }
    for name in &import.other_services {
        let note = format!("is not offered here; import it with --service {name}");
        add(Outcome::Refused, "service", name, note);
    }
    table.rows.sort_by(|one, other| one.place.cmp(&other.place));
    table
}

/// The places of operations and services in descriptions.
#[derive(Default)]
struct NamedPlaces {
    file: String,
    places: HashMap<(&'static str, String), ArtifactPosition>,
}

impl Sink for NamedPlaces {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        let is_wsdl = [::wsdl::WSDL11, ::wsdl::WSDL20].contains(&start.name.namespace.uri);
        let kind = match start.name.local {
            "operation" if is_wsdl => "operation",
            "service" if is_wsdl => "service",
            _ => return Ok(()),
        };
        if let Some(name) = start.attributes.get("", "name") {
            let at = here.position();
            let (line, column) = (at.line, at.column);
            let place = ArtifactPosition { file: self.file.clone(), line, column };
            self.places.entry((kind, name.value.to_owned())).or_insert(place);
        }
        Ok(())
    }

    fn text(&mut self, _: &str, _: bool, _: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }
}
