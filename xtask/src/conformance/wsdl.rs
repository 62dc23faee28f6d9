//! The `wsdl` suite: descriptions that have to be read completely, and texts that have to be refused because they are not descriptions.
//!
//! Owns the comparison with the manifest's content of a description: services, ports, bindings and operations. A description
//! that names missing files may be refused, if the complaints are about that. It also reports, without a score, how many
//! descriptions the policy `soap` accepts, which needs less of them. Runs in process.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;
use wsdl::typed::{self, PortChoice, Proof};
use wsdl::{Complaint, Description, Limits, Protocol, SoapVersion};

use super::known::{Judged, close};
use super::pack::Pack;
use super::{Options, Outcome};
use crate::Failure;

/// Complaints about missing parts.
const ABOUT_ABSENT: &[&str] = &[
    "src-resolve",
    "src-include",
    "src-import",
    "src-redefine.2",
    "wsdl-import",
    "wsdl-namespace",
    "wsdl-part",
];

/// Runs all cases of the pack.
pub(crate) fn run(options: &Options) -> Result<Outcome, Failure> {
    let pack = Pack::open(&options.pack)?;
    let mut resolver = xsd::Map::default();
    for (path, bytes) in &pack.files {
        resolver.insert(path, bytes.clone());
    }
    let mut judged = Vec::new();
    let mut complete = 0;
    let (mut operations, mut messages) = (0, 0);
    let mut soap_results = SoapResults::default();
    for line in &pack.cases {
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        let id = format!("{}/{}", text("set"), text("id")).replace(char::is_whitespace, "_");
        if !id.contains(&options.only) {
            continue;
        }
        let read = wsdl::read(text("wsdl"), &resolver, &Limits::default());
        if line.get("operations").and_then(Value::as_u64).is_some_and(|number| number > 0) {
            soap_results.add(&id, text("wsdl"), &resolver, read.is_ok());
        }
        let (mut passed, mut complaint) = judge(line, read.as_ref().map_err(Vec::as_slice));
        complete += usize::from(read.is_ok());
        for proof in read.as_ref().map(proved).unwrap_or_default() {
            operations += 1;
            messages += proof.messages;
            passed &= proof.failures.is_empty();
            for failure in &proof.failures {
                write!(complaint, "\n{}: {failure}", proof.operation).ok();
            }
        }
        judged.push(Judged { id, passed, complaint });
    }
    let SoapResults { named, read, served, refused } = soap_results;
    let summary = format!(
        "{refused}{served} of {named} that name an operation serve in the policy `soap`, {read} are read to the end\n{complete} of {} are read to the end; of {operations} operations offered as JSON {messages} messages go there and back\n",
        judged.len()
    );
    close("wsdl", &judged, summary)
}

/// The results of the policy `soap` for descriptions that name an operation.
#[derive(Default)]
struct SoapResults {
    named: usize,
    /// Descriptions with everything that `soap_rest` needs.
    read: usize,
    served: usize,
    refused: String,
}

impl SoapResults {
    fn add(&mut self, id: &str, location: &str, resolver: &xsd::Map, read: bool) {
        self.named += 1;
        self.read += usize::from(read);
        let outline =
            wsdl::outline(location, resolver, &Limits::default(), wsdl::RpcMessages::Declared);
        let refused = match outline {
            Ok(outline) if !outline.has_types => Some("it has no types".to_owned()),
            Ok(outline) => outline.schemas.iter().find_map(|made| Some(said(made.as_ref().err()?))),
            Err(complaints) => Some(said(&complaints)),
        };
        match refused {
            None => self.served += 1,
            Some(why) => {
                writeln!(self.refused, "{id} does not serve in `soap`: {why}").ok();
            }
        }
    }
}

/// Proves the translation of each operation from JSON to SOAP and back. Returns nothing if no port of the description supports it.
fn proved(description: &Description) -> Vec<Proof> {
    typed::api(description, PortChoice::default()).map(|api| typed::prove(&api)).unwrap_or_default()
}

fn judge(line: &Value, read: Result<&Description, &[Complaint]>) -> (bool, String) {
    let names = |key: &str| line.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    let is_wsdl = line.get("kind").and_then(Value::as_str) == Some("wsdl");
    let incomplete = names("absent") + names("external") > 0;
    match read {
        Ok(_) if !is_wsdl => (false, "expected a refusal, and it is read".to_owned()),
        Ok(description) => {
            let differences = differences(line, description);
            (differences.is_empty(), differences)
        }
        Err(complaints) if !is_wsdl => (!complaints.is_empty(), said(complaints)),
        Err(complaints) => {
            let about_absent = complaints.iter().all(|c| ABOUT_ABSENT.contains(&c.code));
            (incomplete && about_absent, said(complaints))
        }
    }
}

fn said(complaints: &[Complaint]) -> String {
    let mut text = format!("refused, {} complaints", complaints.len());
    for complaint in complaints.iter().take(5) {
        write!(text, "\n  {complaint}").ok();
    }
    text
}

/// The differences from the manifest.
fn differences(line: &Value, found: &Description) -> String {
    let mut text = String::new();
    let number = |key: &str| line.get(key).and_then(Value::as_u64);
    let mut compare = |what: &str, expected: String, got: String| {
        if expected != got {
            writeln!(text, "{what}: expected {expected}, got {got}").ok();
        }
    };
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let counts = [
        ("ports", found.services.iter().map(|service| service.ports.len()).sum()),
        ("operations", operations(found)),
        ("binding_operations", found.bindings.iter().map(|b| b.operations.len()).sum()),
        ("messages", found.messages.len()),
    ];
    for (what, got) in counts {
        if let Some(expected) = number(what) {
            compare(what, expected.to_string(), count(got).to_string());
        }
    }
    let services: Vec<&str> = found.services.iter().map(|service| &*service.name.local).collect();
    let expected = line.get("services").cloned().unwrap_or_default();
    compare("services", expected.to_string(), Value::from(services).to_string());
    let expected = line.get("bindings").and_then(Value::as_array).cloned().unwrap_or_default();
    let expected: BTreeSet<String> = expected.iter().map(expected_binding).collect();
    let got: BTreeSet<String> = found.bindings.iter().map(found_binding).collect();
    compare("bindings", format!("{expected:?}"), format!("{got:?}"));
    text
}

/// Returns the number of operations of all interfaces. Operations with the same name and different messages count separately.
fn operations(found: &Description) -> usize {
    found.interfaces.iter().map(|interface| interface.operations.len()).sum()
}

fn expected_binding(binding: &Value) -> String {
    let text = |key: &str| binding.get(key).and_then(Value::as_str).unwrap_or("none");
    let operations = binding.get("operations").and_then(Value::as_u64).unwrap_or_default();
    format!("{} {} {operations}", text("name"), text("kind"))
}

fn found_binding(binding: &wsdl::Binding) -> String {
    let kind = match &binding.protocol {
        Protocol::Soap(SoapVersion::V11) => "soap11",
        Protocol::Soap(SoapVersion::V12) => "soap12",
        Protocol::Http(_) => "http",
        Protocol::Other(_) => "none",
    };
    format!("{} {kind} {}", binding.name.local, binding.operations.len())
}
