//! Mediators that keep replies or messages, count requests, or use a database.

use serde_json::{Map, Value as Json, json};
use xml::{Document, Kind, Options};

use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::super::soap_action;
use super::super::value::Value;

/// `cache`: the mediators after it run once for equal requests.
pub(super) fn cache<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    rest: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    // The step itself keeps the reply, so the collector on the way back needs no step.
    if item.is("collector", "true") {
        return Ok(Next::Continue);
    }
    let seconds = c.number("timeout", item.attribute("timeout")).unwrap_or(5000);
    let (made, ended) = c.branch(rest);
    let action = soap_action::expression();
    let key = format!("{{{{ $method }}}} {{{{ {action} }}}} {{{{ $request.body }}}}");
    steps.push(json!({ "cache": { "key": key, "ttl": format!("{seconds}s"), "steps": made } }));
    Ok(if ended { Next::EndAfter(rest.len()) } else { Next::Skip(rest.len()) })
}

/// The limits of a throttle policy.
#[derive(Debug, Default)]
struct Allowance {
    requests: Option<u64>,
    millis: Option<u64>,
}

/// `throttle`: the policy's limit for each address.
pub(super) fn throttle<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let policy = item.child("policy").ok_or("it has no policy")?;
    let content = match policy.attribute("key") {
        Some(key) => c.artifacts.resource(key)?.content,
        None => policy.content().into_bytes(),
    };
    let allowance = allowance(&content)?;
    let (Some(requests), Some(millis)) = (allowance.requests, allowance.millis) else {
        return Err("its policy has no number of requests in a time; a limit on what is active at once is `concurrency` on the route".to_owned());
    };
    let per = super::super::endpoints::duration(millis);
    steps.push(json!({ "throttle": { "requests": requests, "per": per, "by": "client", "headers": "none" } }));
    let (made, ended) = match (item.attribute("onAccept"), item.child("onAccept")) {
        (Some(key), _) => super::control::named(c, key)?,
        (None, Some(accept)) => c.steps(&accept.children()),
        (None, None) => (Vec::new(), false),
    };
    steps.extend(made);
    Ok(if ended { Next::End } else { Next::Continue })
}

/// Reads the first `MaximumCount` and the first `UnitTime` of a policy.
fn allowance(content: &[u8]) -> Result<Allowance, String> {
    let document = Document::parse(content, &Options::default())
        .map_err(|error| format!("its policy cannot be read: {error}"))?;
    let mut found = Allowance::default();
    for node in document.descendants(Document::ROOT) {
        if document.kind(node) != Kind::Element {
            continue;
        }
        // Harmless: without a number the policy is refused.
        let number = || document.string_value(node).trim().parse::<u64>().ok().filter(|n| *n > 0);
        match document.name(node).local {
            "MaximumCount" if found.requests.is_none() => found.requests = number(),
            "UnitTime" if found.millis.is_none() => found.millis = number(),
            // Harmless: the note of the step says that only the first limit counts.
            _ => {}
        }
    }
    Ok(found)
}

/// `store`: puts the message into the queue that replaces the message store, and ends the flow.
pub(super) fn store<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    rest: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let name = item.attribute("messageStore").ok_or("it has no store")?;
    if name.contains('{') {
        return Err("a store whose name is computed has no counterpart".to_owned());
    }
    if let Some(key) = item.attribute("sequence") {
        let (made, _) = super::control::named(c, key)?;
        steps.extend(made);
    }
    let idle = ["drop", "log", "respond", "property"];
    if !c.flow.is_failed_attempt() && rest.iter().any(|item| !idle.contains(&item.name())) {
        c.note("it answers 202; what stands behind it makes no other answer");
    }
    let queue = c.queue(name);
    if c.flow.is_failed_attempt() {
        steps.push(json!({ "store": { "queue": queue, "end": false } }));
        return Ok(Next::Continue);
    }
    steps.push(json!({ "store": { "queue": queue } }));
    Ok(Next::End)
}

/// `dblookup` and `dbreport`: each statement a query, each result a variable.
pub(super) fn sql<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let pool = item.child("connection").and_then(|connection| connection.child("pool"));
    let pool = pool.ok_or("it has no connection")?;
    if item.is("useTransaction", "true") && !c.flow.in_transaction {
        return Err("the transaction that it takes part in has no counterpart".to_owned());
    }
    let mut statements = Vec::new();
    for statement in item.all("statement") {
        let query = statement.text_of("sql").ok_or("a statement without SQL")?;
        let mut arguments = Vec::new();
        for parameter in statement.all("parameter") {
            let value = c.value(&parameter, "value", "expression")?;
            let value = value.unwrap_or(Value::Literal(String::new()));
            arguments.push(value.as_text().expression());
        }
        let mut results = Vec::new();
        for result in statement.all("result") {
            let (name, column) = (result.attribute("name"), result.attribute("column"));
            let (Some(name), Some(column)) = (name, column) else {
                return Err("a result needs `name` and `column`".to_owned());
            };
            if column.chars().all(|c| c.is_ascii_digit()) {
                return Err(format!("the column {column} is known by its number only"));
            }
            results.push((name, column));
        }
        statements.push((numbered(&query), arguments, results));
    }
    // The database is only added if all statements have a counterpart.
    let database = database(c, &pool)?;
    for (query, arguments, results) in statements {
        let mut keys = Map::from_iter([
            ("database".to_owned(), json!(database)),
            ("query".to_owned(), json!(query)),
        ]);
        if !arguments.is_empty() {
            keys.insert("arguments".to_owned(), json!(arguments));
        }
        if results.is_empty() {
            steps.push(json!({ "sql": keys }));
            continue;
        }
        let rows = c.out.variable(&format!("{database}.rows"));
        keys.insert("into".to_owned(), json!(rows));
        let of_row = |(name, column): &(&str, &str)| {
            (c.out.variable(name), json!(format!("${rows}[0]['{column}']")))
        };
        let sets: Map<String, Json> = results.iter().map(of_row).collect();
        steps.push(json!({ "sql": keys }));
        steps.push(json!({ "set": sets }));
    }
    Ok(Next::Continue)
}

/// The database of a connection.
fn database<'a>(c: &mut Converter<'a>, pool: &Element<'a>) -> Result<String, String> {
    // Harmless: without a URL the database is refused below.
    let text = |name: &str| pool.text_of(name).unwrap_or_default();
    let source = text("dsName");
    if !source.is_empty() {
        return Ok(of_source(c, &source));
    }
    c.database_at(&text("url"), &text("user"), "database")
}

/// The database of a data source, with the last segment of the source's name.
pub(super) fn of_source(c: &mut Converter<'_>, source: &str) -> String {
    c.database_of_source(source, source.rsplit('/').next().unwrap_or(source))
}

/// Numbers the parameters: each `?` outside of quotes becomes `$1`, `$2` and so on.
fn numbered(query: &str) -> String {
    let (mut out, mut number, mut quoted) = (String::new(), 0, false);
    for c in query.chars() {
        match c {
            '?' if !quoted => {
                number += 1;
                out.push_str(&format!("${number}"));
            }
            c => {
                quoted ^= c == '\'';
                out.push(c);
            }
        }
    }
    out
}
