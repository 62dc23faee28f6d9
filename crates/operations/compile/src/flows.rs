//! Compiles `flows` to the steps that run: names become slot numbers, texts become expressions, and names of upstreams become handles.
//!
//! All flows of a configuration share one table of names, since a flow can run the steps of another.

mod bodies;
mod calls;
mod conditions;
mod databases;
mod endpoints;
mod enrich;
mod expressions;
mod gathers;
mod labels;
mod scripts;
mod stateful_steps;
mod steps;
mod stylesheets;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ::flows::{Block, Flow, NameTable, Slots, Step, Variables};
use config::{At, Config, Map, NamedStep, Report, Spanned};
use plan::upstreams::Endpoints;
use queues::Entrance;

use crate::listeners::bytes;
use crate::policy_builder::PolicyBuilder;

/// The entrances of all queues, by name.
pub(crate) type Entrances = HashMap<String, Arc<Entrance>>;

/// Flows by name. The value is `None` for a flow that could not be compiled.
#[derive(Default)]
pub(crate) struct Flows {
    pub(crate) slots: Arc<Slots>,
    flows: HashMap<String, Option<Arc<Flow>>>,
}

/// Namespace prefixes with their URIs.
type Namespaces = Vec<(String, String)>;

/// The state of the compilation of steps.
struct Compiler<'a, 'p> {
    config: &'a Config,
    /// The queues that the step `store` may name.
    queues: &'a Entrances,
    table: &'a NameTable,
    /// For each flow, the variables that its steps may name.
    variables: &'a HashMap<&'a str, Variables>,
    builder: &'a mut PolicyBuilder<'p>,
    report: &'a mut Report,
    databases: &'a databases::Databases,
    /// The endpoints that `call: { url }` may use.
    endpoints: Option<&'a Arc<Endpoints>>,
    /// The steps of flows compiled so far, for `sequence`. The value is `None` if the flow has faults.
    done: HashMap<&'a str, Option<Arc<Block>>>,
    /// Names of the flows that are being compiled, the outermost first.
    under_way: Vec<&'a str>,
    /// The labels of the steps of the current flow.
    labels: labels::Labels,
    /// The number of stateful steps with equal keys in the same flow, to tell them apart.
    equal: HashMap<String, usize>,
}

/// The maximum nesting depth of steps. At run time, each level is a future inside another.
const DEPTH_MAX: usize = 32;

impl Flows {
    /// Returns true if the configuration has a flow of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.flows.contains_key(name)
    }

    /// Returns the names of all flows.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.flows.keys().map(String::as_str)
    }

    /// Returns a flow, or `None` if it does not exist or could not be compiled.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Flow>> {
        self.flows.get(name)?.as_ref()
    }
}

/// Compiles all flows and complains about their faults.
pub(crate) fn compile(
    config: &Config,
    queues: &Entrances,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Flows {
    let databases = databases::compile(config, builder, report);
    if config.flows.names().next().is_none() {
        return Flows::default();
    }
    let endpoints = endpoints::compile(config, builder, report);
    let (table, variables) = declare(config, report);
    let mut compiler = Compiler {
        config,
        queues,
        table: &table,
        variables: &variables,
        builder,
        report,
        databases: &databases,
        endpoints: endpoints.as_ref(),
        done: HashMap::new(),
        under_way: Vec::new(),
        labels: labels::Labels::default(),
        equal: HashMap::new(),
    };
    let mut blocks = Vec::new();
    for (name, _) in config.flows.iter() {
        blocks.push((name, compiler.block(&name.value)));
    }
    drop(compiler);
    // Flows that could not be read are included, so that their names are known.
    let mut flows: HashMap<String, Option<Arc<Flow>>> =
        config.flows.names().map(|name| (name.to_owned(), None)).collect();
    for (name, block) in blocks {
        let keys = config.flows.get(&name.value).map(|flow| &flow.value.0);
        // Harmless: a flow that could not be compiled got a complaint earlier.
        let flow = block.zip(keys).map(|(block, keys)| {
            Arc::new(Flow {
                name: name.value.as_str().into(),
                block,
                timeout: keys.timeout.map_or(config::FLOW_TIMEOUT, |timeout| timeout.0),
                body_bytes_max: bytes(keys.limits.body_bytes_max),
                refuses_duplicate_members: keys.duplicate_members
                    == config::DuplicateMembers::Refuse,
                metrics: builder.telemetry.flow(&name.value),
                tracer: builder.telemetry.tracer().clone(),
            })
        });
        flows.insert(name.value.clone(), flow);
    }
    Flows { slots: Arc::new(table.finish()), flows }
}

/// Returns the names of the upstreams that flows call.
pub(crate) fn upstreams(config: &Config) -> impl Iterator<Item = &str> {
    // Harmless: only `call` steps name an upstream.
    all_steps(config).into_iter().filter_map(|step| {
        let config::Step::Call(call) = &step.value.step else { return None };
        Some(call.0.upstream.as_ref()?.value.as_str())
    })
}

/// Returns the queues that a flow may store messages in, directly or through flows that it runs.
pub(crate) fn queues_of<'c>(config: &'c Config, flow: &'c str) -> BTreeSet<&'c str> {
    let steps = run_by(config, flow).into_iter().flat_map(steps_of);
    // Harmless: only `store` steps name a queue.
    let queues = steps.filter_map(|step| {
        let config::Step::Store(keys) = &step.value.step else { return None };
        Some(keys.queue.value.as_str())
    });
    queues.collect()
}

/// Returns a flow and the flows that it runs, directly or through others.
pub(crate) fn run_by<'c>(config: &'c Config, flow: &'c str) -> Vec<&'c config::FlowKeys> {
    let (mut passed, mut open, mut found) = (BTreeSet::new(), vec![flow], Vec::new());
    while let Some(name) = open.pop() {
        let Some(flow) = config.flows.get(name).filter(|_| passed.insert(name)) else { continue };
        found.push(&flow.value.0);
        for step in steps_of(&flow.value.0) {
            if let config::Step::Sequence(of) = &step.value.step {
                open.push(&of.value);
            }
        }
    }
    found
}

/// Returns the steps of all flows, including nested ones.
fn all_steps(config: &Config) -> Vec<&Spanned<NamedStep>> {
    config.flows.iter().flat_map(|(_, flow)| steps_of(&flow.value.0)).collect()
}

/// Returns the steps of a flow, including nested ones.
fn steps_of(keys: &config::FlowKeys) -> Vec<&Spanned<NamedStep>> {
    let mut open: Vec<&config::Steps> = std::iter::once(&keys.steps).chain(&keys.catch).collect();
    let mut steps = Vec::new();
    while let Some(list) = open.pop() {
        steps.extend(&list.0);
        open.extend(list.0.iter().flat_map(|step| step.value.step.inner()));
    }
    steps
}

/// A flow's own variables, and the flows that it runs.
#[derive(Default)]
struct Outline<'c> {
    variables: Variables,
    runs: Vec<&'c str>,
}

/// Determines the variables that the steps of each flow may name: those of all flows that can take part in the same run. Unrelated flows
/// may use one name for different things.
fn declare<'c>(
    config: &'c Config,
    report: &mut Report,
) -> (NameTable, HashMap<&'c str, Variables>) {
    let (mut table, mut outlines) = (NameTable::default(), HashMap::new());
    for (name, flow) in config.flows.iter() {
        let mut outline = Outline::default();
        for step in steps_of(&flow.value.0) {
            declare_of(&step.value.step, &mut table, &mut outline.variables, report);
            if let config::Step::Sequence(of) = &step.value.step {
                outline.runs.push(&of.value);
            }
        }
        outlines.insert(name.value.as_str(), outline);
    }
    let inner: BTreeSet<&str> =
        outlines.values().flat_map(|outline| outline.runs.iter().copied()).collect();
    let outer = outlines.keys().copied().filter(|name| !inner.contains(name));
    let mut visible: HashMap<&str, Variables> = HashMap::new();
    // Flows that run each other in a cycle have no outermost flow. A complaint about the cycle follows later.
    for name in outer.chain(inner.iter().copied()) {
        if inner.contains(name) && visible.contains_key(name) {
            continue;
        }
        let passed = reach(name, &outlines);
        let mut all = Variables::default();
        // Harmless: an unknown flow is reported at the step that runs it.
        passed.iter().filter_map(|name| outlines.get(name)).for_each(|outline| {
            all.add_all(&outline.variables);
        });
        passed.into_iter().for_each(|name| visible.entry(name).or_default().add_all(&all));
    }
    (table, visible)
}

/// Returns a flow and all flows that it runs, directly or indirectly.
fn reach<'c>(from: &'c str, outlines: &HashMap<&'c str, Outline<'c>>) -> BTreeSet<&'c str> {
    let (mut passed, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(name) = open.pop() {
        if passed.insert(name) {
            open.extend(outlines.get(name).into_iter().flat_map(|outline| &outline.runs));
        }
    }
    passed
}

fn declare_of(
    step: &config::Step,
    table: &mut NameTable,
    variables: &mut Variables,
    report: &mut Report,
) {
    for (Spanned { value: name, at, .. }, holds_reply) in steps::kind(step).sets() {
        if config::RESERVED_NAMES.contains(&name.as_str()) {
            let what = format!("`{name}` is reserved for a part of the message");
            report.error(*at, what, "give the variable another name");
        } else if !is_variable(name) {
            let what = format!("`{}` is not a valid variable name", name.escape_debug());
            report.error(
                *at,
                what,
                "write letters, digits, `_` and `-`, beginning with a letter or `_`",
            );
        }
        variables.add(table.declare(name), holds_reply);
    }
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

impl<'a> Compiler<'a, '_> {
    /// Returns the variables that steps of the current flow may name.
    fn variables(&self) -> &'a Variables {
        static NONE: std::sync::LazyLock<Variables> = std::sync::LazyLock::new(Variables::default);
        let of_flow = self.under_way.last().and_then(|name| self.variables.get(name));
        of_flow.unwrap_or(&NONE)
    }

    /// Compiles the steps of a flow. Returns `None` after a complaint.
    fn block(&mut self, name: &'a str) -> Option<Arc<Block>> {
        if let Some(done) = self.done.get(name) {
            return done.clone();
        }
        let keys = &self.config.flows.get(name)?.value.0;
        let namespaces = namespaces(&keys.namespaces);
        self.under_way.push(name);
        let own = labels::Labels::of(steps_of(keys), self.report);
        let outer = std::mem::replace(&mut self.labels, own);
        let steps = self.steps(&keys.steps, &namespaces, 0);
        let catch = keys.catch.as_ref().map(|catch| {
            let outer = self.labels.enter("catch");
            let steps = self.steps(catch, &namespaces, 0);
            self.labels.leave(outer);
            steps
        });
        self.labels = outer;
        self.under_way.pop();
        let timeout = keys.timeout.map(|timeout| timeout.0);
        let block = match (steps, catch) {
            (Some(steps), None) => Some(Block::new(steps, None, timeout)),
            (Some(steps), Some(Some(catch))) => Some(Block::new(steps, Some(catch), timeout)),
            (None, _) | (_, Some(None)) => None,
        };
        let block = block.map(Arc::new);
        self.done.insert(name, block.clone());
        block
    }

    /// Compiles a list of steps nested in the current step. `part` names the list within the step.
    fn inner(
        &mut self,
        part: &str,
        steps: &'a config::Steps,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<::flows::Steps> {
        let outer = self.labels.enter(part);
        let made = self.steps(steps, namespaces, depth + 1);
        self.labels.leave(outer);
        made
    }

    /// Compiles a list of steps. All steps are checked, even if one of them is wrong.
    fn steps(
        &mut self,
        steps: &'a config::Steps,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<::flows::Steps> {
        if depth > DEPTH_MAX {
            let at = steps.0.first().map_or(At::NOWHERE, |step| step.at);
            let what = format!("steps are nested deeper than {DEPTH_MAX} levels");
            self.report.error(
                at,
                what,
                "move inner steps into flows, and run those with `sequence`",
            );
            return None;
        }
        let made: Vec<Option<Step>> =
            steps.0.iter().map(|step| self.step(step, namespaces, depth)).collect();
        self.warn_of_unreachable(steps);
        self.warn_of_unsent(steps);
        made.into_iter().collect::<Option<Vec<Step>>>().map(Into::into)
    }

    /// Warns of a step after one that ends the flow: it never runs.
    fn warn_of_unreachable(&mut self, steps: &config::Steps) {
        let ends = |step: &Spanned<NamedStep>| steps::kind(&step.value.step).ends_flow();
        let next = steps.0.iter().position(ends).and_then(|end| steps.0.get(end + 1));
        if let Some(step) = next {
            let what = format!("this `{}` is never reached", step.value.step.name());
            self.report.warn(step.at, what, "remove it: the step before ends the flow");
        }
    }

    /// Warns of a step that makes a body which the next call drops, because requests of its method have no body.
    fn warn_of_unsent(&mut self, steps: &config::Steps) {
        let mut makes = false;
        for step in &steps.0 {
            if let config::Step::Call(call) = &step.value.step
                && makes
                && call.0.body.is_none()
                && call.0.into.is_none()
                && let Some(method) = &call.0.method
                && ::message::ignores_content(method.value.as_bytes())
            {
                let what = format!(
                    "the payload before this call is not sent: {} sends a body only if `body` is set",
                    method.value
                );
                self.report.warn(method.at, what, "add `body: $body`, or use POST");
            }
            let leaves = matches!(
                step.value.step,
                config::Step::Set(_) | config::Step::Header(_) | config::Step::Log(_)
            );
            makes = matches!(step.value.step, config::Step::Payload(_)) || makes && leaves;
        }
    }

    /// Returns the steps of another flow, to be run in place of a `sequence` step.
    fn sequence(&mut self, name: &'a Spanned<String>) -> Option<Arc<Block>> {
        if self.under_way.contains(&name.value.as_str()) {
            let way: Vec<&str> =
                self.under_way.iter().copied().chain([name.value.as_str()]).collect();
            let what = format!("the flow runs itself: {}", way.join(" -> "));
            self.report.error(name.at, what, "remove one of these `sequence` steps");
            return None;
        }
        if self.config.flows.get(&name.value).is_none() {
            crate::names::known("flow", name, &self.config.flows, self.report);
            return None;
        }
        self.block(&name.value)
    }
}

fn namespaces(written: &Map<Spanned<String>>) -> Namespaces {
    written.iter().map(|(prefix, uri)| (prefix.value.clone(), uri.value.clone())).collect()
}
