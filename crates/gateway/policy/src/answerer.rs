//! The interface of a route's destination, which the pipeline calls.

use fault::Fault;
use kit::LocalBoxFuture;
use message::{Reply, Request};
use serde_json::Value;

use crate::Exchange;

/// Answers the requests of a route once they have passed its policies. Built by `compile` and shared by all workers.
pub trait Answerer: Send + Sync {
    /// Answers at once, or returns a future to wait for. The answerer may consume the request; afterwards its content is unspecified.
    fn answer<'a>(&'a self, ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a>;

    /// Describes the destination, and the changes to a request on the way there, for `explain`. `parameters` are the names of the route's
    /// path parameters.
    fn explained(&self, parameters: &[&str]) -> Explanation;

    /// Like `explained`, as JSON for the admin API. It contains no secrets.
    fn view(&self) -> Value;
}

/// A reply, or a future that resolves to it.
pub enum Answer<'a> {
    Ready(Result<Reply, Fault>),
    Wait(LocalBoxFuture<'a, Result<Reply, Fault>>),
}

/// A description of a destination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The destination's name.
    pub what: String,
    /// Further facts about requests sent there, one per item.
    pub how: Vec<String>,
}
