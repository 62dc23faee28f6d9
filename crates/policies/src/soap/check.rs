//! One message against its schemas, in one pass and without a tree.
//!
//! Owns the sink that drives the envelope's validator and, below `Body`, the API's. Validators are the thread's: what one
//! message made them allocate serves the next.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use xml::{Here, QName, Sink, Start};
use xsd::{Bounds, Root, Schema, Stop, Validator};

use super::words;
use super::{Definitions, Failed, SOAP_11, SOAP_12, Version};

/// What a message is, as far as anybody asked.
pub(super) struct Found {
    /// By the root's namespace; none for XML that is no envelope.
    pub(super) version: Option<Version>,
    /// The local name of the first element in the body.
    pub(super) operation: String,
}

/// How an envelope is checked.
pub enum Envelope {
    /// Not at all.
    Off,
    /// There is no schema for this version, so messages of it are refused.
    Missing,
    /// By the built-in schema, which knows of no elements but its own.
    BuiltIn(Arc<Schema>),
    /// By the operator's.
    Own(Arc<Schema>),
    /// By one that does not compile: why.
    Broken(Box<str>),
}

/// Validators of one thread for one policy side.
#[derive(Default)]
struct Validators {
    envelopes: [Option<Validator>; 2],
    api: Option<Validator>,
    operation: String,
}

thread_local! {
    /// By the address of the definitions, which the weak reference keeps from being given to others.
    static SPARE: RefCell<HashMap<usize, (Weak<Definitions>, Validators)>> = RefCell::new(HashMap::new());
}

/// Checks a message. `reply`: it comes from the upstream, which may answer with a fault instead of what the schema says.
pub(super) fn check(
    definitions: &Arc<Definitions>,
    message: &[u8],
    reply: bool,
    found: &mut Found,
) -> Result<(), Failed> {
    let key = Arc::as_ptr(definitions).addr();
    let known = SPARE.with_borrow_mut(|spare| spare.remove(&key));
    let mut validators = match known {
        Some((_, validators)) => validators,
        None => {
            // A new one was made, so some plan is new: those of plans that ended go.
            SPARE.with_borrow_mut(|spare| spare.retain(|_, (of, _)| of.strong_count() > 0));
            Validators::default()
        }
    };
    let outcome = run(definitions, message, reply, &mut validators, found);
    SPARE.with_borrow_mut(|spare| spare.insert(key, (Arc::downgrade(definitions), validators)));
    outcome
}

fn run(
    definitions: &Definitions,
    message: &[u8],
    reply: bool,
    validators: &mut Validators,
    found: &mut Found,
) -> Result<(), Failed> {
    validators.operation.clear();
    let mut pass = Pass {
        definitions,
        reply,
        validators,
        depth: 0,
        version: None,
        refused: None,
        envelope: Fed::No,
        api: Fed::No,
        shallow: false,
        in_body: false,
        body: false,
        within: false,
        operation: false,
    };
    let parsed = xml::parse(message, &OPTIONS, &mut pass);
    found.version = pass.version;
    let (refused, body, operation) = (pass.refused, pass.body, pass.operation);
    // A validator that saw nothing still has what it said of the message before.
    let (saw_envelope, saw_operation) = (pass.envelope != Fed::No, pass.api != Fed::No);
    found.operation.push_str(&validators.operation);
    if let Err(error) = parsed {
        return Err(Failed::client(words::malformed(&error, message)));
    }
    if let Some(failed) = refused {
        return Err(failed);
    }
    let slot = found.version.unwrap_or(Version::V11).index();
    let of_envelope = validators.envelopes.get(slot).and_then(Option::as_ref);
    let of_envelope = of_envelope.filter(|_| saw_envelope);
    if let Some(invalid) = of_envelope.and_then(|validator| validator.invalid().first()) {
        return Err(Failed::client(words::invalid(invalid, message)));
    }
    if definitions.api.is_none() {
        return Ok(());
    }
    if !body {
        return Err(Failed::client("Invalid XML input. Unable to find the 'soap:Body'"));
    }
    if !operation {
        let text = "Invalid XML input. Unable to find the Operation tag in the 'soap:Body'";
        return Err(Failed::client(text));
    }
    let of_api = validators.api.as_ref().filter(|_| saw_operation);
    match of_api.and_then(|api| api.invalid().first()) {
        Some(invalid) => Err(Failed::client(words::invalid(invalid, message))),
        None => Ok(()),
    }
}

/// The parser's ordinary budgets; the body's bound applies before.
static OPTIONS: std::sync::LazyLock<xml::Options> = std::sync::LazyLock::new(xml::Options::default);

/// Whether a validator is given events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fed {
    No,
    Yes,
    /// It has complained; the first complaint is what is told.
    Enough,
}

struct Pass<'a> {
    definitions: &'a Definitions,
    reply: bool,
    validators: &'a mut Validators,
    /// Elements open.
    depth: usize,
    version: Option<Version>,
    refused: Option<Failed>,
    envelope: Fed,
    api: Fed,
    /// The envelope's schema knows nothing of what stands in the body, so that its content is not shown to it.
    shallow: bool,
    in_body: bool,
    /// There was a body.
    body: bool,
    /// Within an element of the body that only the API's schema is asked about.
    within: bool,
    /// There was an operation.
    operation: bool,
}

impl Pass<'_> {
    fn root(&mut self, name: QName<'_>) {
        self.version = match name.namespace.uri {
            SOAP_11 => Some(Version::V11),
            SOAP_12 => Some(Version::V12),
            _ => None,
        };
        let version = self.version.unwrap_or(Version::V11);
        let slot = version.index();
        let schema = match self.definitions.envelopes.get(slot) {
            Some(Envelope::BuiltIn(schema)) => {
                self.shallow = true;
                schema
            }
            Some(Envelope::Own(schema)) => schema,
            Some(Envelope::Broken(why)) => {
                self.refused = Some(Failed::server(&**why));
                return;
            }
            Some(Envelope::Off) => return,
            Some(Envelope::Missing) | None => {
                let text = format!(
                    "Invalid XSD schema. Unable to find schema for SOAP {}",
                    version.text()
                );
                self.refused = Some(Failed::server(text));
                return;
            }
        };
        if let Some(place) = self.validators.envelopes.get_mut(slot) {
            place.get_or_insert_with(|| validator(schema)).reset();
            self.envelope = Fed::Yes;
        }
    }

    /// The first element of the body.
    fn first(&mut self, name: QName<'_>) {
        self.operation = true;
        self.validators.operation.push_str(name.local);
        let fault = name.local == "Fault" && is_soap(name.namespace.uri);
        if self.reply && fault {
            return;
        }
        if let Some(schema) = &self.definitions.api {
            self.validators.api.get_or_insert_with(|| validator(schema)).reset();
            self.api = Fed::Yes;
        }
    }

    /// Gives an event to whoever is to see it.
    fn feed(&mut self, event: impl Fn(&mut Validator) -> Result<(), Stop>) {
        let slot = self.version.unwrap_or(Version::V11).index();
        let envelope = self.validators.envelopes.get_mut(slot).and_then(Option::as_mut);
        if let (Fed::Yes, false, Some(validator)) = (self.envelope, self.within, envelope) {
            self.envelope = after(event(validator));
        }
        if let (Fed::Yes, Some(validator)) = (self.api, &mut self.validators.api) {
            self.api = after(event(validator));
        }
    }
}

fn after(fed: Result<(), Stop>) -> Fed {
    match fed {
        Ok(()) => Fed::Yes,
        Err(Stop::Enough | Stop::Xml(_)) => Fed::Enough,
    }
}

fn is_soap(uri: &str) -> bool {
    matches!(uri, SOAP_11 | SOAP_12)
}

/// One complaint is what is told.
fn validator(schema: &Arc<Schema>) -> Validator {
    let bounds = Bounds { invalid_max: 1, ..Bounds::default() };
    Validator::new(schema.clone(), Root::Declared, bounds)
}

impl Sink for Pass<'_> {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        let name = start.name;
        match self.depth {
            0 => self.root(name),
            1 if self.version.is_some() && name.local == "Body" && is_soap(name.namespace.uri) => {
                self.in_body = true;
                self.body = true;
            }
            2 if self.in_body && !self.operation => self.first(name),
            _ => {}
        }
        self.feed(|validator| validator.start(start, here));
        if self.depth == 2 && self.in_body && self.shallow && !is_soap(name.namespace.uri) {
            self.within = true;
        }
        self.depth += 1;
        Ok(())
    }

    fn text(&mut self, text: &str, cdata: bool, here: Here<'_>) -> Result<(), xml::Error> {
        self.feed(|validator| validator.text(text, cdata, here));
        Ok(())
    }

    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        self.depth -= 1;
        match self.depth {
            2 if self.in_body => self.within = false,
            1 => self.in_body = false,
            _ => {}
        }
        self.feed(|validator| validator.end(name, here));
        if self.depth == 2 && self.in_body && self.api == Fed::Yes {
            // The operation is over; what follows it is the envelope's business.
            self.api = Fed::Enough;
        }
        Ok(())
    }
}
