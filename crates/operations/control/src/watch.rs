//! Watching for changed files, for as long as the program runs.

use crate::watched::Stamps;
use crate::{Control, blocking, lock};
use std::sync::Arc;
use std::time::Duration;

/// The interval between two polls of the files. A change has to be in effect within 2 s: one interval until it is seen, one
/// until the files are quiet, and a second to compile the largest configuration.
pub const POLL_EVERY: Duration = Duration::from_millis(250);

/// The number of intervals to wait for a change to end. If somebody keeps writing, the files are read as they are.
const UNQUIET_MAX: u32 = 4;

/// The interval between two warnings of a running gateway about certificates that expire. At a start or a reload, such a
/// certificate is among the warnings.
const WARN_OF_EXPIRY_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a renewed certificate may wait for its key: those who copy one after the other need less.
const PAIR_WAIT: Duration = Duration::from_secs(5);

impl Control {
    /// Puts changed files into service, and warns each day of certificates that expire soon, until it is dropped.
    pub async fn watch(self: Arc<Self>) {
        let mut warned = kit::clock::now();
        // Since when a certificate waits for its key, or a key for its certificate.
        let mut half_since: Option<kit::clock::Instant> = None;
        loop {
            tokio::time::sleep(POLL_EVERY).await;
            if warned.elapsed() >= WARN_OF_EXPIRY_EVERY {
                warned = kit::clock::now();
                self.warn_of_expiry();
            }
            let waited = half_since.is_some_and(|since| since.elapsed() >= PAIR_WAIT);
            if self.has_settled().await || waited {
                // The outcome is in the log, the metrics and the status.
                let half = self.reload_changed(!waited).await;
                half_since = half.then(|| half_since.unwrap_or_else(kit::clock::now));
            }
        }
    }

    fn warn_of_expiry(&self) {
        for (place, concern) in self.plan().expiring(kit::clock::wall()) {
            tracing::warn!(certificate = &*place, "{concern}");
        }
    }

    /// True if files changed and then stayed the same, so that a half-written file is not read.
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
            // Another reload has read the files meanwhile, after SIGHUP for instance, and reported its outcome. The next poll
            // sees later changes.
            return false;
        }
        // Stored here for a reload that finds the content unchanged and so does not update the stamps.
        *watched = last;
        true
    }
}

/// None if the check itself failed.
async fn look_again(stamps: &Stamps) -> Option<Stamps> {
    let stamps = stamps.clone();
    // Harmless: the next look may succeed.
    blocking(move || stamps.again()).await.ok()
}
