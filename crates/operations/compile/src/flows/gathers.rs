//! Compiles the steps that process a message in several parts or copies: `foreach`, `split` and `scatter`. Also compiles how their results
//! are combined into one message, and checks for limits that can never be reached.

use std::time::Duration;

use config::{
    At, Between, ForeachStep, GatherComplete, GatherHead, GatherInto, Partial, ScatterStep,
    Spanned, SplitStep, Timeout,
};
use flows::{Action, Foreach, Gather, Scatter, Split, Wrapper};

use super::steps::{StepKind, StepPlace};
use super::{Compiler, Namespaces, labels};
use crate::listeners::count;

impl StepKind for ForeachStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.foreach(self, place.namespaces, place.depth)?))
    }

    fn subject(&self) -> String {
        labels::condition(&self.over.text.value)
    }
}

impl StepKind for SplitStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.split(self, place.namespaces, place.depth)?))
    }

    fn subject(&self) -> String {
        labels::condition(&self.over.text.value)
    }
}

impl StepKind for ScatterStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.scatter(self, place)?))
    }
}

impl<'a> Compiler<'a, '_> {
    fn foreach(
        &mut self,
        keys: &'a ForeachStep,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Foreach> {
        let over = self.finder(&keys.over, namespaces);
        let steps = self.inner("steps", &keys.steps, namespaces, depth);
        let (parallel, max) = self.parts(&keys.parallel, keys.max.get());
        Some(Foreach { over: over?, steps: steps?, parallel, max })
    }

    fn split(
        &mut self,
        keys: &'a SplitStep,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Split> {
        let over = self.finder(&keys.over, namespaces);
        let steps = self.inner("steps", &keys.steps, namespaces, depth);
        let gather = self.gather(&keys.gather, namespaces);
        self.check_complete_of_parts(&keys.gather, keys.max.get());
        let (parallel, max) = self.parts(&keys.parallel, keys.max.get());
        let (over, steps, gather) = (over?, steps?, gather?);
        Some(Split { over, steps, parallel, max, gather })
    }

    fn scatter(&mut self, keys: &'a ScatterStep, place: &StepPlace<'a, '_>) -> Option<Scatter> {
        let StepPlace { step, namespaces, depth } = *place;
        if keys.branches.is_empty() {
            let help = "add branches, such as `branches: [{ call: a }, { call: b }]`";
            self.report.error(step.at, "a scatter needs branches", help);
        }
        if step.intact {
            self.check_complete(&keys.gather, keys.branches.len());
        }
        let branches = (1_usize..).zip(&keys.branches);
        let branches: Vec<Option<_>> = branches
            .map(|(number, branch)| self.inner(&number.to_string(), branch, namespaces, depth))
            .collect();
        let gather = self.gather(&keys.gather, namespaces);
        let branches = branches.into_iter().collect::<Option<_>>()?;
        Some(Scatter { branches, gather: gather? })
    }

    /// Complains if `complete` asks for more results than there are branches.
    pub(super) fn check_complete(&mut self, keys: &config::Gather, branches: usize) {
        let GatherComplete::Number(number) = keys.complete.value else { return };
        if branches > 0 && count(number) > branches {
            let there =
                if branches == 1 { "there is one branch" } else { "there are fewer branches" };
            let what = format!("`complete: {number}` is never reached: {there}");
            let help = format!("write `all`, or a number from 1 to {branches}");
            self.report.error(keys.complete.at, what, help);
        }
    }

    /// Like `check_complete`, for a number of parts that the message determines, at most `max`.
    pub(super) fn check_complete_of_parts(&mut self, keys: &config::Gather, max: u32) {
        let GatherComplete::Number(number) = keys.complete.value else { return };
        if number > max {
            let what =
                format!("`complete: {number}` is never reached: `max: {max}` allows fewer parts");
            let help = format!("write `all`, a number from 1 to {max}, or a larger `max`");
            self.report.error(keys.complete.at, what, help);
        }
    }

    /// Returns the number of parts that run concurrently and the maximum number of parts. Complains if the first exceeds the second.
    pub(super) fn parts<const MAX: u32>(
        &mut self,
        parallel: &Spanned<Between<1, MAX>>,
        max: u32,
    ) -> (usize, usize) {
        let at_once = parallel.value.get();
        if at_once > max && parallel.at != At::NOWHERE {
            let what =
                format!("`parallel: {at_once}` is never reached: `max: {max}` allows fewer parts");
            let help = format!("write a number from 1 to {max}, or a larger `max`");
            self.report.error(parallel.at, what, help);
        }
        (count(at_once), count(max))
    }

    /// Warns of a timeout within a flow that is longer than the timeout of the flow.
    pub(super) fn warn_of_late(&mut self, timeout: &Spanned<Timeout>) {
        let flow = self.flow_timeout();
        if timeout.value.0 > flow && timeout.at != At::NOWHERE {
            let what = format!("this timeout is never reached: that of the flow is {flow:?}");
            self.report.warn(timeout.at, what, "write a shorter one, or a longer one for the flow");
        }
    }

    /// Returns the timeout of the current flow.
    pub(super) fn flow_timeout(&self) -> Duration {
        let flow = self.under_way.last().and_then(|name| self.config.flows.get(name));
        let own = flow.and_then(|flow| flow.value.0.timeout);
        own.map_or(config::FLOW_TIMEOUT, |timeout| timeout.0)
    }

    /// Compiles the rules by which results are combined into one message.
    pub(super) fn gather(
        &mut self,
        keys: &config::Gather,
        namespaces: &Namespaces,
    ) -> Option<Gather> {
        self.warn_of_late(&keys.timeout);
        let take = match &keys.take {
            Some(take) => self.finder(take, namespaces).map(Some),
            None => Some(None),
        };
        let into = match &keys.into {
            None => Some(None),
            Some(GatherInto::Json) => Some(Some(Wrapper::Json)),
            Some(GatherInto::Xml(markup)) => match Wrapper::element(&markup.value) {
                Ok(into) => Some(Some(into)),
                Err(what) => {
                    let what = format!("that is not an element: {what}");
                    self.report.error(markup.at, what, "write one such as `<All/>`");
                    None
                }
            },
        };
        Some(Gather {
            take: take?,
            into: into?,
            complete: match keys.complete.value {
                GatherComplete::All => None,
                GatherComplete::Number(number) => Some(count(number)),
            },
            timeout: keys.timeout.value.0,
            keep: keys.partial == Partial::Keep,
            keeps_head: keys.head == GatherHead::First,
        })
    }
}
