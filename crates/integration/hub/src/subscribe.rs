//! Parsing of subscribers' requests (W3C WebSub, 5.1): which topic, which callback, for how long.

use std::time::Duration;

use fault::{Fault, Kind};
use message::{Headers, RequestHead, media_type};
use upstream::CalledUrl;

use crate::callback::Callback;

/// The request of a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubscriptionRequest {
    pub(crate) mode: Mode,
    /// The topic as written: a name or a URL.
    pub(crate) topic: String,
    pub(crate) callback: Callback,
    pub(crate) secret: Option<String>,
    /// The requested lease.
    pub(crate) lease: Option<Duration>,
    /// The encoding of the parameters, which decides the status of the answer.
    pub(crate) form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Subscribe,
    Unsubscribe,
}

/// The place of the parameters in the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Body,
    Query,
}

/// A secret must be shorter than 200 bytes (W3C WebSub, 5.1).
const SECRET_BYTES_MAX: usize = 199;

/// The longest topic. It is stored with the subscription, and sent in each request to verify the intent.
const TOPIC_BYTES_MAX: usize = 2048;

/// The longest number of seconds, including leading zeros.
const LEASE_BYTES_MAX: usize = 64;

/// The longest value of a parameter that has no limit of its own.
const OTHER_BYTES_MAX: usize = 8192;
/// The longest name of a parameter.
const NAME_BYTES_MAX: usize = 256;

/// The longest URL of the hub as subscribers see it. It is stored with the subscription, and sent with each event.
const BASE_BYTES_MAX: usize = 2048;

/// The longest form. Valid parameters are much shorter.
pub(crate) const FORM_BYTES_MAX: usize = 64 * 1024;

impl Form {
    pub(crate) fn status(self) -> u16 {
        match self {
            Form::Body => 202,
            Form::Query => 200,
        }
    }
}

/// The parameters of the protocol in a subscriber's request.
#[derive(Debug, Default)]
struct Parameters {
    mode: Option<String>,
    topic: Option<String>,
    callback: Option<String>,
    secret: Option<String>,
    lease: Option<String>,
}

/// True if the body is a form.
pub(crate) fn is_form(headers: &Headers) -> bool {
    let content_type = headers.get("content-type").unwrap_or(b"");
    media_type(content_type).eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}

/// Reads a request to the hub at `base`, whose events are published at `publish` below it. `topic_of` finds the topic for a name
/// or URL.
pub(crate) fn read<T>(
    head: &RequestHead,
    form: Option<&[u8]>,
    base: &str,
    publish: &str,
    topic_of: impl FnOnce(&str) -> Result<T, Fault>,
) -> Result<(SubscriptionRequest, T), Fault> {
    let (parameters, form) = match Parameters::of(form.unwrap_or(b""))? {
        Some(parameters) => (parameters, Form::Body),
        None => {
            let query = Parameters::of(head.query().unwrap_or(b""))?;
            // Harmless: without parameters the mode is missing, which is refused.
            (query.unwrap_or_default(), Form::Query)
        }
    };
    let mode = match parameters.mode.as_deref() {
        Some("subscribe") => Mode::Subscribe,
        Some("unsubscribe") => Mode::Unsubscribe,
        // PubSubHubbub, 7.1: the hub fetches the topic. Here publishers send their events.
        Some("publish") => {
            return Err(wrong(&format!(
                "`hub.mode=publish` is not supported: this hub does not fetch topics. Send each event as the body of a POST to `{publish}?topic=NAME` below the hub."
            )));
        }
        Some(_) => return Err(wrong("`hub.mode` is neither `subscribe` nor `unsubscribe`.")),
        None => return Err(wrong("`hub.mode` is missing.")),
    };
    if base.len() > BASE_BYTES_MAX {
        return Err(wrong("The URL of the hub is too long."));
    }
    let topic = parameters.topic.filter(|topic| !topic.is_empty());
    let topic = topic.ok_or_else(|| wrong("`hub.topic` is missing.").with_status(422))?;
    let found = topic_of(&topic)?;
    let callback = parameters.callback.as_deref().unwrap_or("");
    let callback = Callback::parse(callback).map_err(|why| wrong(&why))?;
    let secret = parameters.secret.filter(|secret| !secret.is_empty());
    let lease = parameters.lease.as_deref().map(lease).transpose()?;
    Ok((SubscriptionRequest { mode, topic, callback, secret, lease, form }, found))
}

/// The fault for a topic that the hub does not have.
pub(crate) fn unknown_topic() -> Fault {
    Fault::new(Kind::TopicUnknown, "no such topic")
}

pub(crate) fn wrong(what: &str) -> Fault {
    Fault::with_detail(Kind::HubRequestInvalid, what, what)
}

/// Parses a lease in seconds. A number that is too large for an integer gives the largest one.
fn lease(text: &str) -> Result<Duration, Fault> {
    match kit::digits::saturating(text.as_bytes()) {
        Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        Some(_) | None => Err(wrong("`hub.lease_seconds` must be a positive number.")),
    }
}

/// The lease that is granted: the requested one or the default, up to the longest.
pub(crate) fn given(asked: Option<Duration>, default: Duration, max: Duration) -> Duration {
    asked.unwrap_or(default).min(max)
}

impl Parameters {
    /// Parses the parameters of a form or query. Returns `None` if no parameter belongs to the protocol.
    fn of(text: &[u8]) -> Result<Option<Parameters>, Fault> {
        let mut parameters = Parameters::default();
        let mut found = false;
        for (name, value) in kit::percent::raw_pairs(text) {
            if name.len() > NAME_BYTES_MAX {
                let what =
                    format!("The name of a parameter is longer than {NAME_BYTES_MAX} bytes.");
                return Err(wrong(&what));
            }
            let name = kit::percent::decoded(name, true);
            let value = kit::percent::decoded(value, true);
            let (place, max) = match &*name {
                b"hub.mode" => (Some(&mut parameters.mode), OTHER_BYTES_MAX),
                b"hub.topic" => (Some(&mut parameters.topic), TOPIC_BYTES_MAX),
                b"hub.callback" => (Some(&mut parameters.callback), CalledUrl::BYTES_MAX),
                b"hub.secret" => (Some(&mut parameters.secret), SECRET_BYTES_MAX),
                b"hub.lease_seconds" => (Some(&mut parameters.lease), LEASE_BYTES_MAX),
                _ => (None, OTHER_BYTES_MAX),
            };
            let refused = |what: &str| {
                // Harmless: the text only tells the client which parameter is wrong.
                let name = String::from_utf8_lossy(&name).escape_debug().to_string();
                wrong(&format!("`{name}` {what}."))
            };
            if value.len() > max {
                return Err(refused(&format!("has over {max} bytes")));
            }
            let Some(place) = place else { continue };
            found = true;
            let value =
                String::from_utf8(value.into_owned()).map_err(|_| refused("is not UTF-8"))?;
            if place.replace(value).is_some() {
                return Err(refused("is given twice"));
            }
        }
        Ok(found.then_some(parameters))
    }
}

#[cfg(test)]
mod tests {
    use message::Protocol;

    use super::*;

    fn ask(query: &str, form: Option<&str>) -> Result<SubscriptionRequest, (u16, String)> {
        let head = RequestHead::new(Protocol::Http11, b"POST", format!("/news{query}").as_bytes());
        let topic = |text: &str| (text == "sports").then_some(()).ok_or_else(unknown_topic);
        let read = read(&head, form.map(str::as_bytes), "http://hub/news", "/publish", topic);
        read.map(|(asked, ())| asked).map_err(|fault| {
            let status = fault.more.and_then(|more| more.status);
            (status.unwrap_or(fault.kind.status()), fault.detail.unwrap_or_default().into())
        })
    }

    const GOOD: &str =
        "hub.mode=subscribe&hub.topic=sports&hub.callback=http%3A%2F%2F192.0.2.1%2Fcb%3Fa%3Dbc";

    #[test]
    fn parameters_come_in_a_form_or_in_the_query() {
        let by_form =
            ask("", Some(&format!("{GOOD}&hub.secret=s%26&hub.lease_seconds=60&x=y"))).unwrap();
        assert_eq!((by_form.form, by_form.mode), (Form::Body, Mode::Subscribe));
        assert_eq!(by_form.secret.as_deref(), Some("s&"));
        assert_eq!(by_form.lease, Some(Duration::from_secs(60)));
        let by_query = ask(&format!("?{GOOD}"), Some("a=b")).unwrap();
        assert_eq!((by_query.form.status(), by_query.lease), (200, None));
        assert_eq!(by_query.callback.to_string(), "http://192.0.2.1/cb?a=bc");
    }

    #[test]
    fn missing_and_invalid_parameters_have_their_status() {
        let topic = "hub.topic=sports";
        let callback = "hub.callback=http://192.0.2.1/";
        for (form, status) in [
            (String::new(), 400),
            ("hub.mode=".to_owned(), 400),
            (format!("hub.mode=publish&{topic}&{callback}"), 400),
            (format!("{topic}&{callback}"), 400),
            (format!("hub.mode=subscribe&{callback}"), 422),
            (format!("hub.mode=subscribe&hub.topic=&{callback}"), 422),
            (format!("hub.mode=subscribe&hub.topic=chess&{callback}"), 404),
            (format!("hub.mode=subscribe&{topic}"), 400),
            (format!("hub.mode=subscribe&{topic}&hub.callback=ftp://a/"), 400),
            (format!("hub.mode=subscribe&hub.mode=unsubscribe&{topic}&{callback}"), 400),
            (format!("hub.mode=subscribe&{topic}&{callback}&hub.secret={}", "x".repeat(200)), 400),
            (format!("hub.mode=subscribe&{topic}&{callback}&hub.secret=%ff"), 400),
        ] {
            assert_eq!(ask("", Some(&form)).map_err(|(status, _)| status), Err(status), "{form}");
        }
    }

    #[test]
    fn a_parameter_that_is_too_long_or_repeated_is_named() {
        for (name, max) in [
            ("hub.topic", TOPIC_BYTES_MAX),
            ("hub.callback", CalledUrl::BYTES_MAX),
            ("hub.secret", SECRET_BYTES_MAX),
            ("hub.lease_seconds", LEASE_BYTES_MAX),
            ("hub.mode", OTHER_BYTES_MAX),
            ("x", OTHER_BYTES_MAX),
        ] {
            let more = format!("{name}={}&hub.x=", "1".repeat(max + 1));
            let (status, detail) = ask("", Some(&more)).unwrap_err();
            assert_eq!((status, detail), (400, format!("`{name}` has over {max} bytes.")));
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert!(ask("", Some(&format!("{GOOD}&{long}=1"))).unwrap_err().1.contains("name"));
        let twice = ask("", Some(&format!("{GOOD}&hub.topic=x"))).unwrap_err().1;
        assert_eq!(twice, "`hub.topic` is given twice.");
        assert_eq!(
            ask("", Some("hub.secret=%ff&hub.mode=")).unwrap_err().1,
            "`hub.secret` is not UTF-8."
        );
        let publish = ask("", Some("hub.mode=publish&hub.url=http://a/")).unwrap_err().1;
        assert!(publish.contains("/publish?topic=NAME"), "{publish}");
    }

    #[test]
    fn leases_are_whole_seconds_within_the_longest() {
        for (text, seconds) in [
            ("1", Some(1)),
            ("060", Some(60)),
            ("99999999999999999999999999", Some(u64::MAX)),
            ("0", None),
            ("000", None),
            ("-1", None),
            ("%2B1", None),
            ("1.5", None),
            ("1e3", None),
            ("", None),
            ("ten", None),
            ("1%20", None),
        ] {
            let asked = ask("", Some(&format!("{GOOD}&hub.lease_seconds={text}")));
            assert_eq!(
                asked.ok().and_then(|asked| asked.lease).map(|l| l.as_secs()),
                seconds,
                "{text}"
            );
        }
        let (default, max) = (Duration::from_secs(100), Duration::from_secs(300));
        for (asked, lease) in [(None, 100), (Some(1), 1), (Some(300), 300), (Some(u64::MAX), 300)] {
            assert_eq!(given(asked.map(Duration::from_secs), default, max).as_secs(), lease);
        }
    }
}
