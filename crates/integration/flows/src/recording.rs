//! A trace in progress. Without a requested trace, only [`Recording::of`] runs.

use std::cell::RefCell;
use std::sync::Arc;

use telemetry::trace::{Trace, TraceCandidate, Tracer};

/// A trace in progress. It is published when the run ends, even if the client has disconnected.
#[derive(Debug)]
pub(crate) struct Recording {
    tracer: Arc<Tracer>,
    pub(crate) trace: RefCell<Trace>,
}

impl Recording {
    /// Starts to record. Returns `None` if no trace was requested for this message.
    pub(crate) fn of(
        tracer: &Arc<Tracer>,
        flow: &str,
        route: &str,
        path: &[u8],
        request_id: &str,
    ) -> Option<Recording> {
        if !tracer.takes(&TraceCandidate { route, flow: Some(flow), path, request_id }) {
            return None;
        }
        let (route, flow, request_id) = (route.into(), flow.into(), request_id.into());
        let trace = RefCell::new(Trace { route, flow, request_id, ..Trace::default() });
        Some(Recording { tracer: tracer.clone(), trace })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.tracer.store(self.trace.take());
    }
}
