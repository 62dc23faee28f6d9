//! The state of a run.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use expression::{Budget, Limits, Value};
use fault::{Fault, Kind, Side};
use kit::clock::{self, Instant};
use mediation::soap::Version;
use message::{Headers, RequestHead};
use policy::{Exchange, MessageFormat, RequestLimit};
use telemetry::span::SpanId;

use crate::content::Content;
use crate::message::{ACCEPT_ENCODING, Message};
use crate::names::Slots;
use crate::noted_replies::NotedReplies;
use crate::open_transaction::OpenTransaction;
use crate::recording::Recording;
use crate::sender::Sender;
use crate::steps::gather::Gathered;

/// The state that a sequence of steps changes. Branches have copies.
#[derive(Debug)]
pub struct State {
    pub(crate) message: Message,
    /// The lines that calls send, as the flow has changed them. Branches share them until one of them changes its copy.
    pub(crate) request_lines: Rc<Headers>,
    /// The client's lines about the reply, such as conditions. A call sends them only if its reply may become the reply to the client.
    pub(crate) withheld_lines: Option<Rc<Headers>>,
    /// The status of the last call.
    pub(crate) status: Option<u16>,
    pub(crate) variables: Vec<(u32, Variable)>,
    /// The senders of values that variables hold, where they are known.
    senders: Vec<(u32, Sender)>,
    /// The fault that the running steps handle, such as those of a `catch`.
    pub(crate) caught: Option<Rc<Fault>>,
    /// The outcome of the branches of the last `scatter` or `split`.
    pub(crate) gathered: Option<Rc<Gathered>>,
    /// The depth of the step that runs, for a trace.
    pub(crate) depth: u16,
    /// The number of the branch or part that this step belongs to, counted from 1.
    pub(crate) part: Option<usize>,
    /// The span of the step that runs. `None` means the span of the exchange.
    pub(crate) span: Option<SpanId>,
    /// True if a `catch` would use the message, so that a call keeps the body in memory.
    pub(crate) keeps: bool,
    /// The cache terms of the replies to steps inside a `cache`. Branches share them.
    pub(crate) noted: Option<Rc<NotedReplies>>,
    /// The transactions that the step is in, at most one for a database. Branches share them.
    pub(crate) transactions: Vec<OpenTransaction>,
    /// The deadline of the flow whose steps run, or of its `catch`.
    pub(crate) deadline: Instant,
}

#[derive(Debug, Clone)]
pub(crate) enum Variable {
    Value(Value),
    Reply(Rc<Message>),
}

/// The state that all steps of a run share.
pub struct Run<'a> {
    pub(crate) ex: &'a Exchange,
    pub(crate) head: &'a RequestHead,
    pub(crate) slots: &'a Arc<Slots>,
    /// Names of the route's path parameters.
    pub(crate) parameters: &'a Arc<[Box<str>]>,
    /// The route's name; empty for a run without a route.
    pub(crate) route: &'a str,
    pub(crate) body_bytes_max: usize,
    /// True if JSON of clients and services with a duplicate member is malformed.
    pub(crate) refuses_duplicate_members: bool,
    /// The sender of the last value that an expression read. `None` if a step made the value, or if its sender is unknown.
    pub(crate) asked: Cell<Option<Sender>>,
    /// True if a step reads a body, which may be that of a reply.
    pub(crate) reads_replies: bool,
    /// The number of element levels that its steps read, if they only copy deeper content. `None` if they may read all levels.
    pub(crate) levels: Option<usize>,
    /// True if an expression needs the request's original body, which is not in memory yet.
    pub(crate) asks_request: Cell<bool>,
    /// The request's original body, once it has been read for such an expression.
    pub(crate) request: RefCell<Option<Rc<Content>>>,
    /// The remaining budget of work of the whole run.
    steps_left: Cell<u64>,
    /// The time that the running step has waited for calls. It is read before the next wait.
    pub(crate) waited: Cell<Duration>,
    /// The start of the running step, until the step waits. It saves reading the clock.
    pub(crate) began: Cell<Option<Instant>>,
    /// The end of the running step's wait, until it is taken. It saves reading the clock.
    pub(crate) ended: Cell<Option<Instant>>,
    /// The target of the last call.
    pub(crate) target: RefCell<Option<Arc<str>>>,
    /// The label of the last failed step, unless a `catch` handles its fault.
    pub(crate) failed: RefCell<Option<Arc<str>>>,
    /// The reply's lines about the limits of `throttle` steps.
    pub(crate) limit_lines: RefCell<Option<Headers>>,
    /// The record of its steps, if a trace was requested.
    pub(crate) recording: Option<Recording>,
}

/// A budget for one step of a run.
pub(crate) struct StepBudget<'a> {
    budget: Budget,
    steps_max: u64,
    run: &'a Cell<u64>,
}

impl Deref for StepBudget<'_> {
    type Target = Budget;

    fn deref(&self) -> &Budget {
        &self.budget
    }
}

impl DerefMut for StepBudget<'_> {
    fn deref_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }
}

impl Drop for StepBudget<'_> {
    fn drop(&mut self) {
        let spent = self.steps_max.saturating_sub(self.budget.steps_left());
        self.run.set(self.run.get().saturating_sub(spent));
    }
}

impl State {
    /// `deadline` is that of the whole run.
    pub(crate) fn new(message: Message, request_lines: Headers, deadline: Instant) -> State {
        State {
            message,
            request_lines: request_lines.into(),
            withheld_lines: None,
            status: None,
            variables: Vec::new(),
            senders: Vec::new(),
            caught: None,
            gathered: None,
            depth: 0,
            part: None,
            span: None,
            keeps: false,
            noted: None,
            transactions: Vec::new(),
            deadline,
        }
    }

    /// A copy for the branch or part of this index.
    pub(crate) fn copy(&self, at: usize) -> State {
        State {
            message: self.message.copy(),
            request_lines: self.request_lines.clone(),
            withheld_lines: self.withheld_lines.clone(),
            status: self.status,
            variables: self.variables.clone(),
            senders: self.senders.clone(),
            caught: self.caught.clone(),
            gathered: self.gathered.clone(),
            depth: self.depth,
            part: Some(at + 1),
            span: self.span,
            keeps: self.keeps,
            noted: self.noted.clone(),
            transactions: self.transactions.clone(),
            deadline: self.deadline,
        }
    }

    /// Adds the lines that a call with this method sends, without those about its body.
    ///
    /// The client's lines about the reply are left out where they do not fit: steps that read a reply need all of it, and a precondition
    /// applies only to the client's own method.
    pub(crate) fn add_request_lines(&self, method: &[u8], run: &Run<'_>, to: &mut Headers) {
        to.add_all(&self.request_lines);
        let Some(withheld) = &self.withheld_lines else { return };
        let is_read_only = matches!(method, b"GET" | b"HEAD");
        let is_the_clients = method == run.head.method() && !(run.reads_replies && is_read_only);
        for (name, value) in withheld.iter() {
            let is_coding = name == ACCEPT_ENCODING.as_bytes();
            let goes = if is_coding { !run.reads_replies } else { is_the_clients };
            if goes {
                // Harmless: the names of withheld lines are ASCII.
                to.add_known(std::str::from_utf8(name).unwrap_or_default(), value);
            }
        }
    }

    /// Returns the time until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.left_at(clock::now())
    }

    /// Returns the time from a moment until the deadline.
    pub(crate) fn left_at(&self, moment: Instant) -> Duration {
        self.deadline.saturating_duration_since(moment)
    }

    pub(crate) fn set(&mut self, number: u32, variable: Variable) {
        match self.variables.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) => *known = variable,
            None => self.variables.push((number, variable)),
        }
    }

    /// Returns the SOAP format of the message, if its body is in memory and is SOAP.
    pub(crate) fn soap_format(&self) -> Option<MessageFormat> {
        let (_, envelope) = self.message.content()?.envelope()?;
        Some(match envelope.version {
            Version::V11 => MessageFormat::Soap11,
            Version::V12 => MessageFormat::Soap12,
        })
    }

    /// Notes the sender of a variable's value.
    pub(crate) fn note_sender(&mut self, number: u32, sender: Option<Sender>) {
        self.senders.retain(|(known, _)| *known != number);
        self.senders.extend(sender.map(|sender| (number, sender)));
    }

    /// The sender of a variable's value, if it is known.
    pub(crate) fn sender(&self, number: u32) -> Option<Sender> {
        self.senders.iter().find(|(known, _)| *known == number).map(|(_, sender)| *sender)
    }

    pub(crate) fn variable(&self, number: u32) -> Option<&Variable> {
        self.variables.iter().find(|(known, _)| *known == number).map(|(_, variable)| variable)
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        ex: &'a Exchange,
        head: &'a RequestHead,
        slots: &'a Arc<Slots>,
        parameters: &'a Arc<[Box<str>]>,
        body_bytes_max: usize,
    ) -> Run<'a> {
        Run {
            ex,
            head,
            slots,
            parameters,
            route: "",
            body_bytes_max,
            refuses_duplicate_members: true,
            asked: Cell::new(None),
            reads_replies: false,
            levels: None,
            asks_request: Cell::new(false),
            request: RefCell::new(None),
            steps_left: Cell::new(Limits::default().steps_max),
            waited: Cell::new(Duration::ZERO),
            began: Cell::new(None),
            ended: Cell::new(None),
            target: RefCell::new(None),
            failed: RefCell::new(None),
            limit_lines: RefCell::new(None),
            recording: None,
        }
    }

    /// Counts the message in a limit, or refuses it.
    pub(crate) async fn limited(&self, limit: &dyn RequestLimit) -> Result<(), Fault> {
        let began = clock::now();
        let told = limit.admit(self.ex, self.head, self.route).await;
        self.waited.set(clock::now().duration_since(began));
        if let Some(lines) = told? {
            self.limit_lines.borrow_mut().get_or_insert_with(Headers::new).add_all(&lines);
        }
        Ok(())
    }

    /// Attributes a fault about a value to the sender of the last value that was read.
    pub(crate) fn blamed(&self, fault: Fault) -> Fault {
        let is_of_value = matches!(fault.kind, Kind::Template | Kind::FlowFailed);
        match self.asked.get().filter(|_| is_of_value) {
            Some(Sender::Client) => fault.with_side(Side::Client),
            Some(Sender::Upstream) => fault.with_side(Side::Upstream),
            Some(Sender::Flow) | None => fault,
        }
    }

    /// A budget for one step. Its work is deducted from the run's budget.
    pub(crate) fn budget(&self) -> StepBudget<'_> {
        let steps_max = self.steps_left.get();
        let output_bytes_max = self.body_bytes_max as u64;
        let budget = Budget::new(Limits { steps_max, output_bytes_max, ..Limits::default() });
        StepBudget { budget, steps_max, run: &self.steps_left }
    }

    /// Deducts work other than that of expressions from the run's budget.
    pub(crate) fn charge(&self, steps: u64) -> Result<(), Fault> {
        let charged = self.budget().charge(steps);
        charged.map_err(|kind| Fault::new(Kind::FlowFailed, kind.to_string()))
    }
}
