//! The destination of a route, as the pipeline sees it.

use fault::Fault;
use kit::LocalBoxFuture;
use message::{Reply, Request};
use serde_json::Value;

use crate::Exchange;

/// Answers the requests of a route once they have passed its policies. Built by `compile` and shared by all workers.
pub trait Answerer: Send + Sync {
    /// Answers at once, or returns a future to wait for. The answerer may consume the request; afterwards its content means
    /// nothing.
    fn answer<'a>(&'a self, ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a>;

    /// The destination in words, and the changes to a request on the way there, for `explain`. `parameters` are the names of
    /// the route's path parameters.
    fn explained(&self, parameters: &[&str]) -> Explanation;

    /// The same as JSON, for the admin API. It holds no secret.
    fn view(&self) -> Value;
}

/// A reply that is ready, or a wait for it.
pub enum Answer<'a> {
    Ready(Result<Reply, Fault>),
    Wait(LocalBoxFuture<'a, Result<Reply, Fault>>),
}

/// A destination in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The destination's name.
    pub what: String,
    /// Further facts about requests that go there, one each.
    pub how: Vec<String>,
}
