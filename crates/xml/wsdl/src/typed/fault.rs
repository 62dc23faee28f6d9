//! Parses SOAP faults.
//!
//! Tracks the position within a fault: SOAP 1.1, section 4.4; SOAP 1.2 part 1, section 5.4.

use std::collections::HashMap;

use xml::QName;

use crate::SoapVersion;
use json::push_string;

/// A SOAP fault in a form common to both versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fault {
    /// The local name of the code: `Client`, `Server`, `Sender`, `Receiver`...
    pub code: String,
    /// Local names of the subcodes of SOAP 1.2. For SOAP 1.1, the parts after a dot.
    pub subcodes: Vec<String>,
    pub reason: String,
    /// The node that reported the fault.
    pub actor: String,
    /// Local names of the detail's elements.
    pub names: Vec<String>,
    /// The elements of the detail as members of a JSON object. Elements with the same name form an array.
    pub details: String,
    /// The text of the detail itself, beside or instead of its elements.
    pub detail_text: String,
}

/// The state of parsing a fault.
pub(super) struct FaultReader {
    pub(super) fault: Fault,
    /// The elements of the detail as JSON, concatenated.
    pub(super) values: String,
    /// The offset of each of them.
    pub(super) begins: Vec<usize>,
    version: SoapVersion,
    /// Names of the open elements below `Fault`.
    open: Vec<Box<str>>,
    text: String,
    /// The enclosing codes, outermost first.
    codes: Vec<String>,
}

impl FaultReader {
    pub(super) fn new(version: SoapVersion) -> FaultReader {
        FaultReader {
            fault: Fault::default(),
            values: String::new(),
            begins: Vec::new(),
            version,
            open: Vec::new(),
            text: String::new(),
            codes: Vec::new(),
        }
    }

    /// Handles the start of an element. Returns true if it belongs to the detail, so that the caller has to read it.
    pub(super) fn start(&mut self, name: QName<'_>) -> bool {
        let is_detail = matches!(self.open.as_slice(), [only] if is_detail(only));
        self.text.clear();
        self.open.push(name.local.into());
        is_detail
    }

    pub(super) fn text(&mut self, text: &str) {
        if matches!(self.open.as_slice(), [only] if is_detail(only)) {
            self.fault.detail_text.push_str(text);
        }
        self.text.push_str(text);
    }

    /// Returns the fault, after all of it has been read.
    pub(super) fn done(mut self) -> Fault {
        self.fault.details = self.details();
        self.fault.detail_text = self.fault.detail_text.trim().to_owned();
        self.fault
    }

    /// Returns the elements of the detail as members of an object. Elements with the same name become an array.
    fn details(&self) -> String {
        let mut members: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let ends = self.begins.iter().skip(1).copied().chain([self.values.len()]);
        // Harmless: there is one start and one end for each element.
        for ((name, begin), end) in self.fault.names.iter().zip(&self.begins).zip(ends) {
            let value = self.values.get(*begin..end).unwrap_or("null");
            let place = *places.entry(name).or_insert(members.len());
            match members.get_mut(place) {
                Some((_, values)) => values.push(value),
                None => members.push((name, vec![value])),
            }
        }
        let mut out = String::with_capacity(self.values.len());
        for (name, values) in members {
            if !out.is_empty() {
                out.push(',');
            }
            push_string(&mut out, name);
            match values.as_slice() {
                [one] => out.extend([":", one]),
                many => out.extend([":[", &many.join(","), "]"]),
            }
        }
        out
    }

    /// Handles the end of an element of the detail.
    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// Handles the end of an element. Returns true if it was the fault itself.
    pub(super) fn end(&mut self) -> bool {
        let Some(name) = self.open.pop() else {
            self.settle();
            return true;
        };
        let text = std::mem::take(&mut self.text);
        let parent = self.open.last().map_or("", |name| &**name);
        match (self.version, &*name, parent) {
            (SoapVersion::V11, "faultcode", "") | (SoapVersion::V12, "Value", _) => {
                let code = text.trim();
                let local = code.rsplit(':').next().unwrap_or(code);
                self.codes.push(local.to_owned());
            }
            (SoapVersion::V11, "faultstring", "") => text.trim().clone_into(&mut self.fault.reason),
            (SoapVersion::V12, "Text", "Reason") if self.fault.reason.is_empty() => {
                text.trim().clone_into(&mut self.fault.reason);
            }
            (SoapVersion::V11, "faultactor", "") | (SoapVersion::V12, "Node", "") => {
                text.trim().clone_into(&mut self.fault.actor);
            }
            // Harmless: other elements do not matter.
            _ => {}
        }
        false
    }

    /// Splits the code into code and subcodes: SOAP 1.1 separates them by dots, SOAP 1.2 nests elements.
    fn settle(&mut self) {
        let codes = std::mem::take(&mut self.codes);
        let mut all = codes.iter().flat_map(|code| match self.version {
            SoapVersion::V11 => code.split('.').collect::<Vec<_>>(),
            SoapVersion::V12 => vec![code.as_str()],
        });
        self.fault.code = all.next().unwrap_or("").to_owned();
        self.fault.subcodes = all.map(str::to_owned).collect();
    }
}

fn is_detail(name: &str) -> bool {
    matches!(name, "detail" | "Detail")
}
