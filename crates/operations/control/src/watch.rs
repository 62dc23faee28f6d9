//! Watches files for changes.

use crate::watched::Stamps;
use crate::{Control, blocking, lock};
use std::sync::Arc;
use std::time::Duration;

/// The interval of polls. A change has to be in effect within 2 s: one interval until it is seen, one until the files have
/// settled, and a second to compile the largest configuration.
pub const POLL_EVERY: Duration = Duration::from_millis(250);

/// The maximum number of intervals to wait until files have settled. If they keep changing, they are read as they are.
const UNQUIET_MAX: u32 = 4;

/// The interval of warnings about certificates that expire soon. At a start or a reload, they are among the
/// configuration's warnings.
const WARN_OF_EXPIRY_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a renewed certificate waits for its key. Copying one file after the other takes less time.
const PAIR_WAIT: Duration = Duration::from_secs(5);

impl Control {
    /// Puts changed files into service, and warns daily about certificates that expire soon, until it is dropped.
    pub async fn watch(self: Arc<Self>) {
        let mut warned = kit::clock::now();
        // The time since which a certificate waits for its key, or a key for its certificate.
        let mut half_since: Option<kit::clock::Instant> = None;
        loop {
            tokio::time::sleep(POLL_EVERY).await;
            if warned.elapsed() >= WARN_OF_EXPIRY_EVERY {
                warned = kit::clock::now();
                self.warn_of_expiry();
            }
            let waited = half_since.is_some_and(|since| since.elapsed() >= PAIR_WAIT);
            if self.has_settled().await || waited {
                // The result is in the log, the metrics and the status.
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

    /// True if files changed and then stayed the same, so that a half-written file is not read. Files that keep changing are waited
    /// for only up to [`UNQUIET_MAX`] intervals.
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
            // Another reload, for instance after SIGHUP, has read the files meanwhile and reported its result. The next poll
            // sees later changes.
            return false;
        }
        // Stored here for a reload that finds the content unchanged and so does not update the stamps.
        *watched = last;
        true
    }
}

/// Takes new stamps of the same files. None if that failed.
async fn look_again(stamps: &Stamps) -> Option<Stamps> {
    let stamps = stamps.clone();
    // Harmless: the next poll may succeed.
    blocking(move || stamps.reread()).await.ok()
}
