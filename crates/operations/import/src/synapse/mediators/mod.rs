//! The conversion of each mediator, by families.

mod callout;
pub(super) mod calls;
mod connector;
mod control;
mod gathering;
mod mapper;
mod messages;
mod payloads;
pub(super) mod properties;
mod replies;
pub(super) mod rewrite;
mod router;
mod script;
mod stores;
mod transactions;
mod transforms;

use serde_json::Value as Json;

use super::converter::{Converter, Next};
use super::element::Element;

/// Appends the steps of a mediator. `rest` are the mediators after it. The error is the reason why there is no
/// counterpart.
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
        "callout" => callout::callout(c, item, steps),
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
        "makefault" => payloads::makefault(c, item, steps),
        "xslt" | "fastXSLT" => transforms::xslt(c, item, steps),
        "validate" => transforms::validate(c, item, steps),
        "jsontransform" => transforms::json(steps),
        "script" => script::script(c, item, steps),
        "datamapper" => mapper::mapper(c, item, steps),
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
        "builder" => messages::builder(),
        "store" => stores::store(c, item, rest, steps),
        "dblookup" | "dbreport" => stores::sql(c, item, steps),
        "transaction" => transactions::transaction(c, item, rest, steps),
        "http.get" | "http.post" | "http.put" | "http.patch" | "http.delete" | "http.head" => {
            connector::operation(c, item, steps)
        }
        name => Err(format!("the mediator `{name}` has no counterpart")),
    }
}
