//! Validation of messages against an OpenAPI document.
//!
//! Finds the operation for a method and a path, and validates parameters and bodies. Another crate parses the document and hands over its
//! operations with compiled schemas.

mod body;
mod encoded;
mod model;
mod parameter;
mod path;
mod text;

use message::{GatheredBody, Headers};

use body::BodyCheck;
use path::Paths;

pub use model::{
    Content, Field, Form, MediaRange, Object, Operation, Parameter, ParameterLocation, PathItem,
    Reply, SegmentPiece,
};
pub use model::{ParameterTypes, RequestBody, Statuses, Style, Types};
pub use path::Values;

/// The operations of a document.
pub struct Operations {
    /// The path prefix of all paths of the document, without a trailing slash.
    base_path: String,
    items: Vec<PathItem>,
    paths: Paths,
    /// The value of `Allow` for each path.
    allowed: Vec<String>,
}

/// The indices of an operation's path and method.
pub type OperationAt = (usize, usize);

/// The result of a search by method and path.
pub enum OperationMatch<'a> {
    Operation(OperationAt, &'a Operation, Values<'a>),
    /// The request is OPTIONS, for which the path has no operation. The value of `Allow`.
    Options(&'a str),
    /// The path has no operation for the method. The value of `Allow`.
    OtherMethod(&'a str),
    Nothing,
}

/// The refusal of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenApiRejection {
    /// The content type or the coding is not described in the document.
    OtherType(String),
    /// The faults, at least one, each with its location.
    Wrong(Vec<String>),
}

impl Operations {
    pub fn new(base_path: String, items: Vec<PathItem>) -> Operations {
        let allowed = items.iter().map(allow).collect();
        Operations { base_path, paths: Paths::new(&items), items, allowed }
    }

    /// Returns the operation at these indices.
    pub fn get(&self, at: OperationAt) -> Option<&Operation> {
        self.items.get(at.0)?.operations.get(at.1)
    }

    /// Returns the index of a path of the document.
    pub fn index_of(&self, template: &str) -> Option<usize> {
        self.items.iter().position(|item| *item.template == *template)
    }

    /// Returns true if any operation describes the body of a request. With `only`, looks only at the path with that index.
    pub fn have_bodies(&self, only: Option<usize>) -> bool {
        let items = self.items.iter().enumerate();
        let items = items.filter(|(at, _)| only.is_none_or(|only| only == *at));
        items.flat_map(|(_, item)| &item.operations).any(|operation| operation.body.is_some())
    }

    /// Finds the operation for a method and a target, and the values of its path parameters. If there is no operation for HEAD, the one for
    /// GET serves it. With `only`, matches only the path with that index.
    pub fn find<'a>(
        &'a self,
        method: &[u8],
        path: &'a [u8],
        query: &[u8],
        only: Option<usize>,
    ) -> OperationMatch<'a> {
        let path = match path.strip_prefix(self.base_path.as_bytes()) {
            Some(b"") => &b"/"[..],
            Some(path) => path,
            None => return OperationMatch::Nothing,
        };
        let found = match only {
            Some(at) => path::one(&self.items, at, path, query),
            None => self.paths.find(&self.items, path, query),
        };
        let Some((at, values)) = found else { return OperationMatch::Nothing };
        let operations = self.items.get(at).map(|item| &item.operations[..]);
        let named = |method: &[u8]| {
            let mut operations = operations.unwrap_or(&[]).iter();
            operations.position(|operation| operation.method.as_bytes() == method)
        };
        let head_as_get = || (method == b"HEAD").then(|| named(b"GET")).flatten();
        let index = named(method).or_else(head_as_get);
        match index.and_then(|index| Some((index, operations?.get(index)?))) {
            Some((index, operation)) => OperationMatch::Operation((at, index), operation, values),
            None => {
                let allow = self.allowed.get(at).map_or("", String::as_str);
                match method {
                    b"OPTIONS" => OperationMatch::Options(allow),
                    _ => OperationMatch::OtherMethod(allow),
                }
            }
        }
    }
}

impl Operation {
    /// Returns true if the body of the request has to be read for its validation.
    pub fn reads_request(&self, headers: &Headers) -> bool {
        let Some(described) = &self.body else { return false };
        let is_there = || headers.get("content-length").is_some_and(|length| length != b"0");
        body::is_read(&described.content, headers) || (described.required && !is_there())
    }

    /// Validates the parameters and the body of a request. Reports at most `max` faults of each. `cut` holds header lines that earlier
    /// policies removed. `body` is `None` if the body does not have to be read.
    pub fn check_request(
        &self,
        values: &Values<'_>,
        query: &[u8],
        headers: &Headers,
        cut: Option<&Headers>,
        body: Option<&mut GatheredBody>,
        max: usize,
    ) -> Result<(), OpenApiRejection> {
        let mut wrong = parameter::faults(self, values, query, headers, cut, max);
        match (&self.body, body) {
            (Some(described), Some(body)) if body.bytes.is_empty() && described.required => {
                wrong.push("/: a body is required".to_owned());
            }
            (Some(described), Some(body)) if !body.bytes.is_empty() => {
                match body::check(&described.content, headers, body, true, max) {
                    BodyCheck::Good => {}
                    BodyCheck::OtherType(other) => return Err(OpenApiRejection::OtherType(other)),
                    BodyCheck::Wrong(more) => wrong.extend(more),
                }
            }
            // Harmless: no body is described, the body does not have to be read, or there is none and none is required.
            _ => {}
        }
        if wrong.is_empty() { Ok(()) } else { Err(OpenApiRejection::Wrong(wrong)) }
    }

    /// Returns true if the body of the response has to be read for its validation. `has_none` is true if the response cannot have a body,
    /// as after HEAD.
    pub fn reads_response(&self, status: u16, has_none: bool, headers: &Headers) -> bool {
        let reply = self.reply(status).filter(|reply| !has_none && !reply.content.is_empty());
        reply.is_some_and(|reply| body::is_read(&reply.content, headers))
    }

    /// Returns the description of responses with this status. A status that is not described has no schema to violate.
    fn reply(&self, status: u16) -> Option<&Reply> {
        let described = self.replies.iter().map(|reply| (reply.statuses.fits(status), reply));
        let best = described.filter(|(fits, _)| *fits > 0).max_by_key(|(fits, _)| *fits);
        best.map(|(_, reply)| reply)
    }

    /// Validates a response by its status. `has_none` is true if the response cannot have a body, as after HEAD. `body` is `None` if the
    /// body does not have to be read. The error lists faults as [`OpenApiRejection::Wrong`] does.
    pub fn check_response(
        &self,
        status: u16,
        has_none: bool,
        headers: &Headers,
        body: Option<&mut GatheredBody>,
        max: usize,
    ) -> Result<(), Vec<String>> {
        let Some(reply) = self.reply(status) else { return Ok(()) };
        let mut wrong = Vec::new();
        for header in &reply.headers {
            let found = parameter::header(&header.field, headers, None);
            parameter::check(header, found, max, &mut wrong);
        }
        let described = body.filter(|_| !has_none && !reply.content.is_empty());
        match described {
            Some(body) if body.bytes.is_empty() && !headers.contains("content-type") => {
                wrong.push("/: there is no body".to_owned());
            }
            Some(body) => match body::check(&reply.content, headers, body, false, max) {
                BodyCheck::Good => {}
                BodyCheck::OtherType(other) => wrong.push(other),
                BodyCheck::Wrong(more) => wrong.extend(more),
            },
            None => {}
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

/// Returns the methods of a path as a value of `Allow`.
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
