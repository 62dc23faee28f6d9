//! `call`: sends the message to an upstream and replaces it by the reply.

use std::borrow::Cow;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use expression::{Expression, Template};
use fault::{Fault, Kind};
use kit::clock::{self, Instant};
use kit::percent;
use message::{Body, Protocol, Reply, Request, RequestHead};
use policy::Fetch;

use crate::levels::{ActionNeeds, Levels, deepest};
use crate::message::Message;
use crate::state::{Run, State, Variable};
use crate::step::{Action, Shape, Step, StepRun, waits};
use crate::steps::payload;
use crate::steps::query::Query;
use crate::timeout::{CALL_OVER, flow_timeout, within_from};
use crate::view::Format;

/// A call of an upstream, or of a URL that is computed per message.
pub struct Call {
    pub to: CallTo,
    /// If absent, the method is that of the request.
    pub method: Option<Method>,
    /// The path, optionally with a query. If absent, it is the path that the route forwards.
    pub path: Option<CallPath>,
    /// If absent, the query is that of the request, or none if the call has its own path.
    pub query: Option<Query>,
    pub set: Vec<(Box<str>, Template)>,
    pub remove: Vec<Box<str>>,
    /// If absent, the body is that of the message.
    pub body: Option<Expression>,
    pub timeout: Option<Duration>,
    /// The number of the variable that takes the reply.
    pub into: Option<u32>,
    /// Ranges of statuses that are faults, each as its first and last status.
    pub fault_on: Vec<(u16, u16)>,
}

/// The callee.
pub enum CallTo {
    /// An upstream, and its name.
    Upstream(Arc<dyn Fetch>, Box<str>),
    Url(Box<CallUrl>),
}

/// The URL of a call.
pub struct CallUrl {
    /// The URL up to the first slash of the path; or a value that is a whole URL, or the start of one.
    pub base: Template,
    /// True if the base starts with a scheme, so that values in it must be parts of the host.
    pub has_scheme: bool,
    /// The rest of the URL.
    pub rest: Option<Template>,
    pub find: EndpointFinder,
}

/// Finds the endpoint of a URL, or returns the fault if the URL may not be called.
pub type EndpointFinder = Arc<dyn Fn(&str) -> Result<Endpoint, Fault> + Send + Sync>;

/// The upstream of a URL.
pub struct Endpoint {
    pub to: Arc<dyn Fetch>,
    /// `https://host`.
    pub name: Box<str>,
    /// The path and the query.
    pub target: String,
}

/// The callee of one call.
struct CallWay<'c> {
    to: Cow<'c, Arc<dyn Fetch>>,
    name: Cow<'c, str>,
    /// The path and query of a URL.
    target: Option<String>,
}

impl CallTo {
    fn way(&self, run: &Run<'_>, state: &State) -> Result<CallWay<'_>, Fault> {
        let url = match self {
            CallTo::Upstream(to, name) => {
                return Ok(CallWay {
                    to: Cow::Borrowed(to),
                    name: Cow::Borrowed(name),
                    target: None,
                });
            }
            CallTo::Url(url) => url,
        };
        let mut text = run.fill(state, &url.base)?;
        let authority = text.split_once("://").map_or("", |(_, authority)| authority);
        if url.has_scheme && authority.contains(['/', '?', '#', '@', '\\']) {
            let why = "a value in the host must not contain `/`, `?`, `#`, `@` or `\\`";
            return Err(bad("url", &text, why));
        }
        if let Some(rest) = &url.rest {
            if text.contains('?') {
                return Err(bad("url", &text, "there must be no query before the path"));
            }
            // Harmless: the slash is written again with the path.
            text.truncate(text.trim_end_matches('/').len());
            text.push_str(&run.fill(state, rest)?);
        }
        let Endpoint { to, name, target } = (url.find)(&text)?;
        let target = whole_path(target)?;
        Ok(CallWay { to: Cow::Owned(to), name: Cow::Owned(name.into()), target: Some(target) })
    }

    fn templates(&self) -> Vec<&Template> {
        match self {
            CallTo::Upstream(..) => Vec::new(),
            CallTo::Url(url) => [&url.base].into_iter().chain(&url.rest).collect(),
        }
    }
}

/// The method of a call.
pub enum Method {
    Fixed(Box<str>),
    Made(Template),
}

/// The path of a call.
pub enum CallPath {
    /// Values are percent-encoded before they are inserted.
    Template(Template),
    /// The whole path is one value.
    Whole(Template),
}

impl Action for Call {
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds {
        let slots = self.templates().flat_map(Template::slots);
        let of_templates = self.templates().map(|template| levels.template(template));
        let of_body = self.body.iter().map(|body| levels.copied(body));
        ActionNeeds {
            slots: slots.chain(self.body.iter().flat_map(Expression::slots)).collect(),
            content: self.into.is_some(),
            levels: deepest(of_templates.chain(of_body)),
            uses_message: self.body.is_none().then_some(true),
            other_method: self.method.is_some(),
            ..ActionNeeds::default()
        }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        waits(move || call(self, run, state))
    }

    fn shape(&self) -> Shape<'_> {
        self.plain().map_or(Shape::Other, Shape::PlainCall)
    }
}

impl Call {
    /// The templates of its parts.
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let query = self.query.iter().flat_map(Query::templates);
        let set = self.set.iter().map(|(_, template)| template);
        let method = self.method.iter().filter_map(|method| match method {
            Method::Fixed(_) => None,
            Method::Made(template) => Some(template),
        });
        let path = self.path.iter().map(|path| match path {
            CallPath::Template(template) | CallPath::Whole(template) => template,
        });
        self.to.templates().into_iter().chain(path).chain(method).chain(query).chain(set)
    }

    /// Returns the upstream, if the call only sends the message there unchanged.
    fn plain(&self) -> Option<&str> {
        let CallTo::Upstream(_, upstream) = &self.to else { return None };
        let is_plain = self.method.is_none()
            && self.path.is_none()
            && self.query.is_none()
            && self.set.is_empty()
            && self.remove.is_empty()
            && self.body.is_none()
            && self.timeout.is_none()
            && self.into.is_none()
            && self.fault_on.is_empty();
        is_plain.then_some(upstream)
    }

    fn method<'m>(&'m self, run: &Run<'m>, state: &State) -> Result<Cow<'m, str>, Fault> {
        match &self.method {
            Some(method) => method.get(run, state),
            // Harmless: a method is ASCII.
            None => Ok(String::from_utf8_lossy(run.head.method())),
        }
    }

    /// Returns true if the call sends the message's body, or may send it.
    fn sends_message(&self, run: &Run<'_>) -> bool {
        let method = match &self.method {
            None => run.head.method(),
            Some(Method::Fixed(method)) => method.as_bytes(),
            Some(Method::Made(_)) => return self.body.is_none(),
        };
        self.body.is_none() && !message::ignores_content(method)
    }

    fn request(
        &self,
        target: Option<String>,
        run: &Run<'_>,
        state: &mut State,
    ) -> Result<Request, Fault> {
        let target = self.target(target, run, state)?;
        let method = self.method(run, state)?;
        let method = method.as_bytes();
        let mut head = RequestHead::new(Protocol::Http11, method, &target);
        let lines = &mut head.headers;
        state.add_request_lines(method, run, lines);
        let mut body = match &self.body {
            None if message::ignores_content(method) => {
                lines.remove_content_lines();
                Body::Empty
            }
            None => {
                state.message.add_lines_of_body(lines);
                state.message.body()
            }
            Some(expression) => {
                let value = run.value(state, expression)?;
                let (bytes, content_type) = payload::bytes_of(&value, run)?;
                lines.add_known("Content-Type", content_type.as_bytes());
                Body::whole(bytes)
            }
        };
        if let Some(call) = run.ex.grpc.as_ref().filter(|_| lines.contains("grpc-timeout")) {
            call.send_on(lines)?;
        }
        self.remove.iter().for_each(|name| lines.remove(name));
        for (name, template) in &self.set {
            let value = run.fill(state, template)?;
            super::header::set(lines, name, &value)?;
        }
        body.forget_view();
        if self.into.is_none() {
            // The reply replaces the message. Only a `catch` may read it again, and a fault, whose format depends on the envelope.
            state.message.forget_view(if state.keeps { run.levels } else { Some(0) });
        }
        Ok(Request { head, body })
    }

    /// Returns the request target. `own` is the path and query of the URL, if the call has a URL.
    fn target(&self, own: Option<String>, run: &Run<'_>, state: &State) -> Result<Vec<u8>, Fault> {
        let is_forwarded = self.path.is_none() && own.is_none();
        let mut target = match (own, &self.path) {
            (Some(own), _) => own.into_bytes(),
            (None, Some(CallPath::Template(path))) => run.fill(state, path)?.into_bytes(),
            (None, Some(CallPath::Whole(path))) => whole_path(run.fill(state, path)?)?.into_bytes(),
            (None, None) => run.head.path().to_vec(),
        };
        if !target.starts_with(b"/") {
            target.insert(0, b'/');
        }
        let query = match &self.query {
            Some(query) => Some(query.fill(run, state)?.into_bytes()),
            None if is_forwarded => run.head.query().map(<[u8]>::to_vec),
            None => None,
        };
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            target.push(if target.contains(&b'?') { b'&' } else { b'?' });
            target.extend_from_slice(&query);
        }
        Ok(target)
    }
}

impl Method {
    fn get<'m>(&'m self, run: &Run<'m>, state: &State) -> Result<Cow<'m, str>, Fault> {
        let template = match self {
            Method::Fixed(method) => return Ok(Cow::Borrowed(method)),
            Method::Made(template) => template,
        };
        let method = run.fill(state, template)?;
        if method.is_empty() {
            // Harmless: a method is ASCII.
            return Ok(String::from_utf8_lossy(run.head.method()));
        }
        let is_token = method.len() <= METHOD_BYTES_MAX
            && method.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        if is_token && method != "CONNECT" {
            Ok(Cow::Owned(method))
        } else {
            Err(bad("method", &method, "it must be a method such as `GET`"))
        }
    }
}

/// Checks a path that is one value, including its query if there is one.
fn whole_path(path: String) -> Result<String, Fault> {
    let refused = |why| Err(bad("path", &path, why));
    if !path.starts_with('/') {
        return refused("it must begin with `/`");
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\\\"<>".contains(&byte)) {
        return refused("it must be encoded as in a URL");
    }
    let own = path.split('?').next().unwrap_or_default();
    let own = percent::decoded(own.as_bytes(), false);
    let mut segments = own.split(|byte| matches!(byte, b'/' | b'\\'));
    let is_dots = |segment: &[u8]| {
        let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        matches!(name, b"." | b"..")
    };
    if segments.any(is_dots) { refused("it must not have dot segments") } else { Ok(path) }
}

/// Maximum length of a method. Registered methods have at most 17 bytes.
const METHOD_BYTES_MAX: usize = 64;

/// The fault of a value that is not allowed in a call.
fn bad(what: &str, value: &str, why: &str) -> Fault {
    // Harmless: the value is only shown.
    let shown: String = value.chars().take(100).collect();
    Fault::new(Kind::Template, format!("call: the {what} is `{}`: {why}", shown.escape_debug()))
}

/// Calls. The reply replaces the message, or is stored in a variable.
async fn call(call: &Call, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let mut began = run.began.take().unwrap_or_else(clock::now);
    if state.left_at(began).is_zero() {
        return Err(flow_timeout());
    }
    if state.keeps && call.sends_message(run) {
        let arrives = state.message.arrives();
        state.hold(run).await?;
        if arrives {
            began = clock::now();
        }
    }
    let CallWay { to, name, target: own } = call.to.way(run, state)?;
    let request = call.request(own, run, state)?;
    let noted = state.noted.clone().map(|noted| (noted, request.head.headers.clone()));
    // A client of gRPC gives up at its deadline, whatever the flow allows.
    let deadline = run.ex.grpc.as_ref().and_then(|call| call.deadline);
    let mut beside = run.ex.additional_call(deadline);
    let mut target = None;
    beside.target = Some(&mut target);
    if let Some(trace) = &mut beside.trace {
        trace.parent = state.span.or(trace.parent);
    }
    let left = state.left_at(began);
    let given = deadline.map(|deadline| deadline.saturating_duration_since(began));
    let limit = call.timeout.into_iter().chain(given).fold(left, Duration::min);
    let late = || {
        if given == Some(limit) {
            Fault::new(Kind::DeadlineExceeded, "the time that the client gave the call is over")
        } else if limit < left {
            Fault::new(Kind::UpstreamTimeout, format!("upstream {name}: {CALL_OVER}"))
        } else {
            flow_timeout()
        }
    };
    if limit.is_zero() {
        return Err(late());
    }
    let taken = within_from(
        began,
        limit,
        pin!(async {
            let reply = to.fetch(beside, request).await?;
            if let Some((noted, sent)) = &noted {
                noted.note(run.head, sent, &reply.head);
            }
            call.taken(&name, reply, run, began, left).await
        }),
    )
    .await
    .unwrap_or_else(|| Err(late()));
    let ended = clock::now();
    run.waited.set(ended.duration_since(began));
    run.ended.set(Some(ended));
    *run.target.borrow_mut() = target;
    let (status, message) = taken?;
    state.status = Some(status);
    let message = message?;
    match call.into {
        Some(number) => state.set(number, Variable::Reply(Rc::new(message))),
        None => state.message = message,
    }
    Ok(())
}

impl Call {
    /// The status of a reply, and the reply as a message, or the fault of a status in `fault_on`.
    async fn taken(
        &self,
        name: &str,
        reply: Reply,
        run: &Run<'_>,
        began: Instant,
        left: Duration,
    ) -> Result<(u16, Result<Message, Fault>), Fault> {
        let status = reply.head.status;
        let refused = self.refuse(name, &reply);
        // A later step may read the body, within the timeout of the call.
        let rest = |timeout: Duration| timeout.saturating_sub(clock::now().duration_since(began));
        let mut message = Message::reply(reply, self.timeout.map(rest));
        if let Err(fault) = refused {
            let fault = if is_soap_fault(&mut message, run, left).await {
                fault.with_code(SOAP_FAULT_CODE)
            } else {
                fault
            };
            return Ok((status, Err(fault)));
        }
        if self.into.is_some() {
            message.hold(run, left).await?;
        }
        Ok((status, Ok(message)))
    }

    /// The fault of a status in `fault_on`.
    fn refuse(&self, name: &str, reply: &Reply) -> Result<(), Fault> {
        let status = reply.head.status;
        if self.fault_on.iter().any(|(first, last)| (*first..=*last).contains(&status)) {
            let cause = format!("upstream {name} replied with status {status}");
            Err(Fault::new(Kind::UpstreamStatus, cause))
        } else {
            Ok(())
        }
    }
}

/// Synapse's error code for a SOAP fault of an endpoint.
const SOAP_FAULT_CODE: u32 = 500_000;

async fn is_soap_fault(message: &mut Message, run: &Run<'_>, left: Duration) -> bool {
    if Format::of(message.content_type()) != Format::Xml || message.hold(run, left).await.is_err() {
        return false;
    }
    let envelope = message.content().and_then(|content| content.envelope());
    envelope.is_some_and(|(document, envelope)| {
        let namespace = document.name(envelope.body).namespace.uri;
        document.children(envelope.body).any(|child| {
            let name = document.name(child);
            document.kind(child) == xml::Kind::Element
                && (name.local, name.namespace.uri) == ("Fault", namespace)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_from_a_message_stays_below_its_root_and_adds_nothing_to_the_request() {
        for (path, expected) in [
            ("/", true),
            ("/a/b?c=d&e=/../f", true),
            ("/a%20b", true),
            ("/a/..b/...", true),
            ("/a;v=1/b", true),
            ("", false),
            ("a", false),
            ("http://evil/", false),
            ("/a b", false),
            ("/a\r\nHost: evil", false),
            ("/a#b", false),
            ("/a\\b", false),
            ("/\u{e9}", false),
            ("/..", false),
            ("/a/../b", false),
            ("/a/./b", false),
            ("/a/%2e%2E/b", false),
            ("/a/.%2e", false),
            ("/a%2F..%2Fb", false),
            ("/a/%5c..%5cb", false),
            ("/a/..;x/b", false),
        ] {
            let checked = whole_path(path.to_owned());
            assert_eq!(checked.as_deref().ok(), expected.then_some(path), "{path:?}");
            let kind = checked.map_err(|fault| fault.kind).err();
            assert_eq!(kind, (!expected).then_some(Kind::Template), "{path:?}");
        }
    }

    #[test]
    fn a_refused_value_is_shown_in_part_and_without_control_characters() {
        let cause = bad("url", &format!("a\n{}", "x".repeat(500)), "why").cause;
        assert!(cause.starts_with("call: the url is `a\\nxxx") && cause.ends_with("`: why"));
        assert!(cause.len() < 200, "{cause}");
    }
}
