//! Checks that `cases` can be run. They add nothing to the plan; `tidegate test` reads them directly from the configuration.

use std::time::Duration;

use config::{
    At, Case, CaseAnswer, CaseCall, CaseExpect, CaseMessage, CaseReply, CaseRequest, Config,
    FilePath, JsonTemplate, Map, Report, Spanned,
};

use crate::{files, names, paths};

/// The maximum delay of an answer in a case. The test waits for the full delay. To test a longer timeout, shorten it in the configuration
/// of the case.
const DELAY_MAX: Duration = Duration::from_secs(60);

/// The maximum nesting depth of JSON, the same as for messages of flows.
const JSON_DEPTH_MAX: usize = 512;

/// The maximum number of values in one JSON text, far above what a test needs.
const JSON_ENTRIES_MAX: usize = 2_000_000;

/// Complains about cases that cannot be run. `upstreams` are the names of all upstreams whose calls a case may list.
pub(crate) fn check(config: &Config, upstreams: &[String], report: &mut Report) {
    for (_, case) in config.cases.iter() {
        begin(case, config, report);
        for call in &case.value.calls {
            peer(call, config, upstreams, report);
            self::call(&call.value, report);
        }
        for (queue, messages) in case.value.queues.iter().flat_map(Map::iter) {
            names::known("queue", queue, &config.queues, report);
            messages.iter().for_each(|message| expect(message, report));
        }
        reply(&case.value.reply, report);
        if let (Some(_), Some(fault)) = (&case.value.request, &case.value.reply.fault) {
            let help = "write the `status` of the reply: a request is answered even after a fault";
            report.error(fault.at, "`fault` applies only to flows of queues and schedules", help);
        }
    }
}

/// Checks that a case begins with exactly one of: a request, a message of a queue, a schedule.
fn begin(case: &Spanned<Case>, config: &Config, report: &mut Report) {
    let Case { request, message, schedule, .. } = &case.value;
    let begins = usize::from(request.is_some())
        + usize::from(message.is_some())
        + usize::from(schedule.is_some());
    if begins != 1 && case.intact {
        let help = "write one of `request`, `message` and `schedule`";
        report.error(
            case.at,
            format!("a case needs exactly one start, but this one has {begins}"),
            help,
        );
    }
    if let Some(request) = request {
        let CaseRequest { method, path, headers, body, body_file } = request;
        sent_message(method, path, headers, body.as_ref(), body_file.as_ref(), report);
    }
    if let Some(message) = message {
        let CaseMessage { queue, method, path, headers, body, body_file } = &message.value;
        names::known("queue", queue, &config.queues, report);
        sent_message(method, path, headers, body.as_ref(), body_file.as_ref(), report);
    }
    if let Some(schedule) = schedule {
        names::known("schedule", schedule, &config.schedules, report);
    }
}

fn sent_message(
    method: &Spanned<String>,
    path: &Spanned<String>,
    headers: &Map<Spanned<String>>,
    body: Option<&Spanned<String>>,
    body_file: Option<&Spanned<FilePath>>,
    report: &mut Report,
) {
    let _ = names::method(method, report);
    self::path(path, report);
    sent(headers, report);
    if let (Some(_), Some(file)) = (body, body_file) {
        report.error(file.at, "a message can have only one body", "remove `body` or `body_file`");
    }
    if let Some(file) = body_file {
        let _ = files::read_document(file, report);
    }
}

/// Checks that a call names either one upstream or one database.
fn peer(call: &Spanned<CaseCall>, config: &Config, upstreams: &[String], report: &mut Report) {
    match (&call.value.upstream, &call.value.database) {
        (Some(name), None) => {
            let is_endpoint = config.endpoints.is_some() && name.value.contains("://");
            if !upstreams.contains(&name.value) && !is_endpoint {
                let meant = report.suggest(&name.value, upstreams.iter().map(String::as_str));
                let what = names::unknown("upstream", &name.value, meant);
                report.error(name.at, what, "name one of the `upstreams`");
            }
        }
        (None, Some(name)) => names::known("database", name, &config.databases, report),
        (Some(_), Some(name)) => {
            report.error(
                name.at,
                "a call can have only one of `upstream` and `database`",
                "remove `upstream` or `database`",
            );
        }
        (None, None) if call.intact => {
            report.error(
                call.at,
                "the call has neither `upstream` nor `database`",
                "add `upstream: NAME` or `database: NAME`",
            );
        }
        (None, None) => {}
    }
}

fn call(call: &CaseCall, report: &mut Report) {
    expect(&call.expect, report);
    let CaseAnswer { headers: lines, delay, .. } = &call.reply;
    sent(lines, report);
    if delay.value > DELAY_MAX {
        let what = format!("a delay must be at most {DELAY_MAX:?}, because the test waits for it");
        report.error(
            delay.at,
            what,
            "write a shorter delay, and shorten the timeout that it must exceed",
        );
    }
}

fn expect(expect: &CaseExpect, report: &mut Report) {
    let _ = expect.method.as_ref().and_then(|method| names::method(method, report));
    expect.path.iter().for_each(|path| self::path(path, report));
    headers(&expect.headers, report);
    body(expect.body.as_ref(), expect.xml.as_ref(), expect.json.as_ref(), None, report);
}

fn reply(reply: &CaseReply, report: &mut Report) {
    headers(&reply.headers, report);
    let contains = reply.contains.0.first().map(|text| text.at);
    body(reply.body.as_ref(), reply.xml.as_ref(), reply.json.as_ref(), contains, report);
}

/// Checks that at most one key describes the expected body, and that an expected XML or JSON body can be parsed.
fn body(
    body: Option<&Spanned<String>>,
    xml: Option<&Spanned<String>>,
    json: Option<&Spanned<JsonTemplate>>,
    contains: Option<At>,
    report: &mut Report,
) {
    let ways = [body.map(|it| it.at), xml.map(|it| it.at), json.map(|it| it.at), contains];
    // Harmless: only keys that are written count, so the others are skipped.
    if let Some(second) = ways.into_iter().flatten().nth(1) {
        report.error(second, "the expected body is written in two ways", "keep one of these keys");
    }
    if let Some(xml) = xml
        && let Err(error) = xml::Document::parse(xml.value.as_bytes(), &xml::Options::default())
    {
        report.error(xml.at, format!("this is not XML: {error}"), "write one document");
    }
    if let Some(json) = json {
        let limits = json::Limits { depth_max: JSON_DEPTH_MAX, entries_max: JSON_ENTRIES_MAX };
        if let Err(error) = json::read(&json.value.0, &limits, &mut Vec::new()) {
            let what = format!("this is not JSON: at byte {}: expected {}", error.at, error.what);
            report.error(json.at, what, "write a value, or a text of JSON such as `'\"a\"'`");
        }
    }
}

fn path(path: &Spanned<String>, report: &mut Report) {
    if !paths::is_target(&path.value) {
        let what = format!("`{}` is not a valid request path", path.value.escape_debug());
        report.error(path.at, what, "write a path that begins with `/`, such as `/orders?day=1`");
    }
}

/// Checks the headers that a case sends. Framing headers are refused because they follow from the body.
fn sent(headers: &Map<Spanned<String>>, report: &mut Report) {
    for (name, value) in headers.iter() {
        let _ = names::changeable_header(&name.value, name.at, report);
        let _ = names::header_value(value, report);
    }
}

/// Checks the headers that a case expects.
fn headers(headers: &Map<Spanned<String>>, report: &mut Report) {
    for (name, value) in headers.iter() {
        let _ = names::header(&name.value, name.at, report);
        let _ = names::header_value(value, report);
    }
}
