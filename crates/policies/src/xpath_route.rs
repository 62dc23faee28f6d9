//! `xpath_route`: the upstream chosen by what stands in the message.
//!
//! Owns where a message of a case goes; an exchange that no case fits goes where the route says. Which case a message fits is
//! [`mediation::xpath_search`]'s.

use mediation::xpath_search::{self, Cases};
use message::{GatheredBody, RequestHead};
use policy::{Decision, Exchange, OnBuffered, Onward, Policy};
use xpath::Expr;

use crate::attachments::{RootUse, RootedStep, rooted};
use crate::reply_coding::Codings;
use crate::xml_fault;

/// The step in faults.
const STEP: &str = "Request - XPath routing failed";

/// One case: where a message goes whose value is this.
pub struct Case {
    pub expression: Expr,
    pub equals: String,
    /// Index among the route's diversions.
    pub diversion: usize,
    /// The path and query the upstream is to see, where the case says so.
    pub target: Option<Box<[u8]>>,
}

/// Settings of the policy.
pub struct XpathRouteSettings {
    pub cases: Vec<Case>,
    pub verbose: bool,
    pub bytes_max: usize,
    /// Of messages with attachments it sees the root part.
    pub attachments: bool,
}

/// The policy.
pub fn policy(settings: XpathRouteSettings) -> Policy {
    let XpathRouteSettings { cases, verbose, bytes_max, attachments } = settings;
    let cases = cases.into_iter().map(|case| {
        let Case { expression, equals, diversion, target } = case;
        (xpath_search::Case { expression, equals }, CaseRoute { diversion, target })
    });
    let (cases, ways): (Vec<_>, Vec<_>) = cases.unzip();
    let routing = RoutingStep { cases: Cases::new(cases), ways, verbose, bytes_max };
    let codings = Codings { gzip_only: false, topmost: false, bytes_max };
    let of = RootedStep { root: RootUse::Edits, step: STEP, verbose, codings };
    let request = Some(rooted(routing, attachments.then_some(of)));
    Policy { name: "xpath_route", request, response: None }
}

struct RoutingStep {
    cases: Cases,
    /// For each case.
    ways: Vec<CaseRoute>,
    verbose: bool,
    bytes_max: usize,
}

/// The way of messages of a case; see [`Case`].
struct CaseRoute {
    diversion: usize,
    target: Option<Box<[u8]>>,
}

impl OnBuffered<RequestHead> for RoutingStep {
    fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let flow = match self.cases.first(head.headers.get("content-type"), body) {
            Ok(first) => {
                if let Some(way) = first.and_then(|first| self.ways.get(first)) {
                    let notes = ex.notes();
                    notes.divert = Some(way.diversion);
                    notes.target.clone_from(&way.target);
                }
                Ok(Onward::Next)
            }
            Err(failed) => Err(xml_fault::refused_request(STEP, failed, self.verbose)),
        };
        Decision::Ready(flow)
    }
}
