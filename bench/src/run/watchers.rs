//! Sends requests to the admin API repeatedly while a row runs, as operators do.

#![allow(clippy::disallowed_methods, reason = "the machine's clock is the measuring tool")]

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::scenarios::Watch;

/// Maximum time to wait for a reply.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Maximum size of a reply: metrics of thousands of routes.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The threads that watch a gateway.
pub(super) struct Watchers<'scope> {
    watching: Vec<ScopedJoinHandle<'scope, io::Result<()>>>,
}

impl<'scope> Watchers<'scope> {
    /// Starts the watchers. A gateway without an admin API is not watched.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        admin: Option<SocketAddr>,
        watches: &'env [Watch],
        is_over: &'env AtomicBool,
    ) -> Watchers<'scope> {
        let one = |admin, watch| scope.spawn(move || watch_until(admin, watch, is_over));
        let all =
            admin.into_iter().flat_map(|admin| watches.iter().map(move |watch| (admin, watch)));
        Watchers { watching: all.map(|(admin, watch)| one(admin, watch)).collect() }
    }

    /// Waits until all watchers have ended.
    ///
    /// # Errors
    ///
    /// If a request was not answered, which makes the row meaningless.
    pub(super) fn finish(self) -> io::Result<()> {
        let panicked = || Err(io::Error::other("a watcher panicked"));
        self.watching.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| panicked()))
    }
}

fn watch_until(admin: SocketAddr, watch: &Watch, is_over: &AtomicBool) -> io::Result<()> {
    let mut next = Instant::now();
    while !is_over.load(Ordering::SeqCst) {
        if Instant::now() < next {
            thread::sleep(LOOK_AGAIN);
            continue;
        }
        next = Instant::now() + watch.every.0;
        ask(admin, &watch.path)?;
    }
    Ok(())
}

/// Returns the reply to a request of the admin API, with head and body.
pub(super) fn ask(admin: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(admin)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    // HTTP/1.0, so that the body is not chunked.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
    if text.split(' ').nth(1) != Some("200") {
        let head = text.lines().next().unwrap_or_default();
        return Err(io::Error::other(format!("GET {path} of the admin API: {head}")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_unsuccessful_reply_is_an_error() {
        for (answer, is_well) in [("200 OK", true), ("404 Not Found", false)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = [0; 64];
                let read = stream.read(&mut head).unwrap();
                write!(stream, "HTTP/1.0 {answer}\r\n\r\nbody").unwrap();
                String::from_utf8_lossy(&head[..read]).into_owned()
            });
            let said = ask(address, "/x");
            assert_eq!(said.as_ref().is_ok_and(|text| text.ends_with("body")), is_well, "{said:?}");
            assert!(server.join().unwrap().starts_with("GET /x HTTP/1.0\r\n"));
        }
    }
}
