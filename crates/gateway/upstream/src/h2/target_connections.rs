//! The shared connections of one worker to one target.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fault::Fault;
use kit::clock::{self, Instant};

use super::connection;
use super::shared::{SharedConnection, State, StreamPermit};
use crate::Upstream;
use crate::pool::Pool;
use crate::roster::WorkerTarget;

/// Connections to one target. They are filled in order, so that unnecessary ones become idle.
#[derive(Default)]
pub(crate) struct TargetConnections {
    connections: Vec<Rc<SharedConnection>>,
    /// Until this time, the target is treated as an HTTP/1 server.
    http1_until: Option<Instant>,
}

/// How long a target that chose HTTP/1 and keeps its connections is not offered HTTP/2.
const HTTP1_TIME: Duration = Duration::from_secs(300);

impl TargetConnections {
    /// True if the target has recently chosen HTTP/1.
    pub(super) fn is_http1(&self) -> bool {
        self.http1_until.is_some_and(|until| clock::now() < until)
    }

    pub(super) fn note_http1(&mut self) {
        self.http1_until = clock::now().checked_add(HTTP1_TIME);
    }

    /// A connection whose target allows no streams, if there is one and no other has room.
    pub(super) fn shut(&self) -> Option<Rc<SharedConnection>> {
        let have_room = self.connections.iter().any(|shared| shared.has_room());
        self.connections.iter().find(|shared| !have_room && shared.is_shut()).cloned()
    }

    /// A place on a connection that has room, or on a new one.
    pub(super) fn stream_permit(
        &mut self,
        upstream: &Arc<Upstream>,
        pool: &Rc<Pool>,
        place: &Rc<WorkerTarget>,
    ) -> Result<StreamPermit, Fault> {
        self.sweep();
        let worker = pool.worker();
        let with_room = self.connections.iter().find(|shared| shared.has_room());
        if let Some(shared) = with_room {
            return StreamPermit::take(shared.clone(), upstream.clone(), worker);
        }
        let shared = SharedConnection::new(State::Opening);
        let permit = StreamPermit::take(shared.clone(), upstream.clone(), worker)?;
        self.connections.push(shared.clone());
        let opened = connection::open(shared, upstream.clone(), pool.clone(), place.clone());
        drop(kit::spawn(Box::pin(opened)));
        Ok(permit)
    }

    /// Removes connections that no new exchange can use.
    pub(crate) fn sweep(&mut self) {
        self.connections.retain(|shared| !shared.is_over());
    }

    /// Ends connections to lost addresses, once they have no exchanges.
    pub(crate) fn leave(&mut self, is_lost: impl Fn(Option<&SocketAddr>) -> bool) {
        let lost = self.connections.iter().filter(|shared| is_lost(shared.address.get()));
        lost.for_each(|shared| shared.close());
    }

    /// Ends all connections, once they have no exchanges.
    pub(crate) fn close(&self) {
        self.connections.iter().for_each(|shared| shared.close());
    }

    /// Ends one connection without exchanges, if there is one.
    pub(crate) fn close_one(&mut self) -> bool {
        let idle = self.connections.iter().rposition(|shared| shared.permits() == 0);
        let closed = idle.map(|at| self.connections.remove(at));
        closed.as_ref().inspect(|shared| shared.close()).is_some()
    }
}

impl Drop for TargetConnections {
    fn drop(&mut self) {
        self.close();
    }
}
