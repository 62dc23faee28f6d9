//! The WSDL of a SOAP API, with the files that it names: `{root, files}`. Nothing is fetched.

use ::wsdl::{Limits, RpcMessages};
use serde_json::{Map, Value, json};
use xsd::{ResolveError, Resolver};

use crate::objects::text;

/// The URL of the first port that has an address, or all complaints about the description.
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
        // Clients and the service may be content with a description that is not perfect.
        Err(_) => match ::wsdl::outline(root, &files, &limits, RpcMessages::Undeclared) {
            Ok(_) => Ok(None),
            Err(complaints) => Err(complaints.iter().map(ToString::to_string).collect()),
        },
    }
}

/// A description that is one file.
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
