//! Validation of one message against its schemas, in one pass and without a tree, either complete or while it arrives.
//!
//! Owns the sink that feeds the envelope's validator and, below `Body`, the API's validator. Validators are kept per thread, so that memory
//! allocated for one message is reused for the next.

mod recall;
mod whole;

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use message::Headers;
use wsdl::{SOAP_11, SOAP_12};
use xml::{Here, QName, Sink, Start, TemplateCache, Transcript};
use xsd::{Bounds, ParseStop, Root, Schema, Validator};

use super::code::Code;
use super::{CompiledDefinition, Definitions, Envelope, MessageFacts, NO_SCHEMA, Version, is_soap};
use crate::{Rejection, libxml_messages};
use recall::{Gap, Memory, ValidMessage};
use whole::Check;

/// Validators that one thread keeps for one side of one policy.
#[derive(Default)]
pub(super) struct Validators {
    pub(super) envelopes: [Option<Ready>; 2],
    /// By the index of the schema.
    api: Vec<Option<Ready>>,
    /// The local name of the first element of the current message's Body.
    pub(super) operation: String,
    /// Templates of earlier messages, for requests and for replies.
    template_caches: Option<Box<[TemplateCache<Memory, ValidMessage, Gap>; 2]>>,
}

/// A validator together with its schema, which a refresh may have replaced.
pub(super) struct Ready {
    of: Weak<Schema>,
    pub(super) validator: Validator,
}

impl Ready {
    /// Prepares a validator for the next message. Reuses the validator in `place` if it is for this schema.
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

/// The spare validators of one `Definitions`, identified by its address. The weak reference keeps that address from being reused.
struct SpareValidators {
    of: Weak<Definitions>,
    validators: Box<Validators>,
}

/// Maximum number of entries per thread, about the number of policies of this kind on busy routes.
const SPARE_MAX: usize = 256;

thread_local! {
    /// An entry that is given back goes to the end. If there are too many, those at the beginning are dropped.
    static SPARE: RefCell<Vec<SpareValidators>> = const { RefCell::new(Vec::new()) };
}

impl Validators {
    fn take(definitions: &Arc<Definitions>) -> Box<Validators> {
        SPARE.with_borrow_mut(|spare| {
            let ours =
                |spare: &SpareValidators| std::ptr::eq(spare.of.as_ptr(), Arc::as_ptr(definitions));
            match spare.iter().rposition(ours) {
                Some(at) => spare.swap_remove(at).validators,
                None => {
                    // New definitions usually mean a new plan, so entries of dropped plans are removed now.
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
            spare.push(SpareValidators { of: Arc::downgrade(definitions), validators: self });
        });
    }
}

/// Checks a message. `headers` are those of an input. An output has none here, and may be a fault instead of an element of the schema.
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

    /// Ends the message and returns its outcome.
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

/// The default limits of the parser. The limit on the body's size has been applied before.
static OPTIONS: std::sync::LazyLock<xml::Options> = std::sync::LazyLock::new(xml::Options::default);

/// Whether a validator is fed the events of the parser.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ValidatorFeed {
    No,
    Yes,
    /// No longer, because the validator has reported a complaint and only the first is used, or because its element has ended.
    Enough,
}

/// The state of checking one message.
#[derive(Clone)]
pub(super) struct State {
    /// For a reply: finds the code, if the reply is a fault.
    pub(super) code: Option<Code>,
    /// Number of open elements.
    depth: usize,
    pub(super) version: Option<Version>,
    refused: Option<Rejection>,
    pub(super) fed_envelope: ValidatorFeed,
    pub(super) fed_api: ValidatorFeed,
    /// The index of the schema for the operation.
    pub(super) schema: usize,
    /// The rank of that schema in the order in which schemas are tried.
    turn: usize,
    /// Whether another schema can be tried after it.
    more: bool,
    /// The error to report because that schema does not compile, or `None`.
    broken: Option<Rejection>,
    /// Whether the envelope's schema accepts any content of the Body without declaring it, so that the envelope's validator is not fed
    /// the content.
    pub(super) shallow: bool,
    in_body: bool,
    /// Whether the message has a Body.
    pub(super) body: bool,
    /// Whether the parser is inside an element of the Body that only the API's schema validates.
    pub(super) within: bool,
    /// The complaint about an element that no schema validates, or `None`.
    surplus: Option<&'static str>,
    /// Whether the Body has an operation element.
    pub(super) operation: bool,
    /// The index of the operation among those counted in metrics, or `None`.
    pub(super) called: Option<u32>,
}

impl State {
    fn new(reply: bool) -> State {
        State {
            code: reply.then(Code::default),
            depth: 0,
            version: None,
            refused: None,
            fed_envelope: ValidatorFeed::No,
            fed_api: ValidatorFeed::No,
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

    /// Returns the first fault found so far. Only validators that were fed are asked: the others still hold the result of the previous
    /// message.
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

    /// Returns true if the only fault is a missing declaration and a later schema may have it.
    fn is_undecided(&self, validators: &Validators) -> bool {
        let lacks =
            |validator: &Validator| validator.invalid().iter().any(libxml_messages::is_undeclared);
        self.more
            && self.refused.is_none()
            && self.of_envelope(validators).is_none_or(|envelope| envelope.is_valid())
            && self.of_api(validators).is_some_and(lacks)
    }

    /// Returns the initial state for checking the same message against the next schema.
    fn next_turn(&self) -> State {
        State { turn: self.turn + 1, ..State::new(self.code.is_some()) }
    }

    /// Returns the validator of the envelope, or `None` if it was not fed.
    pub(super) fn of_envelope<'v>(&self, validators: &'v Validators) -> Option<&'v Validator> {
        let slot = self.version.unwrap_or(Version::V11).index();
        let ready = validators.envelopes.get(slot).and_then(Option::as_ref);
        ready.filter(|_| self.fed_envelope != ValidatorFeed::No).map(|ready| &ready.validator)
    }

    /// Returns the validator of the content of the Body, or `None` if it was not fed.
    pub(super) fn of_api<'v>(&self, validators: &'v Validators) -> Option<&'v Validator> {
        let ready = validators.api.get(self.schema).and_then(Option::as_ref);
        let ready = ready.filter(|_| self.fed_api != ValidatorFeed::No);
        ready.map(|ready| &ready.validator)
    }

    /// Returns the outcome of a message that was parsed to its end. `api`: there is a definition that the Body is validated against.
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

    /// Returns true if there is no fault and no required part is missing.
    pub(super) fn is_right(&self, api: bool, validators: &Validators) -> bool {
        let valid = |asked: Option<&Validator>| asked.is_none_or(Validator::is_valid);
        self.refused.is_none()
            && self.broken.is_none()
            && self.surplus.is_none()
            && valid(self.of_envelope(validators))
            && valid(self.of_api(validators))
            && self.is_complete(api)
    }

    /// Returns true if the required parts are present. `api`: there is a definition that the Body is validated against.
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
        let remote;
        let schema = match self.definitions.envelopes.get(slot) {
            Some(Envelope::BuiltIn(schema)) => {
                state.shallow = true;
                schema
            }
            Some(Envelope::Own(schema)) => schema,
            Some(Envelope::Remote(definition)) => match definition.current() {
                Ok(serving) => {
                    remote = serving;
                    let compiled = remote.as_ref();
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
            state.fed_envelope = ValidatorFeed::Yes;
        }
    }

    /// Handles the first element of the Body.
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
            state.fed_api = ValidatorFeed::Yes;
        }
    }

    /// Returns the complaint about an element that neither schema validates, although a service may take it for the call: a second element
    /// in the Body (WS-I Basic Profile 1.1, R2201), or an element of SOAP's namespace after the Body (SOAP 1.1, section 4).
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

    /// Feeds an event to the validators that need it.
    fn feed(&mut self, event: impl Fn(&mut Validator) -> Result<(), ParseStop>) {
        let state = &mut *self.state;
        let slot = state.version.unwrap_or(Version::V11).index();
        let envelope = self.validators.envelopes.get_mut(slot).and_then(Option::as_mut);
        if let (ValidatorFeed::Yes, false, Some(ready)) =
            (state.fed_envelope, state.within, envelope)
        {
            state.fed_envelope = after(event(&mut ready.validator));
        }
        if state.fed_api == ValidatorFeed::Yes
            && let Some(Some(ready)) = self.validators.api.get_mut(state.schema)
        {
            state.fed_api = after(event(&mut ready.validator));
        }
    }
}

fn after(fed: Result<(), ParseStop>) -> ValidatorFeed {
    match fed {
        Ok(()) => ValidatorFeed::Yes,
        Err(ParseStop::Enough | ParseStop::Xml(_)) => ValidatorFeed::Enough,
    }
}

/// Returns a validator that stops at the first complaint, because only the first is reported.
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
            // Harmless: only the first elements of the Body matter.
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
            if state.fed_api == ValidatorFeed::Yes {
                // The operation element has ended. The rest belongs to the envelope.
                state.fed_api = ValidatorFeed::Enough;
            }
        }
        Ok(())
    }
}
