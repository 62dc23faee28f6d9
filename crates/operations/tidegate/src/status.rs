//! The socket for probes and scrapers, as configured by the plan in service.
//!
//! A plan whose address cannot be bound is refused as a whole. So the socket is opened before the plan goes into service, and served
//! afterwards.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::{Control, StatusListener};
use listen::handover;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

/// The socket's key in the configuration.
const KEY: &str = "status";

/// The socket of the plan in service, if it has one.
#[derive(Default)]
pub(crate) struct StatusSocket {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// The configured address. With port 0, the socket has another port.
    address: Option<SocketAddr>,
    /// A socket that is open but not served yet.
    opened: Option<TcpListener>,
    /// Stops the socket that is being served.
    stop: Option<oneshot::Sender<()>>,
}

/// The socket for the next plan.
pub(crate) enum NextStatus {
    Kept,
    None,
    New(SocketAddr, TcpListener),
}

impl StatusSocket {
    /// Opens the socket that a plan needs, if it is not open. The error is for the operator.
    pub(crate) async fn open(&self, status: Option<&StatusListener>) -> Result<NextStatus, String> {
        let address = status.map(|status| status.address);
        let current = self.lock().address;
        let Some(address) = address else { return Ok(NextStatus::None) };
        if current == Some(address) {
            return Ok(NextStatus::Kept);
        }
        Ok(NextStatus::New(address, bound(KEY, address).await?))
    }

    /// Serves the next socket, and closes the previous one.
    pub(crate) fn adopt(&self, next: NextStatus) {
        let mut state = self.lock();
        (state.address, state.opened) = match next {
            NextStatus::Kept => return,
            NextStatus::None => {
                handover::forget_other(KEY);
                (None, None)
            }
            NextStatus::New(address, listener) => (Some(address), Some(listener)),
        };
        // A sender that is dropped stops its socket.
        state.stop = None;
        drop(state);
        self.changed.notify_one();
    }

    /// Serves each socket from `adopt`, which runs on threads where tasks cannot be started.
    pub(crate) async fn run(self: Arc<Self>, control: Arc<Control>) {
        loop {
            if let Some((listener, stopped)) = self.take() {
                kit::spawn(serve(listener, control.clone(), stopped));
            }
            self.changed.notified().await;
        }
    }

    /// The socket to serve next.
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

/// Opens a socket. The error names the key of the configuration.
pub(crate) async fn bound(key: &str, address: SocketAddr) -> Result<TcpListener, String> {
    let opened = handover::open_other(key, address).and_then(TcpListener::from_std);
    opened.map_err(|error| format!("{key}: {}", listen::not_bound(address, &error)))
}

async fn serve(listener: TcpListener, control: Arc<Control>, stopped: oneshot::Receiver<()>) {
    match listener.local_addr() {
        Ok(address) => tracing::info!(%address, "status"),
        Err(error) => tracing::error!(%error, "status"),
    }
    let stop = async {
        // Harmless: dropping the sender also stops the socket.
        let _ = stopped.await;
    };
    if let Err(error) = admin::serve_status(listener, control, stop).await {
        tracing::error!(%error, "status");
    }
}
