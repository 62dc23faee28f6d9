//! The conversion of each mediator, by families.

pub(super) mod calls;
mod control;
mod gathering;
mod messages;
mod payloads;
mod properties;
pub(super) mod rewrite;
mod router;
mod stores;
mod transforms;

use serde_json::Value as Json;

use super::converter::{Converter, Next};
use super::element::Element;

/// Mediators without a counterpart, with the reasons.
const REFUSED: &[(&str, &str)] = &[
    ("class", "code in Java is not run; an `interceptor` on the route calls a service of yours"),
    ("xquery", "XQuery is not run; write it as a stylesheet"),
    ("smooks", "Smooks is not run; write it as a stylesheet, or as a service"),
    (
        "datamapper",
        "its mapping is a program; write it as a stylesheet, a template or `script: { jq }`",
    ),
    ("rule", "rules are not run; `filter` and `switch` may do"),
    ("bean", "code in Java is not run"),
    ("spring", "code in Java is not run"),
    ("ejb", "code in Java is not run"),
    ("entitlement", "XACML is not asked; `authorize` on the route has rules"),
    ("oauthService", "tokens are checked by `jwt` on the route"),
    ("ntlm", "NTLM is not spoken"),
    ("opa", "OPA is not asked; `authorize` on the route has rules"),
    ("transaction", "there are no transactions over several steps"),
    ("event", "there is no broker; a `hub` has subscribers of its own"),
    ("enqueue", "there are no executors with priorities; `store` puts a message into a queue"),
    ("sampler", "messages are not held back; `throttle` refuses those over a limit"),
    ("dataServiceCall", "data services are not here; `sql` asks a database"),
    ("dbtransaction", "there are no transactions over several steps"),
    ("publishEvent", "there is no event sink"),
    ("bam", "there is no event sink"),
    ("eventPublisher", "there is no event sink"),
];

/// An element as a row names it: with the attribute that tells it from others.
pub(super) fn told(element: &Element<'_>) -> String {
    let telling =
        ["name", "key", "id", "source", "xpath", "expression", "messageStore", "target", "level"];
    let told = telling.into_iter().find_map(|attribute| element.attribute(attribute));
    match told {
        Some(told) if told.chars().count() <= 48 => format!("{} {told}", element.name()),
        Some(told) => {
            // Harmless: `...` matches the rest.
            format!("{} {}...", element.name(), told.chars().take(45).collect::<String>())
        }
        None => element.name().to_owned(),
    }
}

/// Appends the steps of a mediator. `rest` are the mediators behind it. The error says why there is no counterpart.
pub(super) fn convert<'a>(
    converter: &mut Converter<'a>,
    item: &Element<'a>,
    rest: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let c = converter;
    match item.name() {
        "send" => calls::send(c, item, rest, steps),
        "call" => calls::call(c, item, steps),
        "callout" => calls::callout(c, item, steps),
        "respond" => calls::respond(c, steps),
        "loopback" => calls::loopback(c, steps),
        "drop" => calls::drop_message(c, steps),
        "property" => properties::property(c, item, steps),
        "propertyGroup" => properties::group(c, item, steps),
        "variable" => properties::variable(c, item, steps),
        "header" => messages::header(c, item, steps),
        "log" => messages::log(c, item, steps),
        "enrich" => messages::enrich(c, item, steps),
        "payloadFactory" => payloads::payload(c, item, rest, steps),
        "makefault" => payloads::makefault(c, item, rest, steps),
        "xslt" | "fastXSLT" => transforms::xslt(c, item, steps),
        "validate" => transforms::validate(c, item, steps),
        "jsontransform" => transforms::json(c, item, steps),
        "script" => transforms::script(c, item, steps),
        "filter" => control::filter(c, item, steps),
        "switch" => control::switch(c, item, steps),
        "in" | "out" => control::side(c, item, steps),
        "sequence" => control::sequence(c, item, steps),
        "call-template" => control::call_template(c, item, steps),
        "foreach" => control::foreach(c, item, steps),
        "conditionalRouter" => router::router(c, item, steps),
        "throwError" => router::throw(c, item, steps),
        "clone" => gathering::clone(c, item, rest, steps),
        "iterate" => gathering::iterate(c, item, rest, steps),
        "aggregate" => {
            Err("it has no `clone` or `iterate` before it that it could belong to".to_owned())
        }
        "scatter-gather" => gathering::scatter_gather(c, item, steps),
        "cache" => stores::cache(c, item, rest, steps),
        "throttle" => stores::throttle(c, item, steps),
        "rewrite" => rewrite::rewrite(c, item, steps),
        "builder" => messages::builder(c),
        "store" => stores::store(c, item, rest, steps),
        "dblookup" | "dbreport" => stores::sql(c, item, steps),
        name => Err(refusal(name)),
    }
}

fn refusal(name: &str) -> String {
    let known = REFUSED.iter().find(|(known, _)| *known == name);
    match known {
        Some((_, why)) => (*why).to_owned(),
        None if name.contains('.') => {
            "operations of connectors have no counterpart; `call` speaks HTTP".to_owned()
        }
        None => format!("the mediator `{name}` has no counterpart"),
    }
}
