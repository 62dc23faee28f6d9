//! The WSDL of a SOAP API, with its imported files: `{root, files}`. No files are fetched.

use ::wsdl::typed::{self, PortChoice};
use ::wsdl::{Limits, RpcMessages};
use serde_json::{Map, Value, json};
use xsd::{ResolveError, Resolver};

use crate::objects::text;

/// The address of the first port that has one, or all complaints about the description.
pub(crate) fn endpoint(document: &Value) -> Result<Option<String>, Vec<String>> {
    let (root, nothing) = (text(document, "root"), Map::new());
    let files = Files(document.get("files").and_then(Value::as_object).unwrap_or(&nothing));
    let limits = Limits::default();
    match ::wsdl::read(root, &files, &limits) {
        Ok(description) => {
            let mut ports = description.services.iter().flat_map(|service| &service.ports);
            let address = ports.find_map(|port| port.address.as_deref());
            Ok(address.map(str::to_owned))
        }
        // Clients and the service may work with an imperfect description. Its address is not read.
        Err(_) => match ::wsdl::outline(root, &files, &limits, RpcMessages::Undeclared) {
            Ok(_) => Ok(None),
            Err(complaints) => Err(complaints.iter().map(ToString::to_string).collect()),
        },
    }
}

/// The names of the operations of a description as a JSON API.
pub(crate) fn operations(document: &Value) -> Result<Vec<String>, Vec<String>> {
    let (root, nothing) = (text(document, "root"), Map::new());
    let files = Files(document.get("files").and_then(Value::as_object).unwrap_or(&nothing));
    let told = |complaints: Vec<::wsdl::Complaint>| -> Vec<String> {
        complaints.iter().map(ToString::to_string).collect()
    };
    let description = ::wsdl::read(root, &files, &Limits::default()).map_err(told)?;
    let api = typed::api(&description, PortChoice { service: None, port: None });
    let api = api.map_err(|why| vec![why])?;
    Ok(api.operations().iter().map(|one| one.name().to_owned()).collect())
}

/// The files of a description for one folder, the description first. None if they are in several folders.
pub(crate) fn files(document: Option<&Value>) -> Option<Vec<(String, Vec<u8>)>> {
    let document = document?;
    let (folder, root) = split(text(document, "root"));
    let mut all = vec![];
    for (name, content) in document.get("files")?.as_object()? {
        let (of, name) = split(name);
        if of != folder {
            return None;
        }
        // Harmless: files of a description are texts.
        let content = content.as_str().unwrap_or_default().as_bytes().to_vec();
        let at = if name == root { 0 } else { all.len() };
        all.insert(at, (name.to_owned(), content));
    }
    Some(all)
}

/// The folder and the name of a file.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// A description in one file.
pub(crate) fn of_text(wsdl: &str) -> Value {
    json!({ "root": "service.wsdl", "files": { "service.wsdl": wsdl } })
}

/// The text of the description itself.
pub(crate) fn root(document: Option<&Value>) -> Option<&str> {
    let document = document?;
    document.get("files")?.get(text(document, "root"))?.as_str()
}

struct Files<'f>(&'f Map<String, Value>);

impl Resolver for Files<'_> {
    fn load(&self, location: &str) -> Result<Vec<u8>, ResolveError> {
        let Files(files) = self;
        let found = files.get(location).and_then(Value::as_str);
        found.map(|text| text.as_bytes().to_vec()).ok_or(ResolveError::Absent)
    }
}
