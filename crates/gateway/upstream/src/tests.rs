//! An upstream, and a call to it, for the tests of this crate.

use std::sync::Arc;

use fault::Fault;
use message::{Body, Protocol, Reply, Request, RequestHead};
use policy::{Caller, Scheme, Totals};

use crate::{HostSent, Upstream, UpstreamSettings};

pub(crate) fn upstream(settings: UpstreamSettings) -> Arc<Upstream> {
    Upstream::new(settings, telemetry::Telemetry::new(1).upstream("u"))
}

/// Sends a request without a body.
pub(crate) async fn send(upstream: &Arc<Upstream>, method: &str) -> Result<Reply, Fault> {
    let peer = "127.0.0.1:1".parse().unwrap();
    let (caller, totals) = (Caller::new(peer, peer, Scheme::Http, 0), Totals::default());
    let mut call = policy::Call::detached(&caller, None, &totals);
    let head = RequestHead::new(Protocol::Http11, method.as_bytes(), b"/");
    let mut request = Request { head, body: Body::Empty };
    upstream.send(&mut call, &mut request, &HostSent::Target).await
}
