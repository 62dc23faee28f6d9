//! Mediators that make several messages of one, and the aggregate that makes one of several.
//!
//! Synapse has separate mediators: a clone sends, and an aggregate on the path of the replies collects. Here both are one
//! step, so the aggregate is searched where its messages pass: after the clone, at the end of its sequence, or in the
//! sequence of the replies.

use serde_json::{Map, Value as Json, json};

use super::super::converter::{Converter, Next, Side};
use super::super::element::Element;
use super::super::endpoints::{Target, duration};
use super::super::known::{self, ConversionResult};
use super::super::pending::Sender;
use super::super::soap_action;
use super::super::value::Value;
use super::control;
use super::replies;
use super::transforms::PAYLOAD;

/// The maximum depth to which sequences are searched for an aggregate.
const DEPTH_MAX: usize = 8;

/// The element for collected parts, if none is configured.
const COLLECTED: &str = "<Aggregated/>";

/// The collected parts as the content of the first message: XML without SOAP has room for only one element.
const UNWRAPPED: &str = "$infoset_body/Aggregated/*[position() = 1 or $envelope/soap:Envelope or $envelope/soap12:Envelope]";

/// The number of concurrent messages of an iterate.
const PARALLEL: u32 = 8;

/// The place of a clone's aggregate. By default there is none.
#[derive(Default)]
struct CloneAggregate<'a> {
    aggregate: Option<Element<'a>>,
    /// Steps of each branch before the aggregate.
    between: Vec<Element<'a>>,
    /// The number of mediators after the clone that belong to it.
    taken: usize,
    /// True if it is on the path of the replies, where the flow ends.
    on_reply: bool,
    /// True if other mediators follow it there.
    has_more: bool,
}

/// Mediators up to an aggregate.
struct SplitItems<'a> {
    before: Vec<Element<'a>>,
    aggregate: Element<'a>,
    /// True if other mediators follow it.
    has_more: bool,
}

pub(super) fn clone<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    rest: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let targets = item.all("target");
    if item.is("continueParent", "true") {
        return beside(c, &targets, steps);
    }
    let bodies: Vec<Vec<Element<'a>>> = targets.iter().map(|t| body(c, t)).collect();
    let found = find(c, &bodies, rest);
    let mut branches = Vec::new();
    for target in &targets {
        let made = branch(c, target, &found)?;
        branches.push(match <[Json; 1]>::try_from(made) {
            Ok([one]) if !crate::yaml::is_comment(&one) => one,
            Ok([one]) => json!([one]),
            Err(several) => Json::Array(several),
        });
    }
    if branches.is_empty() {
        return Err("it has no targets".to_owned());
    }
    let gather = gather(c, found.aggregate, Some(branches.len()))?;
    steps.push(json!({ "scatter": { "branches": branches, "gather": gather } }));
    c.flow.pending.sender = Sender::Service;
    finish(c, &found, steps)
}

/// Targets that run concurrently while the message continues. They must not answer the client.
fn beside<'a>(
    c: &mut Converter<'a>,
    targets: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let nothing = CloneAggregate::default();
    let answers = |item: &Element<'_>| matches!(item.name(), "send" | "respond" | "aggregate");
    let on_reply = c.flow.reply.iter().flat_map(Element::descendants).any(|item| answers(&item));
    let within = targets.iter().flat_map(|target| body(c, target));
    if on_reply || within.flat_map(|item| item.descendants()).any(|item| item.name() == "respond") {
        return Err(
            "a copy whose reply goes to the client beside the message itself has no counterpart"
                .to_owned(),
        );
    }
    for target in targets {
        let made = branch(c, target, &nothing)?;
        steps.push(json!({ "wire_tap": { "steps": made } }));
    }
    Ok(Next::Continue)
}

pub(super) fn iterate<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    rest: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let over = item.attribute("expression").ok_or("it has no expression")?;
    let over = c.expression(item, over)?;
    let (before, mut made) = around(c, item, &over)?;
    let target = item.child("target").ok_or("it has no target")?;
    let found = find(c, &[body(c, &target)], rest);
    steps.extend(before);
    made.extend(branch(c, &target, &found)?);
    let parallel = if item.is("sequential", "true") { 1 } else { PARALLEL };
    let gather = gather(c, found.aggregate, None)?;
    steps.push(json!({
        "split": { "over": over.expression(), "steps": made, "parallel": parallel, "gather": gather },
    }));
    c.flow.pending.sender = Sender::Service;
    finish(c, &found, steps)
}

/// Steps before an iterate, and the first steps of each part, which put the part into the original envelope.
fn around<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    over: &Value,
) -> Result<(Vec<Json>, Vec<Json>), String> {
    if !item.is("preservePayload", "true") {
        return Ok(Default::default());
    }
    let attach = item.attribute("attachPath").map(|path| c.expression(item, path)).transpose()?;
    // Harmless: without both, the note below names what is lost.
    let paths = over.path().zip(attach.as_ref().and_then(Value::path));
    let is_within = |path: &str, root: &str| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) && !path.contains('|')
    };
    let roots = ["$infoset_body", "$infoset"];
    let found = paths.and_then(|(over, attach)| {
        let is_root =
            |root: &&&str| over != **root && is_within(over, root) && is_within(attach, root);
        let root = roots.iter().find(is_root)?;
        Some((over.strip_prefix(root)?, attach, *root))
    });
    let Some((over, attach, root)) = found else {
        c.note("each part is a message of its own, without what was around it");
        return Ok(Default::default());
    };
    let (rest, part) = (c.out.variable("iterate.rest"), c.out.variable("iterate.part"));
    let removed = json!({ "target": format!("${rest}{over}"), "action": "remove" });
    let content = if root == "$infoset" {
        let of = |prefix: &str| format!("${rest}/{prefix}:Envelope/{prefix}:Body/node()");
        format!("{} | {}", of("soap"), of("soap12"))
    } else {
        format!("${rest}/node()")
    };
    let before = vec![json!({ "set": { &rest: root } }), json!({ "enrich": removed })];
    let added = json!({ "source": format!("${part}"), "target": attach, "action": "child" });
    let within = vec![
        json!({ "set": { part: { "xpath": PAYLOAD } } }),
        json!({ "payload": { "from": { "xpath": content } } }),
        json!({ "enrich": added }),
    ];
    Ok((before, within))
}

/// The mediators that a target runs.
fn body<'a>(c: &Converter<'a>, target: &Element<'a>) -> Vec<Element<'a>> {
    if let Some(sequence) = target.child("sequence") {
        return sequence.children();
    }
    let named = target.attribute("sequence").and_then(|key| c.artifacts.sequences.get(key));
    named.map_or_else(Vec::new, Element::children)
}

/// The items up to the first aggregate, and the aggregate. It may be in a nested sequence.
fn split<'a>(c: &Converter<'a>, items: &[Element<'a>], depth: usize) -> Option<SplitItems<'a>> {
    let mut before = Vec::new();
    let works = |item: &Element<'_>| !matches!(item.name(), "log" | "drop" | "description");
    for (at, item) in items.iter().enumerate() {
        let has_more = items.iter().skip(at + 1).any(works);
        if item.name() == "aggregate" {
            return Some(SplitItems { before, aggregate: *item, has_more });
        }
        let within = match item.name() {
            "sequence" => match item.attribute("key") {
                Some(key) => c.artifacts.sequences.get(key).map(Element::children),
                None => Some(item.children()),
            },
            "out" => Some(item.children()),
            _ => None,
        };
        let within = within.filter(|_| depth < DEPTH_MAX);
        if let Some(found) = within.and_then(|within| split(c, &within, depth + 1)) {
            before.extend(found.before);
            let has_more = has_more || found.has_more;
            return Some(SplitItems { before, has_more, ..found });
        }
        before.push(*item);
    }
    None
}

fn find<'a>(
    c: &Converter<'a>,
    bodies: &[Vec<Element<'a>>],
    rest: &[Element<'a>],
) -> CloneAggregate<'a> {
    if let Some(at) = rest.iter().position(|item| item.name() == "aggregate") {
        return CloneAggregate {
            aggregate: rest.get(at).copied(),
            between: rest.get(..at).unwrap_or_default().to_vec(),
            taken: at + 1,
            ..CloneAggregate::default()
        };
    }
    let within = bodies.iter().find_map(|body| split(c, body, 0));
    if let Some(SplitItems { aggregate, has_more, .. }) = within {
        let aggregate = Some(aggregate);
        return CloneAggregate { aggregate, has_more, ..CloneAggregate::default() };
    }
    if let Some(SplitItems { before, aggregate, has_more }) = split(c, &c.flow.reply, 0) {
        let aggregate = Some(aggregate);
        return CloneAggregate { aggregate, between: before, taken: 0, on_reply: true, has_more };
    }
    CloneAggregate::default()
}

/// The steps of one branch: those of its target, and those on the way to the aggregate.
fn branch<'a>(
    c: &mut Converter<'a>,
    target: &Element<'a>,
    found: &CloneAggregate<'a>,
) -> Result<Vec<Json>, String> {
    let (reply, shared) =
        if found.on_reply { (found.between.clone(), false) } else { (Vec::new(), false) };
    let reply = std::mem::replace(&mut c.flow.reply, reply);
    let is_shared = std::mem::replace(&mut c.flow.reply_is_shared, shared);
    let in_branch = std::mem::replace(&mut c.flow.in_branch, true);
    // Each branch starts with the original message.
    let pending = c.flow.pending.clone();
    let made = branch_steps(c, target, found);
    c.flow.pending = pending;
    c.flow.reply = reply;
    c.flow.reply_is_shared = is_shared;
    c.flow.in_branch = in_branch;
    made
}

fn branch_steps<'a>(
    c: &mut Converter<'a>,
    target: &Element<'a>,
    found: &CloneAggregate<'a>,
) -> Result<Vec<Json>, String> {
    let mut steps = Vec::new();
    if let Some(action) = target.attribute("soapAction") {
        steps.push(soap_action::set(c, &Value::Literal(action.to_owned())));
    }
    let items = body(c, target);
    let is_within = !found.on_reply && found.taken == 0 && found.aggregate.is_some();
    let own = match is_within.then(|| split(c, &items, 0)).flatten() {
        Some(SplitItems { before, .. }) => before,
        None => items,
    };
    c.used.extend(target.attribute("sequence").map(str::to_owned));
    let shared = target.attribute("sequence").filter(|_| !is_within);
    match shared {
        Some(key) => steps.extend(control::named(c, key)?.0),
        None => steps.extend(c.branch(&own).0),
    }
    let endpoint = match (target.attribute("endpoint"), target.child("endpoint")) {
        (Some(key), _) => Some(c.endpoint_by_key(key)?),
        (None, Some(endpoint)) => Some(c.endpoint(&endpoint)?),
        (None, None) => None,
    };
    match endpoint.as_deref() {
        Some([target]) => {
            c.call(target, Map::new(), &mut steps)?;
            let reply = c.flow.reply.clone();
            steps.extend(c.branch(&reply).0);
        }
        Some(_) => return Err("a recipient list in a branch has no counterpart".to_owned()),
        None => {}
    }
    if !found.on_reply {
        steps.extend(c.branch(&found.between).0);
    }
    Ok(steps)
}

/// Converts an aggregate to `gather`.
fn gather<'a>(
    c: &mut Converter<'a>,
    aggregate: Option<Element<'a>>,
    branches: Option<usize>,
) -> Result<Json, String> {
    if let Some(aggregate) = &aggregate {
        // A sequence that holds the aggregate counts as used.
        let artifacts = c.artifacts;
        let holding =
            artifacts.sequences.iter().filter(|(_, it)| it.descendants().contains(aggregate));
        c.used.extend(holding.map(|(name, _)| (*name).to_owned()));
        for note in known::judge("aggregate", aggregate).result()? {
            c.note(note);
        }
    }
    let Some(aggregate) = aggregate else {
        c.note("no aggregate collects the replies; here they are put into one message");
        return Ok(
            json!({ "take": "$infoset_body/*", "into": "<Replies/>", "complete": "all", "partial": "keep" }),
        );
    };
    let complete = aggregate.child("onComplete").ok_or("its aggregate has no `onComplete`")?;
    let expression = complete.attribute("expression").ok_or("its aggregate has no expression")?;
    let take = c.expression(&complete, expression)?.expression();
    let property = complete.attribute("enclosingElementProperty");
    let into = property.and_then(|name| c.artifacts.inline.get(name)).map(Element::content);
    if into.is_none() && !is_in_body(&take) {
        c.note("what is collected goes into the Body, without the elements that it stood in");
    }
    let into = into.unwrap_or_else(|| COLLECTED.to_owned());
    let condition = aggregate.child("completeCondition");
    let count = condition.and_then(|condition| condition.child("messageCount"));
    let mut number =
        |name: &str| c.number(name, count.as_ref().and_then(|count| count.attribute(name)));
    let (least, most) = (number("min"), number("max"));
    let all = branches.map(|branches| branches as u64);
    let wanted = least.or(most).filter(|number| all.is_none_or(|all| *number < all));
    let mut keys = Map::from_iter([
        ("take".to_owned(), take),
        ("into".to_owned(), json!(into)),
        ("complete".to_owned(), wanted.map_or(json!("all"), |number| json!(number))),
        ("head".to_owned(), json!("first")),
    ]);
    let timeout = condition.as_ref().and_then(|condition| condition.attribute("timeout"));
    if let Some(seconds) = c.number("timeout", timeout) {
        keys.insert("timeout".to_owned(), json!(duration(seconds.saturating_mul(1000))));
        keys.insert("partial".to_owned(), json!("keep"));
    }
    c.artifact(&aggregate, crate::table::Outcome::Converted, "");
    Ok(Json::Object(keys))
}

/// True for an expression that selects children of the Body.
fn is_in_body(take: &Json) -> bool {
    let step = take.as_str().and_then(|text| text.strip_prefix("$infoset_body/"));
    step.is_some_and(|step| !step.split('[').next().unwrap_or_default().contains('/'))
}

/// Converts the mediators that run on the aggregated message.
fn finish<'a>(
    c: &mut Converter<'a>,
    found: &CloneAggregate<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let complete = found.aggregate.and_then(|aggregate| aggregate.child("onComplete"));
    if found.has_more {
        c.note(
            "what stands behind the aggregate runs on single replies there, and not at all here",
        );
    }
    let side = c.flow.side;
    let encloses = complete.is_some_and(|it| it.attribute("enclosingElementProperty").is_some());
    if complete.is_some() && !encloses {
        steps.push(json!({ "payload": { "from": { "xpath": UNWRAPPED } } }));
    }
    if found.on_reply {
        c.flow.side = Side::Reply;
    }
    let ended = match complete {
        None => false,
        Some(complete) => match complete.attribute("sequence") {
            Some(key) => c.named_sequence(key, steps)? == Next::End,
            None => {
                let side = c.flow.side;
                // A send without an endpoint after an aggregate answers the client.
                c.flow.side = Side::Reply;
                let (made, ended) = c.steps(&complete.children());
                c.flow.side = side;
                steps.extend(made);
                ended
            }
        },
    };
    c.flow.side = side;
    if ended {
        return Ok(Next::EndAfter(found.taken));
    }
    if found.on_reply {
        steps.push(json!({ "drop": {} }));
        return Ok(Next::End);
    }
    if found.aggregate.is_none()
        && found.taken == 0
        && !c.flow.in_branch
        && c.flow.side == Side::Request
        && !c.flow.reply.is_empty()
    {
        replies::reply(c, steps);
        return Ok(Next::End);
    }
    Ok(Next::Skip(found.taken))
}

/// A recipient list: a call to each, and the mediators that collect the replies.
pub(super) fn recipients(
    c: &mut Converter<'_>,
    targets: &[Target],
    steps: &mut Vec<Json>,
) -> Result<(), String> {
    let pending = c.flow.pending.clone();
    let mut branches = Vec::new();
    for target in targets {
        c.flow.pending = pending.clone();
        let mut made = Vec::new();
        c.call(target, Map::new(), &mut made)?;
        branches.push(json!(made));
    }
    let differs = known::conversion("recipientlist", ".");
    if let Some(ConversionResult::Differs(how)) = differs {
        c.note(how);
    }
    let gather = json!({ "take": "$infoset_body/*", "into": "<Replies/>", "complete": "all", "partial": "keep" });
    steps.push(json!({ "scatter": { "branches": branches, "gather": gather } }));
    Ok(())
}

/// `scatter-gather`: branches and their aggregate, in one mediator.
pub(super) fn scatter_gather<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let aggregation = item.child("aggregation").ok_or("it has no aggregation")?;
    let expression = aggregation.attribute("expression").unwrap_or("${payload}");
    let take = c.expression(&aggregation, expression)?.expression();
    let into = if item.is("result-content-type", "XML") {
        let root = aggregation.attribute("result-enclosing-element").unwrap_or("root");
        json!(format!("<{root}/>"))
    } else {
        json!({ "json": [] })
    };
    let sequences = item.all("sequence");
    let mut branches = Vec::new();
    for sequence in &sequences {
        let made = match sequence.attribute("key") {
            Some(key) => control::named(c, key)?.0,
            None => c.branch(&sequence.children()).0,
        };
        branches.push(json!(made));
    }
    let mut gather = Map::from_iter([("take".to_owned(), take), ("into".to_owned(), into)]);
    let mut number = |name: &str| c.number(name, aggregation.attribute(name));
    let least = number("min-messages").filter(|n| *n < branches.len() as u64);
    gather.insert("complete".to_owned(), least.map_or(json!("all"), |number| json!(number)));
    if let Some(seconds) = number("timeout") {
        gather.insert("timeout".to_owned(), json!(duration(seconds.saturating_mul(1000))));
        gather.insert("partial".to_owned(), json!("keep"));
    }
    if item.is("parallel-execution", "false") {
        c.note("its branches run at once");
    }
    let scatter = json!({ "scatter": { "branches": branches, "gather": gather } });
    c.flow.pending.sender = Sender::Service;
    if item.is("target", "Variable") {
        let name = item.attribute("target-variable").ok_or("its target has no name")?;
        let (kept, name) = (c.out.variable("scatter.kept"), c.out.variable(name));
        let from = format!("${kept}");
        steps.push(json!({ "set": { kept: "$body" } }));
        steps.push(scatter);
        steps.push(json!({ "set": { name: "$body" } }));
        steps.push(json!({ "payload": { "from": from } }));
    } else {
        steps.push(scatter)
    }
    Ok(Next::Continue)
}
