//! Looking whether files changed, for as long as the program runs.

use crate::watched::Stamps;
use crate::{Control, blocking, lock};
use std::sync::Arc;
use std::time::Duration;

/// How often the files are looked at. A change has to be in effect within 2 s: one pause until it is seen, one until it is quiet,
/// and a second to compile the largest configuration.
pub const POLL_EVERY: Duration = Duration::from_millis(250);

/// How often a change that goes on and on is waited for to end. Somebody who writes all the time gets what is there.
const UNQUIET_MAX: u32 = 4;

/// How often a gateway that runs on says that a certificate ends. What is found at a start or a reload is among its warnings.
const WARN_OF_EXPIRY_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

impl Control {
    /// Brings changed files into service, and warns each day of certificates that end soon, until it is dropped.
    pub async fn watch(self: Arc<Self>) {
        let mut warned = kit::clock::now();
        loop {
            tokio::time::sleep(POLL_EVERY).await;
            if warned.elapsed() >= WARN_OF_EXPIRY_EVERY {
                warned = kit::clock::now();
                self.warn_of_expiry();
            }
            if self.has_settled().await {
                // What came of it is in the log, the metrics and the status.
                drop(self.reload().await);
            }
        }
    }

    fn warn_of_expiry(&self) {
        for (place, concern) in self.plan().expiring(kit::clock::wall()) {
            tracing::warn!(certificate = &*place, "{concern}");
        }
    }

    /// Whether files changed and then stayed as they are: a file that is being written is not read half.
    async fn has_settled(&self) -> bool {
        let known = lock(&self.watched).clone();
        let Some(mut last) = look_again(&known).await.filter(|now| *now != known) else {
            return false;
        };
        for _ in 0..UNQUIET_MAX {
            tokio::time::sleep(POLL_EVERY).await;
            match look_again(&last).await {
                Some(now) if now != last => last = now,
                _ => break,
            }
        }
        let mut watched = lock(&self.watched);
        if *watched != known {
            // Somebody else has looked meanwhile, after SIGHUP for instance, and said what came of it. What has changed
            // since then is seen by the next look.
            return false;
        }
        // Noted here for a reload that finds the content unchanged and so does not look at stamps.
        *watched = last;
        true
    }
}

/// Nothing if the look itself went wrong, which the next one may not.
async fn look_again(stamps: &Stamps) -> Option<Stamps> {
    let stamps = stamps.clone();
    blocking(move || stamps.again()).await.ok()
}
