//! The samples of the traffic, taken beside the workers for as long as the program runs.

use std::sync::Arc;

use telemetry::traffic::STEP;

use crate::{Control, blocking};

impl Control {
    /// Takes a sample every [`STEP`]. Without an admin API nobody could look at them, and none is taken.
    pub async fn sample_traffic(self: Arc<Self>) {
        loop {
            tokio::time::sleep(STEP).await;
            if self.plan().admin.is_none() {
                continue;
            }
            let telemetry = self.telemetry.clone();
            if let Err(failure) = blocking(move || telemetry.sample_traffic()).await {
                tracing::error!(%failure, "a sample of the traffic was not taken");
            }
        }
    }
}
