//! The socket for probes and scrapers, which follows the configuration in service.
//!
//! A plan whose address cannot be bound is refused as a whole, so the socket is opened before the plan is in service and served after.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::{Control, StatusListener};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

/// The socket of the plan in service, if it has one.
#[derive(Default)]
pub(crate) struct StatusSocket {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// As it is written: port 0 is another port each time.
    address: Option<SocketAddr>,
    /// Opened and not served yet.
    opened: Option<TcpListener>,
    /// Ends what serves now.
    stop: Option<oneshot::Sender<()>>,
}

/// The socket for a plan that is about to serve.
pub(crate) enum NextStatus {
    Kept,
    None,
    New(SocketAddr, TcpListener),
}

impl StatusSocket {
    /// Opens what a plan needs and is not open. The error is for the operator.
    pub(crate) async fn open(&self, status: Option<&StatusListener>) -> Result<NextStatus, String> {
        let address = status.map(|status| status.address);
        let current = self.lock().address;
        let Some(address) = address else { return Ok(NextStatus::None) };
        if current == Some(address) {
            return Ok(NextStatus::Kept);
        }
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(|e| format!("status: {}", listen::not_bound(address, &e)))?;
        Ok(NextStatus::New(address, listener))
    }

    /// Serves what was opened, and closes what served before.
    pub(crate) fn adopt(&self, next: NextStatus) {
        let mut state = self.lock();
        (state.address, state.opened) = match next {
            NextStatus::Kept => return,
            NextStatus::None => (None, None),
            NextStatus::New(address, listener) => (Some(address), Some(listener)),
        };
        // Dropping it stops.
        state.stop = None;
        drop(state);
        self.changed.notify_one();
    }

    /// Serves until the runtime ends. Plans are put into service by threads that cannot start tasks here.
    pub(crate) async fn run(self: Arc<Self>, control: Arc<Control>) {
        loop {
            if let Some((listener, stopped)) = self.take() {
                kit::spawn(serve(listener, control.clone(), stopped));
            }
            self.changed.notified().await;
        }
    }

    fn take(&self) -> Option<(TcpListener, oneshot::Receiver<()>)> {
        let mut state = self.lock();
        let listener = state.opened.take()?;
        let (stop, stopped) = oneshot::channel();
        state.stop = Some(stop);
        Some((listener, stopped))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(listener: TcpListener, control: Arc<Control>, stopped: oneshot::Receiver<()>) {
    match listener.local_addr() {
        Ok(address) => tracing::info!(%address, "status"),
        Err(error) => tracing::error!(%error, "status"),
    }
    let stop = async {
        // Harmless: a sender that is dropped stops it, too.
        let _stopped = stopped.await;
    };
    if let Err(error) = admin::serve_status(listener, control, stop).await {
        tracing::error!(%error, "status");
    }
}
