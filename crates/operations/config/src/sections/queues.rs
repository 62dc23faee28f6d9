//! `queues.NAME`: stored messages of flows, and the flow that processes them.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::flows::StatusClass;
use crate::values::{Between, Factor, Size, Spanned, Timeout};

keys! {
    /// A queue: the step `store` puts messages into it, and its flow processes them.
    pub struct Queue {
        /// The name of one of the `flows`. A fault, or a reply of status 500 or above, is a failure.
        flow: Spanned<String>,
        /// Statuses of the flow's reply that are failures, such as `[4xx, 5xx]`, instead of 500 and above. A fault is always one.
        fault_on: Option<Vec<StatusClass>>,
        /// What happens after a failure.
        retry: QueueRetry,
        /// Whether messages whose last attempt has failed are kept, so that the admin API can show them and process them again.
        dead_letter: bool = true,
        /// Where dead messages go: to another queue, or they are kept here, within limits on number, size and age. Beyond a limit, the
        /// oldest are removed, each with a log entry.
        dead: QueueDead,
        /// How many messages are processed at once, with `order: free`. In strict order it is one.
        concurrency: Spanned<Between<1, 100>> = Spanned::unwritten(const { Between::new(1) }),
        /// Whether a message waits until the previous one has been processed.
        // The order of messages is expected to be kept.
        order: QueueOrder = QueueOrder::Strict,
        /// The minimum time between the first attempts of two successive messages. If absent, there is no minimum.
        interval: Option<Timeout>,
        /// Whether the queue is paused until an operator resumes it. It takes messages meanwhile. What an operator decides counts from then
        /// on, also after a reload and a restart; removing this key ends the effect of a resumption.
        paused: bool = false,
    }
}

keys! {
    /// What becomes of a queue's dead messages: another queue takes them, or they are kept within bounds. A warning is logged before
    /// those are reached.
    pub struct QueueDead {
        /// The name of another queue, which dead messages are put into as they came. Then none is kept here.
        queue: Option<Spanned<String>>,
        /// The maximum number of messages.
        // A service that fails for a day at one message per second leaves about as many, and an operator can still inspect them.
        messages_max: Between<1, 1_000_000> = const { Between::new(100_000) },
        /// The maximum size of all messages, including their heads.
        // As for a topic of a hub.
        bytes_max: Size = Size(1 << 30),
        /// How long a dead message is kept.
        // Longer than a holiday.
        age_max: Timeout = Timeout(Duration::from_secs(30 * 24 * 3600)),
    }
}

keys! {
    /// The retries of a message.
    pub struct QueueRetry {
        /// The number of attempts, including the first.
        // With the pauses below, 15 seconds: enough for a restart of the service.
        attempts: Between<1, 1000> = const { Between::new(5) },
        /// The pause after the first attempt.
        initial: Timeout = Timeout(Duration::from_secs(1)),
        /// The factor by which the pause grows with each attempt.
        factor: Factor = Factor::TWO,
        /// The longest pause.
        max: Timeout = Timeout(Duration::from_secs(60)),
        /// What follows the last attempt.
        // A message that cannot be processed should not stop all others.
        then: QueueExhausted = QueueExhausted::Dead,
    }
}

words! {
    /// What follows the last attempt at a message.
    pub enum QueueExhausted {
        /// The message is dead, and the next one is processed.
        Dead = "dead",
        /// The queue pauses until an operator resumes it. The message keeps its place, and gets all its attempts again.
        Pause = "pause",
    }
}

words! {
    /// Whether a message waits until the previous one has been processed.
    pub enum QueueOrder {
        /// Always.
        Strict = "strict",
        /// Not for a message that waits for a retry.
        Free = "free",
    }
}
