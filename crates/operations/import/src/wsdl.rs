//! WSDL documents: read with all files they name, and turned into a configuration.
//!
//! Owns the search for a description's files, and the configuration that an operator would have written to offer the service as
//! JSON. Nothing is downloaded: a location that is a URL needs a local file.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ::wsdl::typed::{self, Api, PortChoice, Proof};
use ::wsdl::{Complaint, Description, Limits};
use serde_json::{Map, Value as Json, json};
use xsd::{ResolveError, Resolver};

/// The maximum size of a file: large standards have some hundred kilobytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A description, with a hash of every byte it was made of.
pub struct ReadDescription {
    pub description: Description,
    pub content: u64,
}

/// Reads a description with everything it names; `imports` gives files for locations. The error is a list of complaints with
/// their places.
pub fn description(
    file: &Path,
    imports: &[(String, PathBuf)],
) -> Result<ReadDescription, Vec<String>> {
    with_texts(file, imports).map(|(description, _)| description)
}

/// The texts of a description, by their locations.
type Texts = Vec<(String, Vec<u8>)>;

fn with_texts(
    file: &Path,
    imports: &[(String, PathBuf)],
) -> Result<(ReadDescription, Texts), Vec<String>> {
    let location = xsd::join("", &file.to_string_lossy());
    let mut given = HashMap::new();
    for (written, path) in imports {
        given.insert(xsd::join(&location, written), path.clone());
        given.insert(written.clone(), path.clone());
    }
    let files = Files { first: (location.clone(), file.to_owned()), given, read: Mutex::default() };
    let description = ::wsdl::read(&location, &files, &Limits::default())
        .map_err(|complaints| complaints.iter().map(told).collect::<Vec<_>>())?;
    let mut read = files.read.into_inner().unwrap_or_else(PoisonError::into_inner);
    read.sort_unstable();
    let content = kit::hash::fixed(&read);
    Ok((ReadDescription { description, content }, read))
}

/// A complaint. If the policy `soap` would accept the mistake, the text explains why it matters here.
fn told(complaint: &Complaint) -> String {
    if complaint.code.starts_with("wsdl-") && !::wsdl::is_needed(complaint) {
        format!("{complaint}, which is needed to translate messages to JSON")
    } else {
        complaint.to_string()
    }
}

struct Files {
    first: (String, PathBuf),
    given: HashMap<String, PathBuf>,
    read: Mutex<Vec<(String, Vec<u8>)>>,
}

impl Files {
    fn path(&self, location: &str) -> Option<PathBuf> {
        if *location == *self.first.0 {
            return Some(self.first.1.clone());
        }
        let given = self.given.get(location).cloned();
        given.or_else(|| (!location.contains("://")).then(|| file_at(Path::new(""), location)))
    }
}

/// The file for a location, relative to a folder. A location is a URI reference: `my%20types.xsd` is the file `my types.xsd`, unless a
/// file has the undecoded name.
pub fn file_at(folder: &Path, location: &str) -> PathBuf {
    let written = folder.join(location);
    if !location.contains('%') || written.exists() {
        return written;
    }
    // Harmless: a name that is not UTF-8 is looked up undecoded.
    let decoded = String::from_utf8(kit::percent::decoded(location.as_bytes(), false).into_owned());
    decoded.map_or(written, |decoded| folder.join(decoded))
}

impl Resolver for Files {
    fn load(&self, location: &str) -> Result<Vec<u8>, ResolveError> {
        let path = self.path(location).ok_or(ResolveError::Absent)?;
        let refused = |error: std::io::Error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                ResolveError::Absent
            } else {
                ResolveError::Refused(error.to_string())
            }
        };
        let mut bytes = Vec::new();
        let file = config::open(&path).map_err(refused)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(refused)?;
        if !u64::try_from(bytes.len()).is_ok_and(|length| length <= FILE_BYTES_MAX) {
            return Err(ResolveError::Refused(format!("it is larger than {FILE_BYTES_MAX} bytes")));
        }
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.push((location.to_owned(), bytes.clone()));
        Ok(bytes)
    }
}

/// The options of an import.
#[derive(Debug, Clone, Default)]
pub struct RestOptions {
    /// The name of the route and the upstream.
    pub name: String,
    pub file: PathBuf,
    pub imports: Vec<(String, PathBuf)>,
    pub service: Option<String>,
    pub port: Option<String>,
    /// The prefix of all operations' paths.
    pub prefix: Option<String>,
    /// The URL of the service, instead of the port's address.
    pub upstream: Option<String>,
}

/// The result of an import.
#[derive(Debug)]
pub struct WsdlImport {
    /// A whole configuration.
    pub configuration: Json,
    /// The round trip of each operation.
    pub proofs: Vec<Proof>,
    /// Operations that cannot be offered, with the reasons.
    pub left_out: Vec<(String, String)>,
    /// Other services of the description that could be offered.
    pub other_services: Vec<String>,
    /// The documents of the description, by their locations.
    pub documents: Vec<(String, Vec<u8>)>,
}

/// Reads a description and makes the configuration that offers it; tests each operation's round trip.
pub fn offer(options: &RestOptions) -> Result<WsdlImport, Vec<String>> {
    let (read, texts) = with_texts(&options.file, &options.imports)?;
    let wanted = PortChoice { service: options.service.as_deref(), port: options.port.as_deref() };
    let api = typed::api(&read.description, wanted).map_err(|what| vec![what])?;
    let left_out = api.left_out().map(|(name, why)| (name.to_owned(), why.to_owned())).collect();
    if api.operations().is_empty() {
        let all = api.left_out().map(|(name, why)| format!("{name}: {why}"));
        let mut faults = vec!["none of the operations can be offered as JSON".to_owned()];
        faults.extend(all);
        return Err(faults);
    }
    let configuration = configuration(&api, options).map_err(|what| vec![what])?;
    let others = typed::services(&read.description).filter(|name| *name != api.title());
    let other_services = if options.service.is_some() || options.port.is_some() {
        Vec::new()
    } else {
        others.map(str::to_owned).collect()
    };
    let is_wsdl = |location: &str| read.description.documents.iter().any(|of| **of == *location);
    // The first document has the name that the user gave it.
    let first = xsd::join("", &options.file.to_string_lossy());
    let documents = texts.into_iter().filter(|(location, _)| is_wsdl(location));
    let documents = documents.map(|(location, text)| {
        if location == first {
            (options.file.display().to_string(), text)
        } else {
            (location, text)
        }
    });
    Ok(WsdlImport {
        configuration,
        proofs: typed::prove(&api),
        left_out,
        other_services,
        documents: documents.collect(),
    })
}

/// A name in a form that fits into a path.
pub fn slug(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    name.chars().map(|c| if plain(c) { c } else { '-' }).collect()
}

/// A whole configuration that offers an API; the error names the missing part.
fn configuration(api: &Api, options: &RestOptions) -> Result<Json, String> {
    let address = options.upstream.as_deref().or(api.address()).unwrap_or("");
    let scheme = ["http://", "https://"].into_iter().find(|scheme| address.starts_with(scheme));
    let Some(scheme) = scheme else {
        return Err(format!(
            "the port's address is {address:?}, which is not an HTTP service; say where it runs with --upstream"
        ));
    };
    let rest = address.get(scheme.len()..).unwrap_or_default();
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
    let prefix = options.prefix.clone().unwrap_or_else(|| format!("/{}", slug(&options.name)));
    let prefix = prefix.trim_end_matches('/');
    let mut keys = Map::new();
    let shown = |path: &Path| Json::from(path.to_string_lossy());
    keys.insert("wsdl".to_owned(), shown(&options.file));
    if !options.imports.is_empty() {
        let imports = options.imports.iter();
        let imports: Map<String, Json> =
            imports.map(|(location, path)| (location.clone(), shown(path))).collect();
        keys.insert("imports".to_owned(), imports.into());
    }
    for (key, value) in [("service", &options.service), ("port", &options.port)] {
        keys.extend(value.as_ref().map(|value| (key.to_owned(), value.as_str().into())));
    }
    if options.upstream.is_some() && !path.is_empty() {
        keys.insert("path".to_owned(), path.into());
    }
    let name = options.name.as_str();
    Ok(json!({
        "listen": { "public": { "address": crate::listen_beside([address]) } },
        "upstreams": { name: { "targets": [format!("{scheme}{authority}")] } },
        "routes": { name: {
            "match": { "path": format!("{prefix}/**") },
            "policies": [{ "soap_rest": keys }],
            "upstream": name,
        } },
    }))
}
