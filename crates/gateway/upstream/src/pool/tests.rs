//! When a connection is used again: calls to a target in memory.

use std::cell::Cell;
use std::time::Duration;

use fault::Kind;
use kit::fake;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::LocalSet;

use super::*;
use crate::UpstreamSettings;
use crate::settings::tests::settings;
use crate::tests::{send, upstream};

const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Gives the same reply to each request of a connection, and closes it if the reply says so.
async fn serve(mut peer: DuplexStream, reply: &'static str) {
    let mut bytes = Vec::new();
    while peer.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
        if bytes.ends_with(b"\r\n\r\n") {
            bytes.clear();
            peer.write_all(reply.as_bytes()).await.unwrap();
            if reply.contains("until the end") {
                return;
            }
        }
    }
}

/// Counts the connections that are opened from now on.
fn connections(reply: &'static str) -> Rc<Cell<usize>> {
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    fake::network(move |_| {
        counted.set(counted.get() + 1);
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        kit::spawn(serve(theirs, reply));
        Ok(Box::new(ours))
    });
    count
}

/// Makes a call. Unless it is read to its end, the reply is dropped in the middle.
async fn call(upstream: &Arc<Upstream>, to_end: bool) {
    let reply = send(upstream, "GET").await.unwrap();
    if to_end {
        reply.body.gather(1 << 20, Kind::Internal).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_used_again_if_its_reply_has_ended_and_both_sides_keep_it() {
    let scene = async {
        let idle_max = |idle_max| UpstreamSettings { idle_max, ..settings(1) };
        for (what, settings, reply, expected) in [
            ("kept", settings(1), PLAIN, 1),
            ("without a body", settings(1), "HTTP/1.1 204 No\r\n\r\n", 1),
            (
                "chunked",
                settings(1),
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                1,
            ),
            ("an empty pool", idle_max(0), PLAIN, 3),
            (
                "the target closes",
                settings(1),
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                3,
            ),
            ("an old target", settings(1), "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 3),
            ("no length", settings(1), "HTTP/1.1 200 OK\r\n\r\nuntil the end", 3),
            // The rest would be taken for the reply to the next request.
            (
                "bytes after the reply",
                settings(1),
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
                3,
            ),
        ] {
            let (upstream, count) = (upstream(settings), connections(reply));
            for _ in 0..3 {
                call(&upstream, true).await;
            }
            assert_eq!(count.get(), expected, "{what}");
        }
    };
    Box::pin(LocalSet::new().run_until(scene)).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_if_its_reply_was_dropped_in_the_middle() {
    let scene = async {
        let long = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nok";
        let (upstream, count) = (upstream(settings(1)), connections(long));
        for _ in 0..3 {
            call(&upstream, false).await;
        }
        assert_eq!(count.get(), 3);
    };
    Box::pin(LocalSet::new().run_until(scene)).await;
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_after_their_time() {
    let scene = async {
        let (upstream, count) = (upstream(settings(1)), connections(PLAIN));
        let idle = || {
            let pool = upstream.pool(0);
            let roster = pool.roster(&upstream);
            roster.places[0].idle.borrow().len()
        };
        call(&upstream, true).await;
        tokio::time::advance(Duration::from_secs(59)).await;
        sweep();
        assert_eq!(idle(), 1);
        // The call begins its time again.
        call(&upstream, true).await;
        tokio::time::advance(Duration::from_secs(59)).await;
        sweep();
        assert_eq!((idle(), count.get()), (1, 1));
        tokio::time::advance(Duration::from_secs(1)).await;
        sweep();
        assert_eq!(idle(), 0);
        call(&upstream, true).await;
        assert_eq!(count.get(), 2);
    };
    Box::pin(LocalSet::new().run_until(scene)).await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_upstream_leaves_no_pool_and_no_count() {
    let scene = async {
        let metrics = telemetry::Telemetry::new(1).upstream("u");
        let upstream = Upstream::new(settings(1), metrics.clone());
        let _count = connections(PLAIN);
        call(&upstream, true).await;
        let idle = || metrics.pool(0).connections_idle.get();
        let serial = upstream.serial;
        assert_eq!((idle(), POOLS.with_borrow(|pools| pools.contains_key(&serial))), (1, true));
        drop(upstream);
        sweep();
        assert_eq!((idle(), POOLS.with_borrow(|pools| pools.contains_key(&serial))), (0, false));
    };
    Box::pin(LocalSet::new().run_until(scene)).await;
}
