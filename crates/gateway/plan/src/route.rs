//! Routes: the policies and the destination for a matched request.

use std::num::NonZero;
use std::sync::Arc;

use policy::Policy;
use serde_json::{Value, json};
use telemetry::{OperationMetrics, RouteMetrics, Telemetry};

use crate::{Destination, NoDestination, Streams};

/// One route. Its policies run in the order they were written on the request, and in reverse order on the reply.
///
/// The fields that each request reads come first, so that they share cache lines.
#[repr(C)]
pub struct Route {
    pub policies: Box<[Policy]>,
    /// The destination of an exchange that nothing diverts.
    pub destination: Destination,
    pub metrics: Arc<RouteMetrics>,
    pub preflights: Preflights,
    /// The form of faults for the client.
    pub errors: Errors,
    /// Whether request bodies must announce their length.
    pub length_required: bool,
    /// The shares of the diversions, if the route splits its requests.
    pub split: Option<Split>,
    /// The maximum size of a request body. Larger bodies get 413, at once if their length is announced.
    pub body_bytes_max: Option<u64>,
    pub streams: Streams,
    pub name: String,
    /// Other destinations, by index, to which a policy or the split may divert an exchange.
    pub diversions: Box<[Destination]>,
    /// The operations that policies distinguish. The last one stands for all unknown operations.
    pub operations: Box<[Operation]>,
    /// The place of each policy in the configuration, for display to operators.
    pub places: Box<[Box<str>]>,
    /// Query parameters whose values are credentials: the access log masks them.
    pub secrets: Box<[String]>,
}

/// An operation of the service behind a route.
pub struct Operation {
    pub name: Box<str>,
    pub metrics: Arc<OperationMetrics>,
}

/// How a route treats preflight requests (CORS).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preflights {
    /// Whether they reach the route by the method that they ask about, instead of `OPTIONS`.
    pub attracted: bool,
    /// The number of policies at the top of the list that answer them. The bound on the body is checked below them, so that a page can read
    /// the 413.
    pub topmost: usize,
}

/// The form of error replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Errors {
    /// RFC 9457.
    #[default]
    Problem,
    /// The JSON bodies and codes of WSO2 Choreo Connect.
    Wso2,
    /// The codes and the layout of WSO2's API Manager.
    Apim,
    /// A SOAP fault of the client's version, or RFC 9457 if the client uses JSON. If `flow` is set, faults raised by the steps of a flow
    /// have the form of [`Errors::Flow`].
    Soap { verbose: bool, flow: bool },
    /// The form of a message flow: a SOAP fault with status 500 for a SOAP message, or else RFC 9457.
    Flow,
    /// The SOAP faults and JSON bodies of Kong's SOAP/XML plugins.
    Kong { verbose: bool },
}

/// Diversions with their shares of requests.
#[derive(Debug)]
pub struct Split {
    shares: Box<[Share]>,
    /// The sum of all weights; never 0.
    total: NonZero<u32>,
}

/// One share of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The index into the route's diversions.
    pub diversion: usize,
    pub weight: u32,
}

impl Split {
    /// Creates a split. Returns `None` if the sum of all weights is 0.
    pub fn new(shares: Vec<Share>) -> Option<Split> {
        let total = shares.iter().fold(0_u32, |sum, share| sum.saturating_add(share.weight));
        Some(Split { shares: shares.into(), total: NonZero::new(total)? })
    }

    /// Returns the sum of all weights.
    pub fn total(&self) -> u32 {
        self.total.get()
    }

    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Returns the diversion for a random number below [`Split::total`].
    pub fn at(&self, number: u32) -> Option<usize> {
        let mut left = number;
        let share = self.shares.iter().find(|share| match left.checked_sub(share.weight) {
            Some(less) => {
                left = less;
                false
            }
            None => true,
        });
        share.map(|share| share.diversion)
    }
}

impl Route {
    /// Returns a route without a name, policies or a destination, for a table that is built only to find conflicts, and for tests.
    pub fn placeholder() -> Route {
        Route {
            name: String::new(),
            policies: Box::default(),
            places: Box::default(),
            preflights: Preflights::default(),
            destination: Destination::answerer(NoDestination),
            diversions: Box::default(),
            split: None,
            errors: Errors::Problem,
            secrets: Box::default(),
            body_bytes_max: None,
            length_required: false,
            streams: Streams::USUAL,
            metrics: Telemetry::new(1).route(""),
            operations: Box::default(),
        }
    }

    /// Returns the operation with this index, which may be [`policy::UNKNOWN_OPERATION`].
    pub fn operation(&self, index: u32) -> Option<&Operation> {
        // Harmless: an unknown operation is counted as the last.
        let known = usize::try_from(index).ok().and_then(|index| self.operations.get(index));
        known.or(self.operations.last())
    }

    /// Returns the destination of an exchange, by the diversion in its notes.
    pub fn destination(&self, divert: Option<usize>) -> &Destination {
        divert.and_then(|at| self.diversions.get(at)).unwrap_or(&self.destination)
    }

    /// Describes the destination of the route's requests. `parameters` are the names of the path parameters.
    pub fn explained(&self, parameters: &[&str]) -> String {
        let own = self.destination.explained(parameters);
        let what = match &self.split {
            None => own.what,
            Some(split) => {
                let shares = self.shares(split).map(|(weight, destination)| {
                    let what = destination.explained(parameters).what;
                    format!("{weight} of {} to {what}", split.total())
                });
                shares.collect::<Vec<_>>().join(", ")
            }
        };
        std::iter::once(what).chain(own.how).collect::<Vec<_>>().join(", ")
    }

    /// Like `explained`, as JSON for the admin API.
    pub fn view(&self) -> Value {
        let mut view = self.destination.view();
        if let (Some(split), Some(view)) = (&self.split, view.as_object_mut()) {
            // Harmless: each share leads to an upstream.
            let shares = self.shares(split).filter_map(|(weight, destination)| {
                Some((destination.upstream()?.to_owned(), json!(weight)))
            });
            view.insert("upstream".to_owned(), Value::Object(shares.collect()));
        }
        view
    }

    fn shares<'a>(&'a self, split: &'a Split) -> impl Iterator<Item = (u32, &'a Destination)> {
        split
            .shares()
            .iter()
            // Harmless: each share has a diversion.
            .filter_map(|share| Some((share.weight, self.diversions.get(share.diversion)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_gives_each_its_share() {
        let shares = [(4, 3), (0, 0), (2, 1)];
        let shares = shares.map(|(diversion, weight)| Share { diversion, weight });
        let split = Split::new(shares.into()).unwrap();
        let all: Vec<_> = (0..split.total()).map(|number| split.at(number)).collect();
        assert_eq!(all, [Some(4), Some(4), Some(4), Some(2)]);
        assert_eq!(split.at(4), None);
        assert!(Split::new(vec![Share { diversion: 0, weight: 0 }]).is_none());
    }
}
