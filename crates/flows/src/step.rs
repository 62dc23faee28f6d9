//! The steps of a flow, and the loop that runs them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use expression::{Expression, Slot, Template};
use fault::Fault;
use kit::clock::{self, Instant};
use kit::{LocalBoxFuture, memory};
use message::{no_room, room};
use policy::RequestLimit;
use regex::Regex;
use telemetry::FlowMetrics;

use crate::names::{NameTable, SlotMeaning};
use crate::needs::{Levels, Needs};
use crate::state::{Run, State, Variable};
use crate::steps::{
    cache, call, convert, enrich, gather, header, payload, script, soap_header, sql, store,
    validate, variable, wire_tap, xslt,
};
use crate::{spans, trace};

pub use crate::steps::cache::Cache;
pub use crate::steps::call::{
    Call, CallPath, CallTo, CallUrl, Endpoint, EndpointFinder, Method, Query,
};
pub use crate::steps::convert::Convert;
pub use crate::steps::enrich::{Enrich, EnrichAction, Source};
pub use crate::steps::fault::FaultTemplate;
pub use crate::steps::gather::{Foreach, Gather, Into, Scatter, Split};
pub use crate::steps::header::Header;
pub use crate::steps::payload::{Payload, PayloadSource, Respond, Status};
pub use crate::steps::script::Script;
pub use crate::steps::soap_header::SoapHeader;
pub use crate::steps::sql::Sql;
pub use crate::steps::store::Store;
pub use crate::steps::validate::{Schemas, Validate};
pub use crate::steps::variable::Type;
pub use crate::steps::wire_tap::{TapPlaces, WireTap};
pub use crate::steps::xslt::Xslt;

/// One step of a flow.
pub struct Step {
    action: Action,
    /// The name that the operator gave it, or its key.
    name: Arc<str>,
    /// That name, or what it is and its path in the flow.
    label: Arc<str>,
    /// It looks into the body, which is then read into memory first.
    looks: bool,
    /// It holds other steps.
    is_outer: bool,
    /// Of it and the steps inside it.
    needs: Needs,
    metrics: Arc<FlowMetrics>,
}

/// Steps one after the other. Shared, since several flows may run the same.
pub type Steps = Arc<[Step]>;

/// Steps, and those for a fault that none of them caught.
pub struct Block {
    steps: Steps,
    catch: Option<Steps>,
    /// The steps for a fault use the message of that moment.
    keeps: bool,
    needs: Needs,
    /// The time of its steps, and of those for a fault, if its flow says so.
    timeout: Option<Duration>,
}

/// The operation of a step.
pub enum Action {
    Call(Box<Call>),
    Respond(Box<Respond>),
    Drop,
    Fault(Box<FaultTemplate>),
    Set(Vec<(u32, Expression, Option<Type>)>),
    Header(Header),
    SoapHeader(SoapHeader),
    Payload(Box<Payload>),
    Enrich(Box<Enrich>),
    Xslt(Box<Xslt>),
    Validate(Box<Validate>),
    Convert(Convert),
    Script(Box<Script>),
    Filter { when: Condition, then: Steps, otherwise: Steps },
    Switch { on: Expression, cases: Vec<(Test, Steps)>, default: Steps },
    Foreach(Box<Foreach>),
    Split(Box<Split>),
    Scatter(Box<Scatter>),
    Sequence(Arc<Block>),
    Log { level: tracing::Level, message: Template },
    Throttle(Throttle),
    Cache(Box<Cache>),
    Sql(Box<Sql>),
    Store(Store),
    WireTap(Box<WireTap>),
}

/// The limit of a `throttle`, which is that of the policy `rate_limit`.
pub type Throttle = Box<dyn RequestLimit>;

/// A condition of a `filter`.
pub struct Condition {
    pub value: Expression,
    /// Searched in its text. If absent, its truth counts.
    pub matches: Option<Regex>,
}

/// A case of a `switch`.
pub enum Test {
    Equals(Box<str>),
    Matches(Regex),
}

/// The way in which a list of steps ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepsEnd {
    /// All of them ran.
    Through,
    /// One of them gave the answer.
    Answered,
}

impl Step {
    /// A step whose expressions were compiled with the names of `table`.
    pub fn new(
        action: Action,
        (name, label): (&str, &str),
        table: &NameTable,
        metrics: Arc<FlowMetrics>,
    ) -> Step {
        let slots = action.slots();
        let any = |is: fn(&SlotMeaning) -> bool| slots.iter().any(|slot| table.has(*slot, is));
        let asks =
            |named: &SlotMeaning| matches!(named, SlotMeaning::Request | SlotMeaning::RequestBody);
        let looks = any(SlotMeaning::looks_inside) || action.needs_content();
        let own = Needs {
            bodies: looks || matches!(action, Action::Cache(_)),
            other_methods: matches!(&action, Action::Call(call) if call.method.is_some()),
            request: any(asks),
            levels: Levels { table }.of(&action),
        };
        let inner = action.inner();
        let needs = Needs::of(own, inner.iter().flat_map(|steps| steps.iter()));
        let (name, label) = (name.into(), label.into());
        Step { looks, is_outer: !inner.is_empty(), needs, action, name, label, metrics }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn label(&self) -> &Arc<str> {
        &self.label
    }

    pub(crate) fn metrics(&self) -> &Arc<FlowMetrics> {
        &self.metrics
    }

    /// Its label, and those of the steps inside it.
    fn labels<'s>(&'s self, all: &mut Vec<&'s str>) {
        all.push(&self.label);
        // A sequence has its steps in common with another flow.
        if !matches!(self.action, Action::Sequence(_)) {
            for steps in self.action.inner() {
                steps.iter().for_each(|step| step.labels(all));
            }
        }
    }

    /// Those of it and the steps inside it.
    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    /// Counts a run. Steps that hold other steps have no time of their own: theirs is that of the others.
    fn record(&self, ended: &Result<StepsEnd, Fault>, took: Duration, run: &Run<'_>) {
        let in_calls = run.waited.replace(Duration::ZERO);
        let (own, in_calls) = if self.is_outer {
            (Duration::ZERO, Duration::ZERO)
        } else {
            (took.saturating_sub(in_calls), in_calls)
        };
        let fault = ended.as_ref().err().map(|fault| fault.kind.label());
        if fault.is_some() {
            run.note_failed(self);
        }
        self.metrics.record(run.ex.caller.worker, own, in_calls, fault);
    }

    pub(crate) fn holds_steps(&self) -> bool {
        self.is_outer
    }

    /// True if it uses the message, false if it ends the flow without it, and nothing where the next step decides.
    fn uses_message(&self) -> Option<bool> {
        if self.looks {
            return Some(true);
        }
        match &self.action {
            Action::Call(call) => call.body.is_none().then_some(true),
            Action::Respond(respond) => Some(respond.made.is_none()),
            Action::Store(_) => Some(true),
            Action::Drop | Action::Fault(_) => Some(false),
            Action::WireTap(_) => Some(true),
            Action::Set(_)
            | Action::Header(_)
            | Action::Log { .. }
            | Action::Throttle(_)
            | Action::Payload(_)
            | Action::Sql(_) => None,
            Action::SoapHeader(_)
            | Action::Enrich(_)
            | Action::Xslt(_)
            | Action::Validate(_)
            | Action::Convert(_)
            | Action::Script(_)
            | Action::Filter { .. }
            | Action::Switch { .. }
            | Action::Foreach(_)
            | Action::Split(_)
            | Action::Scatter(_)
            | Action::Sequence(_)
            | Action::Cache(_) => {
                let uses =
                    // Harmless: steps that say nothing do not decide.
                    |steps: &&Steps| steps.iter().find_map(Step::uses_message).unwrap_or_default();
                self.action.inner().iter().any(uses).then_some(true)
            }
        }
    }

    /// The upstream it calls, if all it does is to send the message there as it is and take the reply.
    pub(crate) fn plain_call(&self) -> Option<&str> {
        let Action::Call(call) = &self.action else { return None };
        call.plain()
    }

    /// True if all it does is to answer with the message as it is.
    pub(crate) fn is_plain_respond(&self) -> bool {
        matches!(&self.action, Action::Respond(respond) if respond.is_plain())
    }
}

impl Action {
    /// The slots of its own expressions, without those of steps inside it.
    fn slots(&self) -> Vec<Slot> {
        let condition = |condition: &Condition| condition.value.slots();
        match self {
            Action::Call(call) => call.slots(),
            Action::Respond(respond) => respond.slots(),
            Action::Drop | Action::Sequence(_) => Vec::new(),
            Action::Fault(made) => {
                let detail = made.detail.iter().flat_map(Template::slots);
                made.reason.slots().into_iter().chain(detail).collect()
            }
            Action::Set(values) => values.iter().flat_map(|(_, value, _)| value.slots()).collect(),
            Action::Header(header) => header.slots(),
            Action::SoapHeader(header) => header.slots(),
            Action::Payload(payload) => payload.slots(),
            Action::Enrich(enrich) => enrich.slots(),
            Action::Xslt(xslt) => xslt.slots(),
            Action::Validate(validate) => validate.of.iter().flat_map(Expression::slots).collect(),
            Action::Convert(_) => Vec::new(),
            Action::Script(script) => script.slots(),
            Action::Filter { when, .. } => condition(when),
            Action::Switch { on, .. } => on.slots(),
            Action::Foreach(foreach) => foreach.over.slots(),
            Action::Split(split) => split.over.slots(),
            Action::Scatter(_) => Vec::new(),
            Action::Log { message, .. } => message.slots(),
            Action::Throttle(_) | Action::Store(_) | Action::WireTap(_) => Vec::new(),
            Action::Cache(cache) => cache.key.slots(),
            Action::Sql(sql) => sql.arguments.iter().flat_map(Expression::slots).collect(),
        }
    }

    /// It needs the body whatever its expressions ask for.
    fn needs_content(&self) -> bool {
        match self {
            Action::Payload(payload) => payload.keeps_envelope(),
            Action::Call(call) => call.into.is_some(),
            Action::Store(store) => !store.end,
            Action::WireTap(_)
            | Action::SoapHeader(_)
            | Action::Enrich(_)
            | Action::Xslt(_)
            | Action::Validate(_)
            | Action::Convert(_)
            | Action::Script(_)
            | Action::Foreach(_)
            | Action::Split(_)
            | Action::Scatter(_) => true,
            Action::Respond(_)
            | Action::Drop
            | Action::Fault(_)
            | Action::Set(_)
            | Action::Header(_)
            | Action::Filter { .. }
            | Action::Switch { .. }
            | Action::Sequence(_)
            | Action::Log { .. }
            | Action::Throttle(_)
            | Action::Cache(_)
            | Action::Sql(_) => false,
        }
    }

    /// The lists of steps inside it.
    fn inner(&self) -> Vec<&Steps> {
        match self {
            Action::Call(_)
            | Action::Respond(_)
            | Action::Drop
            | Action::Fault(_)
            | Action::Set(_)
            | Action::Header(_)
            | Action::SoapHeader(_)
            | Action::Payload(_)
            | Action::Enrich(_)
            | Action::Xslt(_)
            | Action::Convert(_)
            | Action::Script(_)
            | Action::Log { .. }
            | Action::Throttle(_)
            | Action::Sql(_)
            | Action::Store(_) => Vec::new(),
            Action::Validate(validate) => validate.otherwise.iter().collect(),
            Action::Filter { then, otherwise, .. } => vec![then, otherwise],
            Action::Switch { cases, default, .. } => {
                cases.iter().map(|(_, steps)| steps).chain([default]).collect()
            }
            Action::Foreach(foreach) => vec![&foreach.steps],
            Action::Split(split) => vec![&split.steps],
            Action::Scatter(scatter) => scatter.branches.iter().collect(),
            Action::Cache(cache) => vec![&cache.steps],
            Action::WireTap(tap) => vec![&tap.steps],
            Action::Sequence(block) => [&block.steps].into_iter().chain(&block.catch).collect(),
        }
    }
}

/// Runs steps until one answers or fails. Boxed, since steps may hold steps.
pub(crate) fn run<'a>(
    steps: &'a [Step],
    run: &'a Run<'a>,
    state: &'a mut State,
) -> LocalBoxFuture<'a, Result<StepsEnd, Fault>> {
    match &run.recording {
        _ if spans::is_wanted(run) => Box::pin(spans::run(steps, run, state)),
        None => run_all(steps, run, state),
        Some(recording) => Box::pin(trace::run(recording, steps, run, state)),
    }
}

/// The same, traced or not.
pub(crate) fn run_all<'a>(
    steps: &'a [Step],
    run: &'a Run<'a>,
    state: &'a mut State,
) -> LocalBoxFuture<'a, Result<StepsEnd, Fault>> {
    Box::pin(async move {
        let mut began = clock::now();
        for step in steps {
            run.began.set(Some(began));
            let ended = match memory::watch(pin!(one(step, run, state))).await {
                (ended, false) => ended,
                // It failed for that reason, whatever it made of it.
                (_, true) => Err(no_room()),
            };
            let now = run.ended.take().unwrap_or_else(clock::now);
            step.record(&ended, now.duration_since(began), run);
            began = now;
            if ended? == StepsEnd::Answered {
                return Ok(StepsEnd::Answered);
            }
        }
        Ok(StepsEnd::Through)
    })
}

/// Runs one step.
async fn one(step: &Step, run: &Run<'_>, state: &mut State) -> Result<StepsEnd, Fault> {
    run.waited.set(Duration::ZERO);
    if step.looks && state.message.content().is_none() {
        if state.message.arrives() {
            let began = run.began.take().unwrap_or_else(clock::now);
            state.hold(run).await?;
            run.waited.set(clock::now().duration_since(began));
        } else {
            state.hold(run).await?
        }
    }
    if step.looks
        && let Some(content) = state.message.content()
    {
        // What a step makes of a message is mostly about as large.
        room(content.bytes.len())?;
    }
    Ok(match &step.action {
        Action::Filter { when, then, otherwise } => {
            let steps = if holds(when, run, state)? { then } else { otherwise };
            self::run(steps, run, state).await?
        }
        Action::Switch { on, cases, default } => {
            let text = run.text(state, on)?;
            let case = cases.iter().find(|(test, _)| test.fits(&text));
            let steps = case.map_or(default, |(_, steps)| steps);
            self::run(steps, run, state).await?
        }
        Action::Sequence(block) => block.run(block.timeout, run, state).await?,
        Action::Cache(cache) => cache::cached(cache, run, state).await?,
        Action::Validate(validate) => match validate::check(validate, run, state)? {
            validate::Outcome::Valid => StepsEnd::Through,
            validate::Outcome::Otherwise(steps, why) => {
                let outer = state.caught.replace(why.into());
                let ended = self::run(steps, run, state).await?;
                state.caught = outer;
                ended
            }
        },
        Action::Call(_)
        | Action::Respond(_)
        | Action::Drop
        | Action::Fault(_)
        | Action::Set(_)
        | Action::Header(_)
        | Action::SoapHeader(_)
        | Action::Payload(_)
        | Action::Enrich(_)
        | Action::Xslt(_)
        | Action::Convert(_)
        | Action::Script(_)
        | Action::Foreach(_)
        | Action::Split(_)
        | Action::Scatter(_)
        | Action::Log { .. }
        | Action::Throttle(_)
        | Action::Sql(_)
        | Action::Store(_)
        | Action::WireTap(_) => simple(step, run, state).await?,
    })
}

/// Runs a step that chooses no other steps.
async fn simple(step: &Step, run: &Run<'_>, state: &mut State) -> Result<StepsEnd, Fault> {
    match &step.action {
        Action::Call(call) => call::call(call, run, state).await?,
        Action::Respond(respond) => {
            payload::respond(respond, run, state)?;
            return Ok(StepsEnd::Answered);
        }
        Action::Drop => {
            payload::drop_message(state);
            return Ok(StepsEnd::Answered);
        }
        Action::Fault(made) => return Err(made.fault(run, state)?),
        Action::Set(values) => {
            for (number, expression, kind) in values {
                let value = run.value(state, expression)?;
                let sender = run.asked.get();
                let value =
                    variable::typed(value, *kind, run).map_err(|fault| run.blamed(fault))?;
                state.set(*number, Variable::Value(value));
                state.note_sender(*number, sender);
            }
        }
        Action::Header(edit) => header::edit(edit, run, state)?,
        Action::SoapHeader(edit) => soap_header::edit(edit, run, state)?,
        Action::Payload(made) => payload::payload(made, run, state)?,
        Action::Enrich(made) => enrich::enrich(made, run, state)?,
        Action::Xslt(made) => xslt::transform(made, run, state).await?,
        Action::Convert(made) => convert::convert(made, run, state)?,
        Action::Script(made) => script::script(made, run, state).await?,
        Action::Foreach(made) => return gather::foreach(made, run, state).await,
        Action::Split(made) => gather::split(made, step, run, state).await?,
        Action::Scatter(made) => gather::scatter(made, step, run, state).await?,
        Action::Log { level, message } => log(*level, &run.fill(state, message)?, run),
        Action::Store(made) => return store::store(made, run, state).await,
        Action::WireTap(made) => wire_tap::tap(made, step, run, state),
        Action::Throttle(limit) => run.limited(&**limit).await?,
        Action::Sql(made) => sql::sql(made, run, state).await?,
        Action::Filter { .. }
        | Action::Switch { .. }
        | Action::Sequence(_)
        | Action::Cache(_)
        | Action::Validate(_) => {}
    }
    Ok(StepsEnd::Through)
}

/// True if steps do something with the message that they begin with, or end with it.
fn use_message(steps: &[Step]) -> bool {
    steps.iter().find_map(Step::uses_message).unwrap_or(true)
}

impl Block {
    pub fn new(steps: Steps, catch: Option<Steps>, timeout: Option<Duration>) -> Block {
        let keeps = catch.as_deref().is_some_and(use_message);
        let all = steps.iter().chain(catch.iter().flat_map(|steps| steps.iter()));
        let needs = Needs::of(Needs::NOTHING, all);
        Block { steps, catch, keeps, needs, timeout }
    }

    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    pub(crate) fn has_own_timeout(&self) -> bool {
        self.timeout.is_some()
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The labels of its steps and of those inside them, in the order written.
    pub(crate) fn labels(&self) -> Vec<&str> {
        let mut all = Vec::new();
        let steps = self.steps.iter().chain(self.catch.iter().flat_map(|steps| steps.iter()));
        steps.for_each(|step| step.labels(&mut all));
        all
    }

    pub(crate) fn has_catch(&self) -> bool {
        self.catch.is_some()
    }

    /// Runs the steps; a fault that none of them caught goes to `catch`, whose normal end is the block's. Both have the time of
    /// `timeout`, as far as there is any left around the block: what waits longer ends by itself.
    pub(crate) async fn run(
        &self,
        timeout: Option<Duration>,
        run: &Run<'_>,
        state: &mut State,
    ) -> Result<StepsEnd, Fault> {
        let whole = state.deadline;
        let outer = state.keeps;
        state.keeps |= self.keeps;
        state.deadline = deadline(timeout, whole);
        let mut ended = match run.keep_request(state).await {
            Ok(()) => self::run(&self.steps, run, state).await,
            Err(fault) => Err(fault),
        };
        state.keeps = outer;
        if let (Err(fault), Some(catch)) = (&ended, &self.catch) {
            state.deadline = deadline(timeout, whole);
            let outer = state.caught.replace(fault.clone().into());
            run.failed.take();
            ended = self::run(catch, run, state).await;
            state.caught = outer;
        }
        state.deadline = whole;
        ended
    }
}

/// The end of a time that begins now, within the whole one.
fn deadline(timeout: Option<Duration>, whole: Instant) -> Instant {
    let own = timeout.and_then(|timeout| clock::now().checked_add(timeout));
    own.map_or(whole, |own| own.min(whole))
}

fn holds(condition: &Condition, run: &Run<'_>, state: &State) -> Result<bool, Fault> {
    match &condition.matches {
        None => run.boolean(state, &condition.value),
        Some(regex) => Ok(regex.is_match(&run.text(state, &condition.value)?)),
    }
}

impl Test {
    fn fits(&self, text: &str) -> bool {
        match self {
            Test::Equals(equal) => **equal == *text,
            Test::Matches(regex) => regex.is_match(text),
        }
    }
}

fn log(level: tracing::Level, message: &str, run: &Run<'_>) {
    let id = run.ex.id.as_str();
    // One line, whatever the message holds: nobody may write other lines into the log.
    let message = message.replace(char::is_control, " ");
    match level {
        tracing::Level::ERROR => tracing::error!(request_id = id, "{message}"),
        tracing::Level::WARN => tracing::warn!(request_id = id, "{message}"),
        tracing::Level::DEBUG | tracing::Level::TRACE => {
            tracing::debug!(request_id = id, "{message}")
        }
        tracing::Level::INFO => tracing::info!(request_id = id, "{message}"),
    }
}
