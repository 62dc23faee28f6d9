//! Ends of connections: so that the last that was said is read, and nobody is waited for without end.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use kit::Wire;
use kit::scratch::{self, SCRATCH_BYTES};
use tokio::io::AsyncWrite;

/// A connection that ends while its client still sends is read on for this long, so that the reply is not lost to a reset.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// And for at most this much.
const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Says goodbye.
pub(crate) async fn shut(wire: &mut Wire) {
    let shut = poll_fn(|cx| Pin::new(&mut *wire).poll_shutdown(cx));
    // Harmless: whether the goodbye reaches the peer changes nothing.
    let _late = tokio::time::timeout(LINGER_MAX, shut).await;
}

/// Says goodbye, and reads on for a moment.
pub(crate) async fn linger(wire: &mut Wire) {
    let lingering = async {
        shut(wire).await;
        let mut total = 0;
        while total < LINGER_BYTES_MAX {
            let mut bytes = scratch::lend();
            match poll_fn(|cx| wire.poll_read_into(cx, &mut bytes, SCRATCH_BYTES)).await {
                Ok(0) | Err(_) => return,
                Ok(n) => total += n,
            }
        }
    };
    // Harmless: what still comes is read by nobody.
    let _late = tokio::time::timeout(LINGER_MAX, lingering).await;
}
