//! The request's side: which operation it is, and whether it may be.

use std::sync::Arc;

use bytes::Bytes;
use fault::{Fault, Kind};
use message::{Body, Gathered, Reply, RequestHead};
use policy::{Decision, Exchange, Flow, OnBuffered, OnHead, Onward, Slot};

use super::body::{self, Checked};
use super::model::{Operation, PathItem};
use super::path::{Paths, Values};
use super::{ERRORS_MAX, Settings, parameter};

/// What both sides share.
pub(super) struct Checks {
    pub(super) settings: Settings,
    paths: Paths,
    /// For each path what `Allow` says.
    allowed: Vec<String>,
    /// Which operation a request is, for its reply.
    pub(super) slot: Slot<OperationAt>,
}

/// The indices of an operation's path and method.
pub(super) type OperationAt = (usize, usize);

/// The request step.
pub(super) struct Step(pub(super) Arc<Checks>);

enum Found<'a> {
    Operation(OperationAt, &'a Operation, Values<'a>),
    /// Asked what there is.
    Options(&'a str),
    OtherMethod(&'a str),
    Nothing,
}

impl OnHead<RequestHead> for Step {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        self.0.check(ex, head, None)
    }
}

impl OnBuffered<RequestHead> for Step {
    fn bytes_max(&self) -> usize {
        self.0.settings.body_bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut Gathered,
    ) -> Decision<'a> {
        let flow = self.0.check(ex, head, Some(&body.bytes));
        Decision::Ready(flow)
    }
}

impl Checks {
    pub(super) fn new(settings: Settings, slot: Slot<OperationAt>) -> Checks {
        let allowed = settings.paths.iter().map(allow).collect();
        Checks { paths: Paths::new(&settings.paths), allowed, slot, settings }
    }

    fn check(&self, ex: &mut Exchange, head: &mut RequestHead, body: Option<&Bytes>) -> Flow {
        let at = match self.find(head) {
            Found::Operation(at, operation, values) => {
                if self.settings.request {
                    self.hold(operation, head, &values, body)?;
                }
                at
            }
            _ if !self.settings.refuses => return Ok(Onward::Next),
            Found::Options(allow) => return Ok(Onward::Turn(options(allow))),
            Found::OtherMethod(allow) => {
                let cause = format!("{} is no method of this path", shown(head.method()));
                return Err(Fault::new(Kind::MethodNotAllowed, cause).with_header("Allow", allow));
            }
            Found::Nothing => {
                let path = shown(head.path());
                return Err(Fault::new(Kind::NoRoute, format!("the document has no path {path}")));
            }
        };
        if self.settings.response {
            self.slot.put(ex, at);
            // A compressed reply could not be read.
            head.headers.remove("accept-encoding");
        }
        Ok(Onward::Next)
    }

    pub(super) fn operation(&self, at: OperationAt) -> Option<&Operation> {
        self.settings.paths.get(at.0)?.operations.get(at.1)
    }

    fn find<'a>(&'a self, head: &'a RequestHead) -> Found<'a> {
        let base = self.settings.base_path.as_bytes();
        let path = match head.path().strip_prefix(base) {
            Some(b"") => &b"/"[..],
            Some(path) => path,
            None => return Found::Nothing,
        };
        let Some((at, values)) = self.paths.find(&self.settings.paths, path) else {
            return Found::Nothing;
        };
        let operations = self.settings.paths.get(at).map(|item| &item.operations[..]);
        let named = |method: &[u8]| {
            let mut operations = operations.unwrap_or_default().iter();
            operations.position(|operation| operation.method.as_bytes() == method)
        };
        let head_as_get = || (head.method() == b"HEAD").then(|| named(b"GET")).flatten();
        let index = named(head.method()).or_else(head_as_get);
        match index.and_then(|index| Some((index, operations?.get(index)?))) {
            Some((index, operation)) => Found::Operation((at, index), operation, values),
            None => {
                let allow = self.allowed.get(at).map(String::as_str).unwrap_or_default();
                match head.method() {
                    b"OPTIONS" => Found::Options(allow),
                    _ => Found::OtherMethod(allow),
                }
            }
        }
    }

    /// Holds a request to its operation.
    fn hold(
        &self,
        operation: &Operation,
        head: &RequestHead,
        values: &Values<'_>,
        bytes: Option<&Bytes>,
    ) -> Result<(), Fault> {
        let max = if self.settings.verbose { ERRORS_MAX } else { 1 };
        let mut faults = parameter::faults(operation, head, values, max);
        let bytes = bytes.map(|bytes| &bytes[..]).unwrap_or_default();
        match &operation.body {
            Some(body) if bytes.is_empty() && body.required => {
                faults.push("/: a body is required".to_owned());
            }
            Some(_) if bytes.is_empty() => {}
            Some(body) => match body::check(&body.content, &head.headers, bytes, true, max) {
                Checked::Good => {}
                Checked::OtherType(other) => return Err(self.other_type(&other)),
                Checked::Wrong(wrong) => faults.extend(wrong),
            },
            None => {}
        }
        let Some(first) = faults.first() else { return Ok(()) };
        let fault = Fault::new(Kind::RequestInvalid, first.escape_debug().to_string());
        Err(self.told(fault, faults))
    }

    fn other_type(&self, other: &str) -> Fault {
        let other = other.escape_debug();
        let fault = Fault::new(Kind::MediaTypeUnsupported, format!("content type `{other}`"));
        self.told(fault, vec![format!("/: the content type `{other}` is not described")])
    }

    /// Tells the client what is wrong, if it may know.
    pub(super) fn told(&self, fault: Fault, faults: Vec<String>) -> Fault {
        match self.settings.verbose {
            true => fault.with_errors(
                faults.into_iter().take(ERRORS_MAX).map(String::into_boxed_str).collect(),
            ),
            false => fault,
        }
    }
}

/// The methods of a path, as `Allow` lists them.
fn allow(item: &PathItem) -> String {
    let mut methods: Vec<&str> = item.operations.iter().map(|op| op.method.as_str()).collect();
    if methods.contains(&"GET") && !methods.contains(&"HEAD") {
        methods.push("HEAD");
    }
    if !methods.contains(&"OPTIONS") {
        methods.push("OPTIONS");
    }
    methods.join(", ")
}

fn options(allow: &str) -> Reply {
    let mut reply = Reply::new(204, Body::Empty);
    // Methods were read as tokens.
    reply.head.headers.add_known("Allow", allow.as_bytes());
    reply
}

/// Bytes of a peer, harmless in a log line and bounded.
fn shown(bytes: &[u8]) -> String {
    bytes.iter().take(256).flat_map(|b| b.escape_ascii()).map(char::from).collect()
}
