//! `scatter`, `split` and `foreach`: make several messages of one, and one message of the results.
//!
//! Branches run inside the task of the exchange, and each is polled only when it was woken. They are dropped with the exchange.
//! The part to take is cut from a result at once. If it is an element that is copied unchanged, only the levels that the expression reads
//! are parsed, and the tree is dropped with the result.

mod gathered;
mod joined;
mod missing;
mod parts;

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use expression::{Expression, FailureKind, Nodes, Value};
use fault::{Fault, Kind};
use futures_util::stream::{FuturesUnordered, StreamExt};
use kit::LocalBoxFuture;
use kit::clock::{self, Instant};
use message::Headers;
use policy::{Decision, Totals};
use xml::{Document, NodeId};

use crate::edit::{Edits, has_default_namespace};
use crate::levels::{ActionNeeds, Levels};
use crate::message::Message;
use crate::run_steps::run_steps;
use crate::soap::{self, Envelope};
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, Steps, StepsEnd, waits};
use crate::steps::payload;
use crate::timeout::{flow_timeout, within_from};
use crate::view::View;
pub(crate) use gathered::Gathered;
use joined::join;
use missing::{add_late, too_few};
use parts::Parts;

/// Branches that run concurrently, each with a copy of the message.
pub struct Scatter {
    pub branches: Vec<Steps>,
    pub gather: Gather,
}

/// Steps for each part of the message. The results are gathered.
pub struct Split {
    pub over: Expression,
    pub steps: Steps,
    pub parallel: usize,
    /// Maximum number of parts.
    pub max: usize,
    pub gather: Gather,
}

/// Steps for each part of the message. The results replace the parts.
pub struct Foreach {
    pub over: Expression,
    pub steps: Steps,
    pub parallel: usize,
    /// Maximum number of parts.
    pub max: usize,
}

/// Settings for making one message of several results.
pub struct Gather {
    /// The part to take from each result. If absent, it is the whole body.
    pub take: Option<Expression>,
    pub into: Option<Wrapper>,
    /// The number of results that are enough. If absent, all are needed.
    pub complete: Option<usize>,
    pub timeout: Duration,
    /// True if the available results are used although others are missing.
    pub keep: bool,
    /// True if the new message has the status and the lines of the first result.
    pub keeps_head: bool,
}

/// The wrapper around the taken parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrapper {
    Json,
    /// An element: its markup before the parts, and after them.
    Xml {
        before: Box<str>,
        after: Box<str>,
        default_namespace: bool,
    },
}

/// Marks a position in a text of XML, which cannot contain this character.
const MARK: char = '\0';

impl Action for Scatter {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        let levels = match (&self.gather.take, &self.gather.into) {
            (_, Some(Wrapper::Json)) => None,
            (Some(take), _) => take.levels(),
            (None, _) => Some(Envelope::CONTENT_LEVELS),
        };
        ActionNeeds { content: true, levels, ..ActionNeeds::default() }
    }

    fn inner(&self) -> Vec<&Steps> {
        self.branches.iter().collect()
    }

    fn run<'a>(&'a self, step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        waits(move || scatter(self, step, run, state))
    }
}

impl Action for Split {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds { slots: self.over.slots(), content: true, ..ActionNeeds::default() }
    }

    fn inner(&self) -> Vec<&Steps> {
        vec![&self.steps]
    }

    fn run<'a>(&'a self, step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        waits(move || split(self, step, run, state))
    }
}

impl Action for Foreach {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds { slots: self.over.slots(), content: true, ..ActionNeeds::default() }
    }

    fn inner(&self) -> Vec<&Steps> {
        vec![&self.steps]
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        Decision::Waits(Box::pin(foreach(self, run, state)))
    }
}

impl Wrapper {
    /// Creates a wrapper from the markup of an element.
    pub fn element(markup: &str) -> Result<Wrapper, String> {
        let document = Document::parse(markup.as_bytes(), &xml::Options::default())
            .map_err(|error| error.to_string())?;
        let root = document.root_element().ok_or("no element")?;
        let mut edits = Edits::default();
        edits.at(root).last.push(MARK);
        let text = edits.write(&document);
        let (before, after) = text.split_once(MARK).unwrap_or((&text, ""));
        let default_namespace = document.lookup_prefix(root, "").is_some();
        Ok(Wrapper::Xml { before: before.into(), after: after.into(), default_namespace })
    }
}

/// The part that was taken of one result.
struct TakenPart {
    text: String,
    is_json: bool,
    /// The text around the part. `None` if there is none, or if that of an earlier branch is known.
    around: Option<SurroundingText>,
    /// Present only if the gather keeps the head of its first result.
    head: Option<Head>,
}

/// The status and the lines of a result.
#[derive(Debug, Clone)]
struct Head {
    status: Option<u16>,
    lines: Headers,
}

/// The text around the parts in the first result.
struct SurroundingText {
    before: String,
    after: String,
    /// True if a default namespace is in scope between them.
    default_namespace: bool,
    content_type: Box<[u8]>,
    is_soap: bool,
}

/// The lowest index of a part whose surrounding text is known. Parts after it need none.
type FirstPart = Cell<usize>;

type Job<'a> = LocalBoxFuture<'a, (usize, Result<TakenPart, Fault>)>;

/// Number of parts after which the worker's other tasks have a turn, even if the steps do not wait. A part takes 10 µs or more, and a turn
/// about 1 µs.
const PARTS_IN_A_ROW: usize = 8;

/// Called after each part. Yields to other tasks after every [`PARTS_IN_A_ROW`] parts.
async fn give_way(parts_done: usize) {
    if parts_done.is_multiple_of(PARTS_IN_A_ROW) {
        kit::task::yield_to_events().await;
    }
}

/// Runs the branches and gathers their results.
async fn scatter(
    made: &Scatter,
    step: &Step,
    run: &Run<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let total = made.branches.len();
    let first = FirstPart::new(usize::MAX);
    let gathered = {
        let state = &*state;
        let jobs = made.branches.iter().enumerate().map(|(at, steps)| -> Job<'_> {
            let mut own = state.copy(at);
            let (gather, first) = (&made.gather, &first);
            Box::pin(async move {
                let ran = run_steps(steps, run, &mut own).await.map(|_| ());
                (at, taken(at, ran, gather, run, own, first).await)
            })
        });
        collect(jobs, total, total, &made.gather, run, state).await
    };
    let taken = gathered.end(step, run, state)?;
    join(&taken, &made.gather, run, state)
}

/// Runs the steps with each part, and gathers the results.
async fn split(made: &Split, step: &Step, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let parts = Parts::of(&made.over, made.max, run, state)?;
    let total = parts.items.len();
    let first = FirstPart::new(usize::MAX);
    let gathered = {
        let (state, parts, first) = (&*state, &parts, &first);
        let jobs = (0..total).map(|at| -> Job<'_> {
            Box::pin(async move {
                let mut own = state.copy(at);
                let ran = async {
                    own.message = parts.message(at, state, run)?;
                    run_steps(&made.steps, run, &mut own).await.map(|_| ())
                };
                let ran = ran.await;
                (at, taken(at, ran, &made.gather, run, own, first).await)
            })
        });
        collect(jobs, total, made.parallel, &made.gather, run, state).await
    };
    let taken = gathered.end(step, run, state)?;
    join(&taken, &made.gather, run, state)
}

/// Runs the steps with each part, and puts the result in its place.
async fn foreach(made: &Foreach, run: &Run<'_>, state: &mut State) -> Result<StepsEnd, Fault> {
    let parts = Parts::of(&made.over, made.max, run, state)?;
    let mut results: Vec<Option<String>> = Vec::new();
    let mut len = 0;
    if made.parallel <= 1 {
        for at in 0..parts.items.len() {
            if state.left().is_zero() {
                return Err(flow_timeout());
            }
            let item = parts.message(at, state, run)?;
            let outer = std::mem::replace(&mut state.message, item);
            let ended = run_steps(&made.steps, run, state).await?;
            if ended == StepsEnd::Answered {
                return Ok(ended);
            }
            let mut inner = std::mem::replace(&mut state.message, outer);
            inner.hold(run, state.left()).await?;
            let text = in_place(&inner, parts.wrapper_at(at), run)?;
            len += text.len();
            run.bound(len)?;
            results.push(Some(text));
            give_way(results.len()).await;
        }
    } else {
        results.resize_with(parts.items.len(), || None);
        let outer = &*state;
        let parts = &parts;
        // Harmless: it is only held until all parts have ended.
        let _wait = ConcurrentWait::new(clock::now(), &run.ex.totals);
        let mut jobs = (0..parts.items.len()).map(|at| {
            Box::pin(async move {
                let mut own = outer.copy(at);
                own.message = parts.message(at, outer, run)?;
                run_steps(&made.steps, run, &mut own).await?;
                own.hold(run).await?;
                Ok::<_, Fault>((at, in_place(&own.message, parts.wrapper_at(at), run)?))
            })
        });
        let (mut under_way, mut ended) = (FuturesUnordered::new(), 0);
        // Harmless: the others follow as these end.
        under_way.extend(jobs.by_ref().take(made.parallel));
        while let Some(done) = under_way.next().await {
            let (at, text) = done?;
            if outer.left().is_zero() {
                return Err(flow_timeout());
            }
            len += text.len();
            run.bound(len)?;
            if let Some(slot) = results.get_mut(at) {
                *slot = Some(text);
            }
            under_way.extend(jobs.next());
            ended += 1;
            give_way(ended).await;
        }
    }
    parts.put_back(&results, run, state)?;
    Ok(StepsEnd::Through)
}

/// Counts concurrent waits as one wait of the elapsed time. It does so when dropped, which includes a client that disconnects.
struct ConcurrentWait<'a> {
    totals: &'a Totals,
    before: Duration,
    began: Instant,
}

impl<'a> ConcurrentWait<'a> {
    fn new(began: Instant, totals: &'a Totals) -> ConcurrentWait<'a> {
        ConcurrentWait { totals, before: totals.upstream_wait.get(), began }
    }
}

impl Drop for ConcurrentWait<'_> {
    fn drop(&mut self) {
        let went_by = clock::now().duration_since(self.began);
        self.totals.upstream_wait.at_most(self.before.saturating_add(went_by));
    }
}

/// The results of branches in their order, and the failures of the others.
struct Collected {
    results: Vec<Option<TakenPart>>,
    /// The branches that failed, in the order of their faults.
    failed: Vec<(usize, Fault)>,
    /// `Ok` if there are enough results, or if incomplete results are kept. Otherwise the fault of the step.
    ended: Result<(), Fault>,
}

impl Collected {
    /// Records the failed branches, and returns the results.
    fn end(
        self,
        step: &Step,
        run: &Run<'_>,
        state: &mut State,
    ) -> Result<Vec<Option<TakenPart>>, Fault> {
        let Collected { results, failed, ended } = self;
        let there = |at: usize| results.get(at).is_some_and(Option::is_some);
        let gathered = Gathered::new(results.len(), there, failed);
        gathered.tell(run.ex, step.metrics(), step.label(), ended.is_ok());
        state.gathered = Some(Rc::new(gathered));
        ended.map(|()| results)
    }
}

/// Waits for as many results as are needed, in any order. The other branches are dropped.
async fn collect<'a>(
    mut jobs: impl Iterator<Item = Job<'a>>,
    total: usize,
    parallel: usize,
    gather: &Gather,
    run: &Run<'_>,
    state: &State,
) -> Collected {
    let began = clock::now();
    let left = state.left_at(began);
    let needed = gather.complete.unwrap_or(total);
    let mut results: Vec<Option<TakenPart>> = Vec::new();
    results.resize_with(total, || None);
    let (mut good, mut failed) = (0, Vec::new());
    let (mut len, mut too_large) = (0, Ok(()));
    let wait = ConcurrentWait::new(began, &run.ex.totals);
    // If there are fewer branches than needed results, the gather fails in any case and does not wait for them.
    let limit =
        if needed > total && !gather.keep { Duration::ZERO } else { gather.timeout.min(left) };
    let ended = {
        let waiting = async {
            let mut under_way = FuturesUnordered::new();
            // Harmless: the other parts start as these end.
            under_way.extend(jobs.by_ref().take(parallel.max(1)));
            while good < needed {
                let Some((at, taken)) = under_way.next().await else { break };
                match taken {
                    Ok(taken) => {
                        good += 1;
                        len += taken.text.len();
                        too_large = run.bound(len);
                        if too_large.is_err() {
                            break;
                        }
                        if let Some(slot) = results.get_mut(at) {
                            *slot = Some(taken);
                        }
                    }
                    Err(fault) => {
                        failed.push((at, fault));
                        if !gather.keep && total - failed.len() < needed {
                            break;
                        }
                    }
                }
                under_way.extend(jobs.next());
                give_way(good + failed.len()).await;
            }
        };
        within_from(began, limit, pin!(waiting)).await
    };
    drop(wait);
    let is_late = ended.is_none();
    let ended = match too_large {
        Err(fault) => Err(fault),
        Ok(()) if good >= needed => Ok(()),
        Ok(()) if is_late && limit == left => Err(flow_timeout()),
        Ok(()) if gather.keep && good > 0 => Ok(()),
        Ok(()) => Err(too_few(good, needed, gather.keep, &failed)),
    };
    if is_late {
        add_late(&results, limit, &mut failed);
    }
    Collected { results, failed, ended }
}

/// Takes the part for the gather from a branch's result.
async fn taken(
    at: usize,
    ran: Result<(), Fault>,
    gather: &Gather,
    run: &Run<'_>,
    mut state: State,
    first: &FirstPart,
) -> Result<TakenPart, Fault> {
    ran?;
    state.hold(run).await?;
    let levels = match &gather.take {
        None => Some(Envelope::CONTENT_LEVELS),
        Some(take) => take.levels(),
    };
    read_levels(&state.message, levels, gather.into.as_ref());
    let value = match &gather.take {
        None => whole_value(&state.message)?,
        Some(take) => run.value(&state, take)?,
    };
    let mut taken = cut(&value, gather.into.as_ref(), run)?;
    if gather.keeps_head {
        let Message { status, lines, .. } = &state.message;
        taken.head = Some(Head { status: *status, lines: lines.clone() });
    }
    if !taken.is_json && at < first.get() {
        taken.around = around(&value, &state.message);
        if taken.around.is_some() {
            first.set(at);
        }
    }
    Ok(taken)
}

/// Parses the first levels of an unshared result, from which elements are cut. JSON needs their texts, so all is parsed.
fn read_levels(message: &Message, levels: Option<usize>, into: Option<&Wrapper>) {
    if let (Some(levels), Some(content)) = (levels, message.content())
        && into != Some(&Wrapper::Json)
        && Rc::strong_count(content) == 1
    {
        content.read_levels(levels);
    }
}

/// Serialises the whole result for the position of the part that it replaces.
fn in_place(message: &Message, into: Option<Wrapper>, run: &Run<'_>) -> Result<String, Fault> {
    read_levels(message, Some(Envelope::CONTENT_LEVELS), into.as_ref());
    let value = whole_value(message)?;
    let (mut text, mut budget) = (String::new(), run.budget());
    let written = match into {
        Some(Wrapper::Json) => value.write_json(&mut text, &mut budget),
        Some(Wrapper::Xml { default_namespace, .. }) => {
            value.write_xml(default_namespace, &mut text, &mut budget)
        }
        None => value.write_xml(false, &mut text, &mut budget),
    };
    written.map_err(|kind| Fault::new(Kind::FlowFailed, kind.to_string()))?;
    Ok(text)
}

/// Returns the value of the whole body. For SOAP, it is the content of the Body.
fn whole_value(message: &Message) -> Result<Value, Fault> {
    let Some(content) = message.content() else { return Ok(Value::Nothing) };
    Ok(match content.known()? {
        View::Xml { document, envelope: Some(envelope) } => {
            let ids = document.children(envelope.body).collect();
            let group = expression::NodeGroup { document: document.clone(), ids };
            Value::Nodes(Nodes::new(vec![group]))
        }
        View::Empty | View::Xml { .. } | View::Json(_) | View::Text(_) | View::Bytes => {
            content.body().map_err(|kind| content.malformed(&kind.to_string()))?
        }
    })
}

/// Serialises a value for a wrapper.
fn cut(value: &Value, into: Option<&Wrapper>, run: &Run<'_>) -> Result<TakenPart, Fault> {
    let failed = |kind: FailureKind| Fault::new(Kind::FlowFailed, kind.to_string());
    let mut budget = run.budget();
    let mut text = String::new();
    let is_json = match (into, value) {
        (Some(Wrapper::Json), _) | (None, Value::Json(_)) => {
            push_items(value, &mut text, &mut budget).map_err(failed)?;
            true
        }
        (Some(Wrapper::Xml { default_namespace, .. }), _) => {
            value.write_xml(*default_namespace, &mut text, &mut budget).map_err(failed)?;
            false
        }
        (None, _) => {
            value.write_xml(false, &mut text, &mut budget).map_err(failed)?;
            false
        }
    };
    Ok(TakenPart { text, is_json, around: None, head: None })
}

/// Appends the found values as JSON, separated by commas.
fn push_items(
    value: &Value,
    out: &mut String,
    budget: &mut expression::Budget,
) -> Result<(), FailureKind> {
    let is_one = matches!(value, Value::Json(json) if json.singular);
    let items = if is_one { vec![value.clone()] } else { value.items() };
    for (at, item) in items.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "," });
        item.write_json(out, budget)?;
    }
    Ok(())
}

/// Returns the text around the parts: the SOAP envelope, or else the parent element of the first node.
fn around(value: &Value, message: &Message) -> Option<SurroundingText> {
    let content = message.content()?;
    let View::Xml { document, envelope } = content.view().ok()? else { return None };
    let (element, content_type) = match (envelope, value) {
        (Some(envelope), _) => (envelope.body, soap::content_type(envelope.version).as_bytes()),
        (None, Value::Nodes(nodes)) => {
            let (of, first) = nodes.iter().next()?;
            let parent = of.parent(first).filter(|parent| *parent != Document::ROOT)?;
            Arc::ptr_eq(of, document).then_some(())?;
            (parent, payload::XML.as_bytes())
        }
        (None, _) => return None,
    };
    let (before, after) = frame(document, element);
    let own = message.content_type().filter(|_| content.root().is_none());
    Some(SurroundingText {
        before,
        after,
        default_namespace: has_default_namespace(document, element),
        content_type: own.unwrap_or(content_type).into(),
        is_soap: envelope.is_some(),
    })
}

/// Returns the text of a document before and after the content of an element.
fn frame(document: &Document, element: NodeId) -> (String, String) {
    let mut edits = Edits::default();
    edits.at(element).content = Some(MARK.to_string());
    let text = edits.write(document);
    let (before, after) = text.split_once(MARK).unwrap_or((&text, ""));
    (before.to_owned(), after.to_owned())
}

#[cfg(test)]
mod tests;
