//! Ends connections so that the client can read the last reply, within a bounded time.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use kit::Wire;
use kit::scratch::{self, SCRATCH_BYTES};
use tokio::io::AsyncWrite;

/// How long data is still read from a client that keeps sending. A close with unread data would cause a reset, which could destroy the
/// reply.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// The maximum number of bytes that are read in this time.
const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Closes the sending side.
pub(crate) async fn shut(wire: &mut Wire) {
    let shut = poll_fn(|cx| Pin::new(&mut *wire).poll_shutdown(cx));
    // Harmless: the close notification is optional.
    let _ = tokio::time::timeout(LINGER_MAX, shut).await;
}

/// Closes the sending side, and reads and discards data until the client closes its side or a limit is reached.
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
    // Harmless: nothing is left to do if the time is over, since the data is discarded anyway.
    let _ = tokio::time::timeout(LINGER_MAX, lingering).await;
}

#[cfg(test)]
mod tests {
    use kit::clock;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_may_read_the_reply_for_two_seconds_while_its_data_is_discarded() {
        for (closes, expected) in [(true, 0), (false, 2)] {
            let (ours, mut peer) = tokio::io::duplex(1 << 16);
            let mut wire = Wire::Wrapped(Box::new(ours));
            let began = clock::now();
            let client = async {
                let mut rest = Vec::new();
                peer.write_all(&[b'x'; 500_000]).await.unwrap();
                peer.read_to_end(&mut rest).await.unwrap();
                if closes {
                    drop(peer);
                    None
                } else {
                    Some(peer)
                }
            };
            let (_open, ()) = tokio::join!(client, linger(&mut wire));
            assert_eq!(began.elapsed().as_secs(), expected);
        }
    }
}
