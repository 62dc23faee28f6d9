//! Samples of the traffic, taken by a background task.

use std::sync::Arc;

use telemetry::traffic::STEP;

use crate::{Control, blocking};

impl Control {
    /// Takes a sample every [`STEP`]. Without an admin API, nothing shows the samples, so none are taken.
    pub async fn sample_traffic(self: Arc<Self>) {
        loop {
            tokio::time::sleep(STEP).await;
            if self.plan().admin.is_none() {
                continue;
            }
            let telemetry = self.telemetry.clone();
            if let Err(failure) = blocking(move || telemetry.sample_traffic()).await {
                tracing::error!(%failure, "a sample of the traffic could not be taken");
            }
        }
    }
}
