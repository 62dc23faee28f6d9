//! One message against its schemas, in one pass and without a tree, whole or as it arrives.
//!
//! Owns the sink that drives the envelope's validator and, below `Body`, the API's. Validators are the thread's: the memory that
//! one message made them allocate serves the next.

mod whole;

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use message::Headers;
use wsdl::{SOAP_11, SOAP_12};
use xml::{Here, QName, Sink, Start, TemplateCache, Transcript};
use xsd::{Bounds, ParseStop, Root, Schema, Validator};

use super::code::Code;
use super::recall::{Gap, Memory, Whole};
use super::{CompiledDefinition, Definitions, MessageFacts, NO_SCHEMA, Version};
use crate::remote_definition::RemoteDefinition;
use crate::{Rejection, libxml_messages};
use whole::Check;

/// The check of an envelope.
pub enum Envelope {
    /// Not at all.
    Off,
    /// There is no schema for this version, so messages of it are refused.
    Missing,
    /// By the built-in schema, which knows of no elements but its own.
    BuiltIn(Arc<Schema>),
    /// By the operator's.
    Own(Arc<Schema>),
    /// By the operator's, which is fetched and compiled beside the requests.
    Supplied(Arc<RemoteDefinition<CompiledDefinition>>),
    /// By one that does not compile: why.
    Broken(Rejection),
}

/// Validators of one thread for one policy side.
#[derive(Default)]
pub(super) struct Validators {
    pub(super) envelopes: [Option<Ready>; 2],
    /// By the place of the schema.
    api: Vec<Option<Ready>>,
    pub(super) operation: String,
    /// For requests, and for replies.
    precedents: Option<Box<[TemplateCache<Memory, Whole, Gap>; 2]>>,
}

/// A validator with its schema, which a supply may have replaced.
pub(super) struct Ready {
    of: Weak<Schema>,
    pub(super) validator: Validator,
}

impl Ready {
    /// For the next message: the one that is there, if it is for this schema.
    pub(super) fn again<'r>(
        place: &'r mut Option<Ready>,
        schema: &Arc<Schema>,
    ) -> &'r mut Validator {
        let made = || Ready { of: Arc::downgrade(schema), validator: validator(schema) };
        let ready = place.get_or_insert_with(made);
        if std::ptr::eq(ready.of.as_ptr(), Arc::as_ptr(schema)) {
            ready.validator.reset()
        } else {
            *ready = made()
        }
        &mut ready.validator
    }
}

/// By the address of the definitions, which the weak reference keeps from being given to others.
struct Spare {
    of: Weak<Definitions>,
    validators: Box<Validators>,
}

/// Validators that a thread keeps; a plan has about as many policies of this kind on routes that are busy.
const SPARE_MAX: usize = 256;

thread_local! {
    /// The last used ones are at the end.
    static SPARE: RefCell<Vec<Spare>> = const { RefCell::new(Vec::new()) };
}

impl Validators {
    fn take(definitions: &Arc<Definitions>) -> Box<Validators> {
        SPARE.with_borrow_mut(|spare| {
            let ours = |spare: &Spare| std::ptr::eq(spare.of.as_ptr(), Arc::as_ptr(definitions));
            match spare.iter().rposition(ours) {
                Some(at) => spare.swap_remove(at).validators,
                None => {
                    // A new one is made, so some plan is new: those of plans that ended go.
                    spare.retain(|spare| spare.of.strong_count() > 0);
                    Box::default()
                }
            }
        })
    }

    fn give_back(self: Box<Self>, definitions: &Arc<Definitions>) {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() >= SPARE_MAX {
                spare.drain(..spare.len().saturating_sub(SPARE_MAX / 2));
            }
            spare.push(Spare { of: Arc::downgrade(definitions), validators: self });
        });
    }
}

/// Checks a message. `headers` are an input's; an output has none, and may be a fault instead of an element of the schema.
pub(super) fn check(
    definitions: &Arc<Definitions>,
    message: &[u8],
    transcript: Option<&mut Transcript>,
    headers: Option<&Headers>,
    found: &mut MessageFacts,
) -> Result<(), Rejection> {
    let mut validators = Validators::take(definitions);
    let outcome = match definitions.api.current() {
        Ok(current) => {
            let api = current.compiled();
            let mut pass = Check { definitions, api, validators: &mut validators };
            let replayed =
                transcript.and_then(|notes| pass.replay(notes, message, headers.is_none()));
            let (state, parsed) = match replayed {
                Some(state) => (state, Ok(())),
                None => pass.parse(message, headers.is_none()),
            };
            let outcome = state.outcome(api.is_some(), &validators, parsed, message, found);
            let operation = &validators.operation;
            let version = found.version;
            outcome
                .and_then(|()| definitions.check_action(api, version, operation, headers, message))
        }
        Err(failed) => Err(failed),
    };
    validators.give_back(definitions);
    outcome
}

/// A message that is checked while it arrives.
pub(super) struct ArrivingMessage {
    definitions: Arc<Definitions>,
    api: Option<Arc<CompiledDefinition>>,
    validators: Box<Validators>,
    state: State,
    parser: xml::Parser,
}

impl ArrivingMessage {
    pub(super) fn new(definitions: Arc<Definitions>) -> Result<ArrivingMessage, Rejection> {
        if let Some(awaited) = definitions.awaited().next() {
            awaited.current()?;
        }
        let api = definitions.api.current()?.compiled().cloned();
        let mut validators = Validators::take(&definitions);
        validators.operation.clear();
        let parser = xml::Parser::new(xml::Options::default());
        Ok(ArrivingMessage { definitions, api, validators, state: State::new(false), parser })
    }

    /// Checks the next bytes; `so_far` is the message up to their end. The error is the first fault.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        so_far: &[u8],
        found: &mut MessageFacts,
    ) -> Result<(), Rejection> {
        let fed = self.parse(|parser, pass| parser.feed(bytes, pass));
        found.version = self.state.version;
        found.operation = self.state.called;
        fed.map_err(|error| Rejection::client(libxml_messages::malformed(&error, so_far)))?;
        if self.state.is_undecided(&self.validators) {
            return Ok(());
        }
        self.state.complaint(&self.validators, so_far).map_or(Ok(()), Err)
    }

    /// The message is over.
    pub(super) fn finish(
        mut self,
        message: &[u8],
        headers: &Headers,
        found: &mut MessageFacts,
    ) -> Result<(), Rejection> {
        let parsed = self.parse(|parser, pass| parser.finish(pass));
        if parsed.is_ok() && self.state.is_undecided(&self.validators) {
            self.validators.give_back(&self.definitions);
            return check(&self.definitions, message, None, Some(headers), found);
        }
        let (api, operation) = (self.api.as_ref(), &self.validators.operation);
        let outcome = self.state.outcome(api.is_some(), &self.validators, parsed, message, found);
        let version = found.version;
        let outcome = outcome.and_then(|()| {
            self.definitions.check_action(api, version, operation, Some(headers), message)
        });
        self.validators.give_back(&self.definitions);
        outcome
    }

    fn parse(
        &mut self,
        parse: impl FnOnce(&mut xml::Parser, &mut Pass<'_>) -> Result<(), xml::Error>,
    ) -> Result<(), xml::Error> {
        let (state, validators) = (&mut self.state, &mut self.validators);
        let api = self.api.as_ref();
        parse(
            &mut self.parser,
            &mut Pass { definitions: &self.definitions, api, validators, state },
        )
    }
}

/// The parser's ordinary budgets; the body's bound applies before.
static OPTIONS: std::sync::LazyLock<xml::Options> = std::sync::LazyLock::new(xml::Options::default);

/// The state of a validator: whether it is given events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fed {
    No,
    Yes,
    /// It has complained; only the first complaint is told.
    Enough,
}

/// The state of the reading of a message.
#[derive(Clone)]
pub(super) struct State {
    /// Of a reply: the code of the fault that it may be.
    pub(super) code: Option<Code>,
    /// Elements open.
    depth: usize,
    pub(super) version: Option<Version>,
    refused: Option<Rejection>,
    pub(super) fed_envelope: Fed,
    pub(super) fed_api: Fed,
    /// The index of the schema that judges the operation, the turn in which it is tried, and whether another one follows.
    pub(super) schema: usize,
    turn: usize,
    more: bool,
    /// The failure in place of that schema, if it does not compile.
    broken: Option<Rejection>,
    /// The envelope's schema does not know the content of the body and accepts any, so that none is shown to it.
    pub(super) shallow: bool,
    in_body: bool,
    /// There was a body.
    pub(super) body: bool,
    /// Within an element of the body that only the API's schema is asked about.
    pub(super) within: bool,
    /// The complaint about an element that no schema is asked about.
    surplus: Option<&'static str>,
    /// There was an operation.
    pub(super) operation: bool,
    /// Its index among those that are counted.
    pub(super) called: Option<u32>,
}

impl State {
    fn new(reply: bool) -> State {
        State {
            code: reply.then(Code::default),
            depth: 0,
            version: None,
            refused: None,
            fed_envelope: Fed::No,
            fed_api: Fed::No,
            schema: 0,
            turn: 0,
            more: false,
            broken: None,
            shallow: false,
            in_body: false,
            body: false,
            within: false,
            surplus: None,
            operation: false,
            called: None,
        }
    }

    /// The first fault of the message as far as it was read. A validator that saw no event still has its finding about the
    /// message
    /// before.
    pub(super) fn complaint(&self, validators: &Validators, so_far: &[u8]) -> Option<Rejection> {
        if let Some(failed) = &self.refused {
            return Some(failed.clone());
        }
        let asked = [self.of_envelope(validators), self.of_api(validators)];
        // Harmless: an absent part has no complaints.
        let mut invalid = asked.into_iter().flatten().flat_map(Validator::invalid);
        let invalid = invalid.next();
        invalid
            .map(|invalid| Rejection::client(libxml_messages::invalid(invalid, so_far)))
            .or_else(|| self.broken.clone())
            .or_else(|| self.surplus.map(Rejection::client))
    }

    /// The schema lacks a declaration that one behind it may have, and nothing else is wrong so far.
    fn is_undecided(&self, validators: &Validators) -> bool {
        let lacks =
            |validator: &Validator| validator.invalid().iter().any(libxml_messages::is_undeclared);
        self.more
            && self.refused.is_none()
            && self.of_envelope(validators).is_none_or(|envelope| envelope.is_valid())
            && self.of_api(validators).is_some_and(lacks)
    }

    /// For the same message once more, held to the next schema.
    fn next_turn(&self) -> State {
        State { turn: self.turn + 1, ..State::new(self.code.is_some()) }
    }

    /// The validator of the envelope, if it was fed.
    pub(super) fn of_envelope<'v>(&self, validators: &'v Validators) -> Option<&'v Validator> {
        let slot = self.version.unwrap_or(Version::V11).index();
        let ready = validators.envelopes.get(slot).and_then(Option::as_ref);
        ready.filter(|_| self.fed_envelope != Fed::No).map(|ready| &ready.validator)
    }

    /// The same of the content of its body.
    pub(super) fn of_api<'v>(&self, validators: &'v Validators) -> Option<&'v Validator> {
        let ready = validators.api.get(self.schema).and_then(Option::as_ref);
        let ready = ready.filter(|_| self.fed_api != Fed::No);
        ready.map(|ready| &ready.validator)
    }

    /// The outcome for a message that was read to its end. `api`: there is a definition for its operation.
    fn outcome(
        &self,
        api: bool,
        validators: &Validators,
        parsed: Result<(), xml::Error>,
        message: &[u8],
        found: &mut MessageFacts,
    ) -> Result<(), Rejection> {
        found.version = self.version;
        found.operation = self.called;
        found.fault = self.code.as_ref().and_then(Code::fault);
        if let Err(error) = parsed {
            return Err(Rejection::client(libxml_messages::malformed(&error, message)));
        }
        if let Some(failed) = self.complaint(validators, message) {
            return Err(failed);
        }
        if self.is_complete(api) {
            return Ok(());
        }
        if !self.body {
            return Err(Rejection::client("Invalid XML input. Unable to find the 'soap:Body'"));
        }
        let text = "Invalid XML input. Unable to find the Operation tag in the 'soap:Body'";
        Err(Rejection::client(text))
    }

    /// True if nothing is wrong and nothing is missing.
    pub(super) fn is_right(&self, api: bool, validators: &Validators) -> bool {
        let valid = |asked: Option<&Validator>| asked.is_none_or(Validator::is_valid);
        self.refused.is_none()
            && self.broken.is_none()
            && self.surplus.is_none()
            && valid(self.of_envelope(validators))
            && valid(self.of_api(validators))
            && self.is_complete(api)
    }

    /// True if the required parts are there. `api`: there is a definition for an operation.
    pub(super) fn is_complete(&self, api: bool) -> bool {
        !api || self.body && self.operation
    }
}

const BEHIND: &str = "Invalid XML input. Found an element of SOAP behind the 'soap:Body'";

const SECOND: &str = "Invalid XML input. Found more than one element in the 'soap:Body'";

fn without_schema(version: Version) -> Rejection {
    let text = format!("Invalid XSD schema. Unable to find schema for SOAP {}", version.text());
    Rejection::server(text)
}

pub(super) struct Pass<'a> {
    pub(super) definitions: &'a Definitions,
    pub(super) api: Option<&'a Arc<CompiledDefinition>>,
    pub(super) validators: &'a mut Validators,
    pub(super) state: &'a mut State,
}

impl Pass<'_> {
    fn root(&mut self, name: QName<'_>) {
        let state = &mut *self.state;
        state.version = match name.namespace.uri {
            SOAP_11 => Some(Version::V11),
            SOAP_12 => Some(Version::V12),
            _ => None,
        };
        let version = state.version.unwrap_or(Version::V11);
        let slot = version.index();
        let supplied;
        let schema = match self.definitions.envelopes.get(slot) {
            Some(Envelope::BuiltIn(schema)) => {
                state.shallow = true;
                schema
            }
            Some(Envelope::Own(schema)) => schema,
            Some(Envelope::Supplied(supply)) => match supply.current() {
                Ok(serving) => {
                    supplied = serving;
                    let compiled = supplied.as_ref();
                    let Some(schema) = compiled.and_then(|made| made.schemas.first()) else {
                        state.refused = Some(without_schema(version));
                        return;
                    };
                    schema
                }
                Err(failed) => {
                    state.refused = Some(failed);
                    return;
                }
            },
            Some(Envelope::Broken(failed)) => {
                state.refused = Some(failed.clone());
                return;
            }
            Some(Envelope::Off) => return,
            Some(Envelope::Missing) | None => {
                state.refused = Some(without_schema(version));
                return;
            }
        };
        if let Some(place) = self.validators.envelopes.get_mut(slot) {
            Ready::again(place, schema).set_foreign_types(state.shallow);
            state.fed_envelope = Fed::Yes;
        }
    }

    /// The first element of the body.
    fn first(&mut self, name: QName<'_>) {
        let state = &mut *self.state;
        state.operation = true;
        state.called = self.definitions.operation(name.local);
        self.validators.operation.push_str(name.local);
        let fault = name.local == "Fault" && is_soap(name.namespace.uri);
        if state.code.is_some() && fault {
            return;
        }
        let Some(compiled) = self.api else { return };
        let turns = compiled.schemas.turns(name);
        state.more = state.turn + 1 < turns.len();
        state.schema = turns.get(state.turn).copied().unwrap_or(0);
        let schema = match compiled.schemas.get(state.schema) {
            Some(Ok(schema)) => schema,
            Some(Err(failed)) => return state.broken = Some(failed.clone()),
            None => return state.broken = Some(Rejection::client(NO_SCHEMA)),
        };
        let validators = &mut self.validators.api;
        if validators.len() <= state.schema {
            validators.resize_with(state.schema + 1, || None);
        }
        if let Some(place) = validators.get_mut(state.schema) {
            Ready::again(place, schema);
            state.fed_api = Fed::Yes;
        }
    }

    /// The complaint about an element that neither schema is asked about, although a service may take it for the call:
    /// a second one in the body (WS-I Basic Profile 1.1, R2201), and one of SOAP's behind the body (SOAP 1.1, section 4).
    fn surplus(&self, name: QName<'_>) -> Option<&'static str> {
        let state = &*self.state;
        if self.definitions.lenient {
            return None;
        }
        match state.depth {
            1 if state.body && is_soap(name.namespace.uri) => Some(BEHIND),
            2 if state.in_body && state.operation && self.api.is_some() => Some(SECOND),
            _ => None,
        }
    }

    /// Gives an event to the validators that need it.
    fn feed(&mut self, event: impl Fn(&mut Validator) -> Result<(), ParseStop>) {
        let state = &mut *self.state;
        let slot = state.version.unwrap_or(Version::V11).index();
        let envelope = self.validators.envelopes.get_mut(slot).and_then(Option::as_mut);
        if let (Fed::Yes, false, Some(ready)) = (state.fed_envelope, state.within, envelope) {
            state.fed_envelope = after(event(&mut ready.validator));
        }
        if state.fed_api == Fed::Yes
            && let Some(Some(ready)) = self.validators.api.get_mut(state.schema)
        {
            state.fed_api = after(event(&mut ready.validator));
        }
    }
}

fn after(fed: Result<(), ParseStop>) -> Fed {
    match fed {
        Ok(()) => Fed::Yes,
        Err(ParseStop::Enough | ParseStop::Xml(_)) => Fed::Enough,
    }
}

pub(super) fn is_soap(uri: &str) -> bool {
    matches!(uri, SOAP_11 | SOAP_12)
}

/// Stops at the first complaint, the only one that is told.
fn validator(schema: &Arc<Schema>) -> Validator {
    let bounds = Bounds { invalid_max: 1, ..Bounds::default() };
    Validator::new(schema.clone(), Root::Declared, bounds)
}

impl Sink for Pass<'_> {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        let name = start.name;
        let surplus = self.surplus(name);
        match self.state.depth {
            0 => self.root(name),
            1 if self.state.version.is_some()
                && name.local == "Body"
                && is_soap(name.namespace.uri) =>
            {
                self.state.in_body = true;
                self.state.body = true;
            }
            2 if self.state.in_body && !self.state.operation => self.first(name),
            // Harmless: only the first elements of the body say what it is.
            _ => {}
        }
        if surplus.is_some() && self.state.surplus.is_none() {
            self.state.surplus = surplus;
        }
        if let Some(code) = &mut self.state.code {
            code.start(name);
        }
        let state = &mut *self.state;
        if state.depth == 2 && state.in_body && state.shallow && !is_soap(name.namespace.uri) {
            state.within = true;
        }
        state.depth += 1;
        self.feed(|validator| validator.start(start, here));
        Ok(())
    }

    fn text(&mut self, text: &str, cdata: bool, here: Here<'_>) -> Result<(), xml::Error> {
        if let Some(code) = &mut self.state.code {
            code.text(text);
        }
        self.feed(|validator| validator.text(text, cdata, here));
        Ok(())
    }

    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        let state = &mut *self.state;
        state.depth -= 1;
        if state.depth == 1 {
            state.in_body = false;
        }
        if let Some(code) = &mut state.code {
            code.end();
        }
        self.feed(|validator| validator.end(name, here));
        let state = &mut *self.state;
        if state.depth == 2 && state.in_body {
            state.within = false;
            if state.fed_api == Fed::Yes {
                // The operation is over; the rest is the envelope's business.
                state.fed_api = Fed::Enough;
            }
        }
        Ok(())
    }
}
