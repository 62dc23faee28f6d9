//! Where a route ends, as the pipeline sees it.

use fault::Fault;
use kit::LocalBoxFuture;
use message::{Reply, Request};
use serde_json::Value;

use crate::Exchange;

/// Answers the requests of a route once they have passed its policies. Built by `compile` and shared by all workers.
pub trait Answerer: Send + Sync {
    /// Answers, or says what has to be waited for. The request is the answerer's; what is left of it means nothing afterwards.
    fn answer<'a>(&'a self, ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a>;

    /// What it is and what becomes of a request on the way there, for `explain`. `parameters` are the names of the route's path
    /// parameters.
    fn explained(&self, parameters: &[&str]) -> Explained;

    /// The same as JSON, for the admin API. It holds no secret.
    fn view(&self) -> Value;
}

/// A reply that is there, or the wait for it.
pub enum Answer<'a> {
    Ready(Result<Reply, Fault>),
    Wait(LocalBoxFuture<'a, Result<Reply, Fault>>),
}

/// A destination in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explained {
    /// What it is.
    pub what: String,
    /// What else is to be said of requests that go there.
    pub how: Vec<String>,
}
