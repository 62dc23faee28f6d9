//! The gateway's own headers in requests, and their replacement when a target refuses them.

use fault::Fault;
use kit::clock::Instant;
use message::{ReplyHead, Request};
use policy::Decision;

use super::Attempts;
use crate::Upstream;

impl Upstream {
    /// Adds the gateway's own headers to a request.
    pub(super) async fn make_additions(
        &self,
        request: &mut Request,
        deadline: Option<Instant>,
    ) -> Result<(), Fault> {
        for addition in &self.settings.additions.0 {
            match addition.make(request, deadline) {
                Decision::Ready(added) => added?,
                Decision::Waits(adding) => adding.await?,
            }
        }
        Ok(())
    }
}

impl Attempts<'_> {
    /// Replaces an addition that a reply refuses. False if there is no replacement, or the request cannot be sent
    /// again.
    pub(super) async fn renew(&mut self, head: &ReplyHead) -> bool {
        self.restore();
        if self.spent {
            return false;
        }
        for addition in &self.upstream.settings.additions.0 {
            if let Some(renewing) = addition.renew(self.request, head, self.deadline) {
                self.may_renew = false;
                return renewing.await;
            }
        }
        false
    }
}
