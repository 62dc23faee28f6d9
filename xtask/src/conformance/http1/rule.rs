//! The verdict on an observation: the manifest's rules, parsed once and evaluated.

use std::fmt;

use serde_json::Value;

use super::observe::{Connection, Seen};

/// The verdict on a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Allowed, but a strict server would refuse it.
    Warn,
    Fail,
}

/// A verdict, or a question whose answer leads to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Verdict(Verdict),
    /// The first case whose test holds decides. If there is none, `otherwise` decides.
    Cases {
        step: usize,
        cases: Vec<(Test, Rule)>,
        otherwise: Box<Rule>,
    },
    /// Decides by a header of the response.
    Header {
        step: usize,
        name: String,
        imf_fixdate: Option<Box<Rule>>,
        present: Box<Rule>,
        absent: Box<Rule>,
    },
    /// Decides by the form in which a header reached the upstream, which echoes headers.
    EchoedHeader {
        step: usize,
        standard: String,
        sent: String,
        value: String,
        case_sensitive: bool,
        normalized: Box<Rule>,
        preserved: Box<Rule>,
        absent: Box<Rule>,
    },
}

/// A condition on a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// Any of these: `none`, `400`, `200-299`, as inclusive ranges; `None` means no status.
    Status(Vec<Option<(u16, u16)>>),
    Connection(Vec<Connection>),
    /// Any of these numbers. 2 means two or more.
    Responses(Vec<usize>),
    BodyEquals(Vec<String>),
    /// All of these, ignoring case.
    BodyContains(Vec<String>),
    BodyEmpty(bool),
}

impl Rule {
    /// Parses a rule of the manifest. An unknown rule is an error, never a pass.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        if let Some(word) = value.as_str() {
            return verdict(word).map(Self::Verdict);
        }
        let field = text(value, "on")?;
        let step = value.get("step").and_then(Value::as_u64).unwrap_or(0);
        let step = usize::try_from(step).map_err(|error| error.to_string())?;
        match field.as_str() {
            "header" => Ok(Self::Header {
                step,
                name: text(value, "name")?,
                imf_fixdate: value.get("imf_fixdate").map(boxed).transpose()?,
                present: branch(value, "present")?,
                absent: branch(value, "absent")?,
            }),
            "echoed-header" => Ok(Self::EchoedHeader {
                step,
                standard: text(value, "standard")?,
                sent: text(value, "sent")?,
                value: text(value, "value")?,
                case_sensitive: value.get("case_sensitive").is_some_and(|on| on == true),
                normalized: branch(value, "normalized")?,
                preserved: branch(value, "preserved")?,
                absent: branch(value, "absent")?,
            }),
            field => {
                let cases = value.get("cases").and_then(Value::as_array);
                let cases = cases.ok_or_else(|| format!("a rule on {field} without cases"))?;
                let cases: Result<Vec<_>, String> = cases.iter().map(|c| case(field, c)).collect();
                Ok(Self::Cases { step, cases: cases?, otherwise: branch(value, "else")? })
            }
        }
    }

    /// Judges the observations of all steps.
    pub(crate) fn judge(&self, steps: &[Seen]) -> Verdict {
        match self {
            Self::Verdict(verdict) => *verdict,
            Self::Cases { step, cases, otherwise } => {
                let seen = steps.get(*step);
                let held = cases.iter().find(|(test, _)| seen.is_some_and(|seen| test.holds(seen)));
                held.map_or(otherwise.as_ref(), |(_, then)| then).judge(steps)
            }
            Self::Header { step, name, imf_fixdate, present, absent } => {
                let value = steps.get(*step).and_then(|seen| seen.header(name));
                match (value, imf_fixdate) {
                    (None, _) => absent.judge(steps),
                    (Some(value), Some(rule)) if is_imf_fixdate(value) => rule.judge(steps),
                    (Some(_), _) => present.judge(steps),
                }
            }
            Self::EchoedHeader {
                step,
                standard,
                sent,
                value,
                case_sensitive,
                normalized,
                preserved,
                absent,
            } => {
                let body = steps.get(*step).map_or("", |seen| seen.body.as_str());
                let echoed = |name| echoes(body, name, value, *case_sensitive);
                match (echoed(standard), echoed(sent)) {
                    (true, _) => normalized.judge(steps),
                    (false, true) => preserved.judge(steps),
                    (false, false) => absent.judge(steps),
                }
            }
        }
    }
}

impl Test {
    fn holds(&self, seen: &Seen) -> bool {
        match self {
            Self::Status(ranges) => ranges.iter().any(|range| match (range, seen.status) {
                (Some((low, high)), Some(status)) => (*low..=*high).contains(&status),
                (range, status) => range.is_none() && status.is_none(),
            }),
            Self::Connection(states) => states.contains(&seen.connection),
            Self::Responses(counts) => counts.contains(&seen.responses.min(2)),
            Self::BodyEquals(texts) => texts.contains(&seen.body),
            Self::BodyContains(texts) => {
                let body = seen.body.to_lowercase();
                texts.iter().all(|text| body.contains(&text.to_lowercase()))
            }
            Self::BodyEmpty(empty) => seen.body.is_empty() == *empty,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verdict(verdict) => write!(f, "{verdict:?}"),
            Self::Cases { step, cases, otherwise } => {
                write!(f, "(")?;
                if *step > 0 {
                    write!(f, "step {step}: ")?;
                }
                for (test, then) in cases {
                    write!(f, "{test:?} -> {then}, ")?;
                }
                write!(f, "else {otherwise})")
            }
            Self::Header { name, imf_fixdate, present, absent, .. } => {
                write!(f, "(header {name} present -> {present}, absent -> {absent}")?;
                match imf_fixdate {
                    Some(rule) => write!(f, ", a date -> {rule})"),
                    None => write!(f, ")"),
                }
            }
            Self::EchoedHeader { standard, sent, value, normalized, preserved, absent, .. } => {
                write!(f, "(upstream sees `{standard}: {value}` -> {normalized}, ")?;
                write!(f, "`{sent}: {value}` -> {preserved}, neither -> {absent})")
            }
        }
    }
}

fn case(field: &str, case: &Value) -> Result<(Test, Rule), String> {
    let then = Rule::read(case.get("then").ok_or("a case without then")?)?;
    let test = match field {
        "status" => Test::Status(each(case, "is", range)?),
        "connection" => Test::Connection(each(case, "is", connection)?),
        "responses" => Test::Responses(each(case, "is", count)?),
        "body" if case.get("equals").is_some() => {
            Test::BodyEquals(each(case, "equals", |text| Ok(text.to_owned()))?)
        }
        "body" if case.get("contains").is_some() => {
            Test::BodyContains(each(case, "contains", |text| Ok(text.to_owned()))?)
        }
        "body" => Test::BodyEmpty(
            case.get("empty").and_then(Value::as_bool).ok_or("a body case that asks nothing")?,
        ),
        other => return Err(format!("a rule on `{other}`, which is not known")),
    };
    Ok((test, then))
}

fn each<T>(
    case: &Value,
    key: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let values = case.get(key).and_then(Value::as_array).ok_or_else(|| format!("no {key}"))?;
    let texts =
        values.iter().map(|value| value.as_str().ok_or_else(|| format!("{key} of {value}")));
    texts.map(|text| read(text?)).collect()
}

fn range(text: &str) -> Result<Option<(u16, u16)>, String> {
    if text == "none" {
        return Ok(None);
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) => Ok(Some((low, high))),
        _ => Err(format!("status `{text}`")),
    }
}

fn connection(text: &str) -> Result<Connection, String> {
    match text {
        "open" => Ok(Connection::Open),
        "closed" => Ok(Connection::Closed),
        "timeout" => Ok(Connection::Timeout),
        "not-executed" => Ok(Connection::NotExecuted),
        other => Err(format!("connection `{other}`")),
    }
}

fn count(text: &str) -> Result<usize, String> {
    match text {
        "0" => Ok(0),
        "1" => Ok(1),
        "2+" => Ok(2),
        other => Err(format!("responses `{other}`")),
    }
}

fn verdict(word: &str) -> Result<Verdict, String> {
    match word {
        "pass" => Ok(Verdict::Pass),
        "warn" => Ok(Verdict::Warn),
        // `error` means that the case could not be run as intended.
        "fail" | "error" => Ok(Verdict::Fail),
        other => Err(format!("verdict `{other}`")),
    }
}

fn branch(value: &Value, key: &str) -> Result<Box<Rule>, String> {
    boxed(value.get(key).ok_or_else(|| format!("a rule without {key}"))?)
}

fn boxed(value: &Value) -> Result<Box<Rule>, String> {
    Rule::read(value).map(Box::new)
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    let text =
        value.get(key).and_then(Value::as_str).ok_or_else(|| format!("a rule without {key}"))?;
    Ok(text.to_owned())
}

/// Returns true if the upstream's echo has a line `name: value`.
fn echoes(body: &str, name: &str, value: &str, case_sensitive: bool) -> bool {
    body.lines().filter_map(|line| line.split_once(':')).any(|(other, found)| {
        let same = if case_sensitive { other == name } else { other.eq_ignore_ascii_case(name) };
        same && found.trim() == value
    })
}

/// Returns true for an IMF-fixdate, the only date format that may be sent (RFC 9110, 5.6.7).
fn is_imf_fixdate(value: &str) -> bool {
    httpdate::parse_http_date(value).is_ok_and(|date| httpdate::fmt_http_date(date) == value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(status: u16, connection: Connection, body: &str) -> Seen {
        let status = (status > 0).then_some(status);
        let responses = usize::from(status.is_some());
        Seen { status, connection, responses, headers: vec![], body: body.to_owned() }
    }

    #[track_caller]
    fn check(rule: &Value, steps: &[Seen], expected: Verdict) {
        let rule = Rule::read(rule).unwrap();
        assert_eq!(rule.judge(steps), expected, "{rule}");
    }

    #[test]
    fn statuses_and_connections() {
        let rule = json!({ "on": "status", "cases": [
            { "is": ["200-299"], "then": "warn" },
            { "is": ["none"], "then": { "on": "connection", "cases": [
                { "is": ["closed"], "then": "pass" }], "else": "fail" } },
            { "is": ["400", "505"], "then": "pass" },
        ], "else": "fail" });
        for (status, connection, verdict) in [
            (200, Connection::Open, Verdict::Warn),
            (299, Connection::Open, Verdict::Warn),
            (300, Connection::Open, Verdict::Fail),
            (400, Connection::Open, Verdict::Pass),
            (505, Connection::Closed, Verdict::Pass),
            (0, Connection::Closed, Verdict::Pass),
            (0, Connection::Timeout, Verdict::Fail),
        ] {
            check(&rule, &[seen(status, connection, "")], verdict);
        }
    }

    #[test]
    fn steps() {
        let rule = json!({ "on": "status", "step": 1, "cases": [
            { "is": ["none"], "then": "pass" }], "else": "fail" });
        let open = seen(200, Connection::Open, "");
        check(&rule, &[open.clone(), Seen::nothing(Connection::NotExecuted)], Verdict::Pass);
        check(&rule, &[open.clone(), open.clone()], Verdict::Fail);
        check(&rule, &[open], Verdict::Fail);
    }

    #[test]
    fn responses() {
        let rule = json!({ "on": "responses", "cases": [
            { "is": ["0", "1"], "then": "pass" }, { "is": ["2+"], "then": "warn" }], "else": "fail" });
        let mut one = seen(200, Connection::Open, "");
        check(&rule, std::slice::from_ref(&one), Verdict::Pass);
        one.responses = 3;
        check(&rule, &[one], Verdict::Warn);
    }

    #[test]
    fn bodies() {
        let rule = json!({ "on": "body", "cases": [
            { "equals": ["hello", "OK"], "then": "pass" },
            { "contains": ["A", "b"], "then": "warn" },
            { "empty": true, "then": "pass" },
        ], "else": "fail" });
        for (body, verdict) in [
            ("OK", Verdict::Pass),
            ("ok", Verdict::Fail),
            ("xaB", Verdict::Warn),
            ("xa", Verdict::Fail),
            ("", Verdict::Pass),
        ] {
            check(&rule, &[seen(200, Connection::Open, body)], verdict);
        }
    }

    #[test]
    fn headers() {
        let rule = json!({ "on": "header", "name": "date",
            "imf_fixdate": "pass", "present": "warn", "absent": "fail" });
        for (value, verdict) in [
            (Some("Sat, 21 Nov 2026 10:00:00 GMT"), Verdict::Pass),
            (Some("Saturday, 21-Nov-26 10:00:00 GMT"), Verdict::Warn),
            (Some("now"), Verdict::Warn),
            (None, Verdict::Fail),
        ] {
            let mut seen = seen(200, Connection::Open, "");
            seen.headers.extend(value.map(|value| ("Date".to_owned(), value.to_owned())));
            check(&rule, &[seen], verdict);
        }
    }

    #[test]
    fn echoed_headers() {
        let rule = |case_sensitive: bool| {
            json!({ "on": "echoed-header", "standard": "Content-Length", "sent": "CONTENT-LENGTH",
                "value": "99", "case_sensitive": case_sensitive,
                "normalized": "fail", "preserved": "warn", "absent": "pass" })
        };
        for (body, sensitive, verdict) in [
            ("Host: a\nContent-Length: 99", true, Verdict::Fail),
            ("CONTENT-LENGTH: 99", true, Verdict::Warn),
            ("CONTENT-LENGTH: 99", false, Verdict::Fail),
            ("Content-Length: 11", true, Verdict::Pass),
            ("", false, Verdict::Pass),
        ] {
            check(&rule(sensitive), &[seen(200, Connection::Open, body)], verdict);
        }
    }

    #[test]
    fn unknown_rules_are_refused() {
        for rule in [
            json!("maybe"),
            json!({ "on": "weather", "cases": [{ "is": ["rain"], "then": "pass" }], "else": "fail" }),
            json!({ "on": "status", "cases": [{ "is": ["4xx"], "then": "pass" }], "else": "fail" }),
            json!({ "on": "status", "cases": [{ "is": [400], "then": "pass" }], "else": "fail" }),
            json!({ "on": "status", "cases": [{ "is": ["400"] }], "else": "fail" }),
            json!({ "on": "status", "cases": [] }),
            json!({ "on": "body", "cases": [{ "then": "pass" }], "else": "fail" }),
            json!({ "on": "header", "name": "a", "present": "pass" }),
            json!({ "cases": [], "else": "fail" }),
        ] {
            assert!(Rule::read(&rule).is_err(), "{rule}");
        }
    }
}
