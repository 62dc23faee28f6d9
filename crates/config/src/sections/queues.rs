//! `queues.NAME`: messages that flows leave behind, and the flow that processes them.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Between, Factor, Size, Spanned, Timeout};

keys! {
    /// A queue: the step `store` puts messages into it, and its flow processes them.
    pub struct Queue {
        /// The name of one of the `flows`. A fault, or a reply of status 500 or above, is a failure.
        flow: Spanned<String>,
        /// What happens after a failure.
        retry: QueueRetry,
        /// Whether messages that failed for the last time are kept, to be seen and processed again by the admin API.
        dead_letter: bool = true,
        /// How many of them are kept, and for how long. Beyond that the oldest are removed, with a line in the log for each.
        dead: QueueDead,
        /// How many messages are processed at once, with `order: free`. In strict order it is one.
        concurrency: Spanned<Between<1, 100>> = Spanned::unwritten(const { Between::new(1) }),
        /// Whether a message waits until the one before has ended.
        // Who leaves messages in an order expects it to be kept.
        order: QueueOrder = QueueOrder::Strict,
    }
}

keys! {
    /// The bounds of a queue's dead messages. A warning in the log says when they come near.
    pub struct QueueDead {
        /// How many messages.
        // A service that is broken for a night at a message a second leaves as many, and an operator can still look through them.
        messages_max: Between<1, 1_000_000> = const { Between::new(100_000) },
        /// How many bytes of messages, with their heads.
        // As much as a topic of a hub keeps.
        bytes_max: Size = Size(1 << 30),
        /// How long a message is kept after its death.
        // Longer than a holiday.
        age_max: Timeout = Timeout(Duration::from_secs(30 * 24 * 3600)),
    }
}

keys! {
    /// The retries of a message.
    pub struct QueueRetry {
        /// How many attempts a message has in all.
        // With the pauses below, a quarter of a minute: a restart of the service behind.
        attempts: Between<1, 1000> = const { Between::new(5) },
        /// The pause after the first attempt.
        initial: Timeout = Timeout(Duration::from_secs(1)),
        /// How many times longer each further pause is than the one before.
        factor: Factor = Factor::TWO,
        /// The longest pause.
        max: Timeout = Timeout(Duration::from_secs(60)),
    }
}

words! {
    /// Whether a message waits until the one before has ended.
    pub enum QueueOrder {
        /// Always.
        Strict = "strict",
        /// Not for one that is tried again.
        Free = "free",
    }
}
