//! What operators do while a row runs: requests of the admin API, again and again.

#![allow(clippy::disallowed_methods, reason = "the machine's clock is the measuring tool")]

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::scenarios::Watch;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The largest answer that is read: metrics of thousands of routes.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// All that watch a gateway.
pub(super) struct Watchers<'scope> {
    watching: Vec<ScopedJoinHandle<'scope, io::Result<()>>>,
}

impl<'scope> Watchers<'scope> {
    /// Begins to watch. A gateway without an admin API is not watched.
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

    /// Waits until they have seen that it is over.
    ///
    /// # Errors
    ///
    /// If one of them was not answered: then the row says nothing.
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

/// The answer to a request of the admin API, head and body.
pub(super) fn ask(admin: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(admin)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    // HTTP/1.0, so that the body has no chunks.
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
    fn what_is_not_answered_well_is_an_error() {
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
