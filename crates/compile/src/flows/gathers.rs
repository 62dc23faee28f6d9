//! Compiles how results are gathered into one message, and complains about conditions that can never be met.

use std::time::Duration;

use config::{At, Between, GatherComplete, GatherInto, Partial, Spanned, Timeout};
use flows::{Gather, Into};

use super::{Compiler, Namespaces};
use crate::listeners::count;

impl Compiler<'_, '_> {
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

    /// Compiles the way in which results become one message.
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
            Some(GatherInto::Json) => Some(Some(Into::Json)),
            Some(GatherInto::Xml(markup)) => match Into::element(&markup.value) {
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
        })
    }
}
