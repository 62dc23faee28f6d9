//! The listener: receives notifications about the writes of other nodes, and wakes the watchers of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sql::postgres::Server;

use super::SharedState;
use super::connection::{ANSWER_MAX, Link, count};
use super::statement_failure::{StatementFailure, unanswered};

/// The interval at which the connection is checked.
const LOOK: Duration = Duration::from_secs(1);
/// The number of checks between two queries for writes without a notification.
const ASK_EVERY: u32 = 5;
/// The pause before the next attempt to connect.
const PAUSE: Duration = Duration::from_millis(500);
const VERSION: &str = "select version from tidegate.head where one";

/// Runs the listener without end.
pub(super) async fn run(shared: Arc<SharedState>, server: Arc<Server>) {
    loop {
        if let Err(why) = listen(&shared, &server).await {
            tracing::debug!(why = ?why, "store: notifications of other nodes are interrupted");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn listen(shared: &Arc<SharedState>, server: &Server) -> Result<(), StatementFailure> {
    // The version of the newest change that is known, from a notification or a query.
    let newest = Arc::new(AtomicU64::new(0));
    let (told, heard) = (shared.clone(), newest.clone());
    let told = Box::new(move |process: i32, text: &str| {
        let Some((version, subject)) = super::decode_notification(text) else { return };
        heard.fetch_max(version, Ordering::Relaxed);
        // The writer has already woken the watchers of this process.
        if !told.is_own(process) {
            told.watches.wake(&subject);
        }
    });
    let mut link = Link::open(server, told).await?;
    let listening = tokio::time::timeout(ANSWER_MAX, link.execute("listen tidegate", &[])).await;
    listening.unwrap_or_else(|_| Err(unanswered()))?;
    loop {
        let asked = tokio::time::timeout(ANSWER_MAX, link.rows(VERSION, &[])).await;
        let rows = asked.unwrap_or_else(|_| Err(unanswered()))?;
        let found = rows.first().map_or(Ok(0), |row| count(row, 0))?;
        // There was a write without a notification: before this connection listened, or through a pooler, which drops notifications.
        if found > newest.fetch_max(found, Ordering::Relaxed) {
            shared.watches.wake_all();
        }
        for _ in 0..ASK_EVERY {
            tokio::time::sleep(LOOK).await;
            if link.is_closed() {
                return Err(StatementFailure::Lost("the connection was closed".to_owned()));
            }
        }
    }
}
