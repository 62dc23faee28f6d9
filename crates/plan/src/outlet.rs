//! A policy's way to an upstream, given to it before upstreams are made.

use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use fault::{Fault, Kind};
use kit::LocalBoxFuture;
use message::{Reply, Request};
use policy::{Caller, Exchange, Fetch};
use upstream::{HostSent, Upstream};

/// Where a policy's requests of its own go. `compile` connects it once all upstreams are made.
#[derive(Default)]
pub struct Outlet {
    upstream: OnceLock<Arc<Upstream>>,
}

impl Outlet {
    /// Leads here from now on; the first word counts.
    pub fn connect(&self, upstream: Arc<Upstream>) {
        let _first = self.upstream.set(upstream);
    }
}

impl Fetch for Outlet {
    fn fetch<'a>(
        &'a self,
        caller: &Rc<Caller>,
        mut request: Request,
    ) -> LocalBoxFuture<'a, Result<Reply, Fault>> {
        let caller = caller.clone();
        Box::pin(async move {
            let upstream = self.upstream.get();
            let upstream = upstream
                .ok_or_else(|| Fault::new(Kind::Internal, "an outlet that leads nowhere"))?;
            // An exchange of its own: its waiting is not the upstream's of the exchange it is for. Made here, so that it
            // is not moved once more; with an alarm whose timer is registered already.
            let mut ex = Exchange::new(caller, kit::alarm::take());
            let sent = upstream.send_anywhere(&mut ex, &mut request, &HostSent::Target).await;
            kit::alarm::give(ex.alarm);
            sent
        })
    }
}
