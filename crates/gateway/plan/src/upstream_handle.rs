//! A policy's connection to an upstream, which exists before the upstreams are built.

use std::sync::{Arc, OnceLock};

use fault::{Fault, Kind};
use kit::LocalBoxFuture;
use message::{Reply, Request};
use policy::{Call, Fetch};
use upstream::{HostSent, Upstream};

/// The destination of a policy's own requests. `compile` connects it once all upstreams are made.
#[derive(Default)]
pub struct UpstreamHandle {
    upstream: OnceLock<Arc<Upstream>>,
}

impl UpstreamHandle {
    /// Connects the handle to an upstream. Only the first call has an effect.
    pub fn connect(&self, upstream: Arc<Upstream>) {
        // Harmless: only the first call has an effect.
        let _ = self.upstream.set(upstream);
    }
}

impl Fetch for UpstreamHandle {
    fn fetch<'a>(
        &'a self,
        mut call: Call<'a>,
        mut request: Request,
    ) -> LocalBoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            let upstream = self.upstream.get();
            let upstream = upstream.ok_or_else(|| {
                Fault::new(Kind::Internal, "the upstream handle of a policy was not connected")
            })?;
            if let Some(id) = call.id
                && !request.head.headers.contains("x-request-id")
            {
                request.head.headers.add_known("X-Request-Id", id.as_bytes());
            }
            let sent = upstream.send(&mut call, &mut request, &HostSent::Unchanged).await;
            kit::alarm::give(call.alarm);
            sent
        })
    }
}
