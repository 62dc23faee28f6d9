//! `xpath_route`: the upstream chosen by what stands in the message.
//!
//! Owns the order of the cases and the budget of looking. Expressions come compiled; an exchange that no case fits goes
//! where the route says.

use std::sync::Arc;

use kit::LocalBoxFuture;
use message::{Gathered, RequestHead};
use policy::{Exchange, Flow, OnWhole, Onward, Policy, Step};
use xpath::{Budget, ErrorKind, Evaluation, Expr, Limits, NoHost, World};

use crate::soap::{self, Failed};

/// Nodes looked at for one message, all cases together.
// As many as a message of the largest size may have, and a few times over.
const STEPS_MAX: u64 = 5_000_000;

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

/// What the policy does.
pub struct Settings {
    pub cases: Vec<Case>,
    pub verbose: bool,
    pub bytes_max: usize,
}

/// The policy.
pub fn policy(settings: Settings) -> Policy {
    let step: Box<dyn OnWhole<RequestHead>> = Box::new(settings);
    Policy { name: "xpath_route", request: Some(Step::Whole(step)), response: None }
}

impl Settings {
    fn fitting(&self, message: &[u8]) -> Result<Option<&Case>, Failed> {
        let document = xml::Document::parse(message, &xml::Options::default())
            .map_err(|error| Failed::client(soap::malformed(&error, message)))?;
        let world = World::new(Arc::new(document));
        let mut budget = Budget::new(Limits { steps_max: STEPS_MAX, ..Limits::default() });
        for case in &self.cases {
            let mut host = NoHost;
            let mut evaluation = Evaluation::of(&world, world.root(), &mut host, &mut budget);
            let fits = match case.expression.first(&mut evaluation) {
                Ok(node) => node.is_some_and(|node| world.string_value(node) == case.equals),
                Err(error) if matches!(error.kind, ErrorKind::Type(_)) => {
                    let text = case.expression.text(&mut evaluation);
                    text.map_err(|error| Failed::server(error.to_string()))? == case.equals
                }
                Err(error) => return Err(Failed::server(error.to_string())),
            };
            if fits {
                return Ok(Some(case));
            }
        }
        Ok(None)
    }
}

impl OnWhole<RequestHead> for Settings {
    fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn on_whole<'a>(
        &'a self,
        ex: &'a mut Exchange,
        _head: &'a mut RequestHead,
        body: &'a mut Gathered,
    ) -> LocalBoxFuture<'a, Flow> {
        let flow = match self.fitting(&body.bytes) {
            Ok(fitting) => {
                if let Some(case) = fitting {
                    let notes = ex.notes();
                    notes.divert = Some(case.diversion);
                    notes.target.clone_from(&case.target);
                }
                Ok(Onward::Next)
            }
            Err(failed) => Err(soap::refused_request(STEP, failed, self.verbose)),
        };
        Box::pin(std::future::ready(flow))
    }
}
