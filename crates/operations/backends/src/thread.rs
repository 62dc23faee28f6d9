//! A backend on a separate thread, for tests and benches that are not async.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::{Kind, Options, serve};

/// A running backend. Dropping it stops the backend, closes its connections, and waits for that.
#[derive(Debug)]
pub struct Backend {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Backend {
    /// Returns the address that the backend listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic of the backend's thread was already printed. Another panic in this drop would hide it.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Starts a backend. Returns when it accepts connections.
///
/// # Errors
///
/// The error of [`serve()`] if it failed before it was ready.
pub fn spawn_thread(kind: Kind, options: Options) -> io::Result<Backend> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, told) = mpsc::sync_channel(2);
    let thread = std::thread::Builder::new().name(format!("backend-{}", kind.name()));
    let thread = thread.spawn(move || {
        let ready = |address| drop(tell.send(Ok(address)));
        let served = runtime.block_on(serve(kind, options, ready, async {
            drop(stopped.await);
        }));
        if let Err(error) = served {
            drop(tell.send(Err(error)));
        }
    })?;
    let address = told.recv().map_err(io::Error::other)??;
    Ok(Backend { address, stop: Some(stop), thread: Some(thread) })
}
