//! A schema or description with everything it names, read and compiled.
//!
//! All files are read before anything is compiled, so that what the plan before has compiled of the same bytes is taken
//! over. What does not compile is remembered as well.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::policies::soap::Actions;
use config::{FilePath, Map, Report, Spanned};
use wsdl::{WSDL11, WSDL20};
use xml::{Document, Kind};

use super::actions;
use crate::policy::Place;

/// One file: large standards have some hundred kilobytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Files one definition names, directly or by others; large standards come in some hundreds.
const FILES_MAX: usize = 2000;

const XSD: &str = "http://www.w3.org/2001/XMLSchema";

/// A definition ready to validate with.
pub(crate) struct Compiled {
    pub(crate) schema: Arc<xsd::Schema>,
    /// Of a description.
    pub(crate) actions: Option<Arc<Actions>>,
}

/// Why there is none.
pub(crate) struct Wrong {
    /// Each with its file, line and column.
    pub(crate) complaints: Vec<String>,
    /// The document is neither a description nor a schema.
    pub(crate) no_schema: bool,
}

/// Documents in memory.
pub(crate) struct Loaded {
    location: String,
    documents: HashMap<String, Vec<u8>>,
}

impl Loaded {
    /// One document that names no others.
    pub(crate) fn of_text(text: &str, location: &str) -> Loaded {
        let documents = HashMap::from([(location.to_owned(), text.as_bytes().to_vec())]);
        Loaded { location: location.to_owned(), documents }
    }

    fn first(&self) -> &[u8] {
        self.documents.get(&self.location).map(Vec::as_slice).unwrap_or_default()
    }

    /// It is a comment and nothing else, which is how Kong's users switch a schema off.
    pub(crate) fn is_comment(&self) -> bool {
        let text = self.first().trim_ascii();
        let inner = text.strip_prefix(b"<!--").and_then(|rest| rest.strip_suffix(b"-->"));
        inner.is_some_and(|inner| !inner.windows(3).any(|three| three == b"-->"))
    }

    fn key(&self) -> String {
        let mut all: Vec<(&String, &Vec<u8>)> = self.documents.iter().collect();
        all.sort_unstable();
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&all);
        let bytes: usize = all.iter().map(|(_, bytes)| bytes.len()).sum();
        format!("xml definitions {} {bytes} {hash:x}", self.location)
    }
}

/// The definitions of an API, shared by whoever names the same files with the same content.
pub(crate) fn api(
    schema: &Spanned<FilePath>,
    imports: &Map<Spanned<FilePath>>,
    place: &mut Place<'_, '_>,
    report: &mut Report,
) -> Option<Arc<Result<Compiled, Wrong>>> {
    load(schema, imports, report).map(|loaded| compiled(&loaded, place))
}

/// What was loaded, compiled; taken over from the plan before where that has it.
pub(crate) fn compiled(loaded: &Loaded, place: &mut Place<'_, '_>) -> Arc<Result<Compiled, Wrong>> {
    place.making.kept_or(&loaded.key(), || Arc::new(compile(loaded)))
}

/// Reads a file and all it names. A file that the configuration names and that is not there is complained about.
pub(crate) fn load(
    file: &Spanned<FilePath>,
    imports: &Map<Spanned<FilePath>>,
    report: &mut Report,
) -> Option<Loaded> {
    let first = read_or_complain(file, report)?;
    let mut mapped = HashMap::new();
    for (location, import) in imports.iter() {
        let bytes = read_or_complain(import, report)?;
        mapped.insert(location.value.as_str(), (import.value.as_path().to_owned(), bytes));
    }
    let path = file.value.as_path().to_owned();
    let location = xsd::join("", &path.to_string_lossy());
    let mut documents = HashMap::from([(location.clone(), first)]);
    let mut waiting = vec![(location.clone(), path)];
    while let Some((base, path)) = waiting.pop() {
        let bytes = documents.get(&base).map(Vec::as_slice).unwrap_or_default();
        for reference in references(bytes) {
            let joined = xsd::join(&base, &reference);
            if documents.contains_key(&joined) || documents.len() >= FILES_MAX {
                continue;
            }
            let found = match mapped.get(reference.as_str()) {
                Some((path, bytes)) => Some((path.clone(), bytes.clone())),
                None => beside(&path, &reference),
            };
            // What is nowhere is complained about by whoever needs it.
            if let Some((path, bytes)) = found {
                documents.insert(joined.clone(), bytes);
                waiting.push((joined, path));
            }
        }
    }
    Some(Loaded { location, documents })
}

/// A file as the one that names it means it.
fn beside(path: &Path, reference: &str) -> Option<(PathBuf, Vec<u8>)> {
    let relative = reference.split('#').next().unwrap_or_default();
    if relative.is_empty() || relative.contains("://") {
        return None;
    }
    let file = path.parent().unwrap_or(Path::new("")).join(relative);
    let bytes = read(&file).ok()?;
    Some((file, bytes))
}

/// Locations that a schema or a description names.
fn references(bytes: &[u8]) -> Vec<String> {
    let Ok(document) = Document::parse(bytes, &xml::Options::default()) else { return Vec::new() };
    let Some(root) = document.root_element() else { return Vec::new() };
    let mut found = Vec::new();
    for node in document.descendants(root).filter(|node| document.kind(*node) == Kind::Element) {
        let name = document.name(node);
        let key = match (name.namespace.uri, name.local) {
            (XSD, "import" | "include" | "redefine") => "schemaLocation",
            (WSDL11 | WSDL20, "import" | "include") => "location",
            _ => continue,
        };
        found.extend(document.attribute(node, "", key).map(|location| location.trim().to_owned()));
    }
    found
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    match u64::try_from(bytes.len()).is_ok_and(|length| length <= FILE_BYTES_MAX) {
        true => Ok(bytes),
        false => Err(format!("it is larger than {FILE_BYTES_MAX} bytes")),
    }
}

/// The bytes of a file that the configuration names.
pub(crate) fn read_or_complain(file: &Spanned<FilePath>, report: &mut Report) -> Option<Vec<u8>> {
    let path = file.value.as_path();
    let told = |why: String| {
        let help =
            "name a file that the gateway may read; a relative path starts at this file's folder";
        report.error(file.at, format!("cannot read `{}`: {why}", path.display()), help);
    };
    read(path).map_err(told).ok()
}

fn compile(loaded: &Loaded) -> Result<Compiled, Wrong> {
    let location = loaded.location.as_str();
    let wrong = |complaints: Vec<String>| Wrong { complaints, no_schema: false };
    let document = Document::parse(loaded.first(), &xml::Options::default())
        .map_err(|error| wrong(vec![format!("{location}:{error}")]))?;
    let root = document.root_element().map(|root| document.name(root));
    let root = root.map(|name| (name.namespace.uri, name.local));
    let mut documents = xsd::Map::default();
    for (location, bytes) in &loaded.documents {
        documents.insert(location, bytes.clone());
    }
    let told = |complaints: Vec<xsd::Complaint>| {
        wrong(complaints.iter().map(ToString::to_string).collect())
    };
    match root {
        Some((WSDL11 | WSDL20, "definitions" | "description")) => {
            let description = wsdl::read(location, &documents, &wsdl::Limits::default());
            let description = description.map_err(told)?;
            if description.schema.elements().next().is_none() {
                let text = "Invalid WSDL/XSD schema. Unable to find the '< wsdl:types >'";
                return Err(wrong(vec![text.to_owned()]));
            }
            let actions = match description.version {
                wsdl::Version::V11 => actions::of_11(&description),
                wsdl::Version::V20 => actions::of_20(&document),
            };
            let actions = Some(Arc::new(actions));
            Ok(Compiled { schema: description.schema, actions })
        }
        Some((XSD, "schema")) => {
            let mut set = xsd::SchemaSet::new(&documents, xsd::Limits::default());
            set.add_bytes(loaded.first(), location);
            let schema = set.compile().map_err(told)?;
            Ok(Compiled { schema: Arc::new(schema), actions: None })
        }
        Some((uri, local)) => {
            let what = format!(
                "{location}: the root is {{{uri}}}{local}, which is neither a WSDL's nor a schema's"
            );
            Err(Wrong { complaints: vec![what], no_schema: true })
        }
        None => Err(wrong(vec![format!("{location}: there is no element")])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_envelopes_compile() {
        for text in [::policies::soap::ENVELOPE_11, ::policies::soap::ENVELOPE_12] {
            let compiled = compile(&Loaded::of_text(text, "envelope"));
            let complaints = compiled.err().map(|wrong| wrong.complaints);
            assert_eq!(complaints, None);
        }
    }

    #[test]
    fn a_comment_alone_is_told_apart() {
        for (text, comment) in [
            ("<!-- -->", true),
            (" <!--a-->\n", true),
            ("<!--a--><b/><!--c-->", false),
            ("<a/>", false),
        ] {
            assert_eq!(Loaded::of_text(text, "x").is_comment(), comment, "{text}");
        }
    }
}
