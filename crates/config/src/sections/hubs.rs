//! `hubs.NAME`: topics that are published to, with their subscribers and readers.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::policies::{EventWindow, Requests};
use crate::sections::UpstreamTls;
use crate::values::{Between, Network, OneOrMore, Secret, Size, Spanned, Timeout};

keys! {
    /// A hub of events: publishers, subscribers by WebSub, and readers by long poll or as an event stream.
    pub struct Hub {
        /// The names of its topics.
        topics: Vec<Spanned<String>>,
        /// The URL of the hub as its clients see it, such as `https://hub.example/news`. Links to the hub and its topics begin with it; if absent,
        /// with the scheme and the host that the client asked.
        url: Option<Spanned<String>>,
        /// The secret with which publishers sign; without it every request that the route's policies allow may publish.
        secret: Option<Spanned<Secret>>,
        /// The header with a publisher's signature, `METHOD=HEX`.
        signature: Spanned<String> = Spanned::unwritten("x-hub-signature".to_owned()),
        /// The hash of signatures, of publishers and on deliveries.
        algorithm: HubAlgorithm = HubAlgorithm::Sha256,
        /// The path below the hub's own at which events are published, or several.
        publish: OneOrMore<Spanned<String>> = OneOrMore(vec![Spanned::unwritten("/publish".to_owned())]),
        /// How long subscriptions last.
        leases: HubLeases,
        /// How many subscriptions there may be; 429 above.
        // About 100 MB of a gateway's memory.
        subscriptions_max: Between<1, 10_000_000> = const { Between::new(100_000) },
        /// Whether the callback is verified by a challenge (verification of intent). `false` is for tests.
        // Otherwise anybody could have events sent to anybody.
        verify: bool = true,
        /// How events are delivered.
        delivery: HubDelivery,
        /// Which callbacks are called.
        callbacks: HubCallbacks,
        /// How long events are kept.
        retention: HubRetention,
        /// Where events are kept, if it is not the gateway's `store`.
        log: Option<HubLog>,
        /// Limits on deliveries in a time, and on subscriptions of a subject; none if absent.
        limits: Option<Spanned<HubLimits>>,
        /// The largest event; 413 above.
        // Each is held in memory while it is published, and once for each delivery under way.
        event_bytes_max: Spanned<Size> = Spanned::unwritten(Size(1 << 20)),
    }
}

words! {
    /// The hash of a signature.
    pub enum HubAlgorithm {
        /// SHA-1, for subscribers that know no other.
        Sha1 = "sha1",
        /// SHA-256.
        Sha256 = "sha256",
        /// SHA-384.
        Sha384 = "sha384",
        /// SHA-512.
        Sha512 = "sha512",
    }
}

keys! {
    /// How long subscriptions last before they have to be renewed.
    pub struct HubLeases {
        /// The lease of a subscriber that asks for none.
        // What the W3C names as usual for one.
        default: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(10 * 86_400))),
        /// The longest lease; a longer one that is asked for is shortened to it.
        max: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(30 * 86_400))),
    }
}

keys! {
    /// How events are delivered to callbacks.
    pub struct HubDelivery {
        /// The time for one try, from the connection to the reply.
        // A callback that only takes an event down is done in far less.
        timeout: Timeout = Timeout(Duration::from_secs(10)),
        /// How often a failed delivery is tried again.
        // With the pauses below, over four minutes: a restart of the subscriber.
        retries: Between<0, 100> = const { Between::new(8) },
        /// The pause before the first retry. Each further one is twice as long.
        initial: Timeout = Timeout(Duration::from_secs(1)),
        /// The longest pause.
        max: Timeout = Timeout(Duration::from_secs(5 * 60)),
        /// How many events may be under way to one subscription. With more than one they may arrive in another order.
        concurrency: Between<1, 100> = const { Between::new(1) },
        /// Whether what failed for the last time is kept, to be seen and sent again by the admin API.
        dead_letter: bool = true,
    }
}

keys! {
    /// Which callbacks are called.
    pub struct HubCallbacks {
        /// Networks that are called although they are private, loopback or link-local, such as `10.1.0.0/16`.
        // A subscriber could reach what only the gateway can.
        allow: Vec<Network> = Vec::new(),
    }
}

keys! {
    /// How long the events of a topic are kept.
    pub struct HubRetention {
        /// Older ones go.
        // A reader that is away for a weekend finds all.
        age: Timeout = Timeout(Duration::from_secs(7 * 86_400)),
        /// The oldest go once those of a topic are larger together.
        bytes: Spanned<Size> = Spanned::unwritten(Size(1 << 30)),
    }
}

keys! {
    /// Where events are kept, if it is not the gateway's `store`. Subscriptions and what is dead stay there.
    pub struct HubLog {
        /// A cluster of Apache Kafka, where each topic of the hub is a topic of one partition.
        kafka: HubKafka,
    }
}

keys! {
    /// A cluster of Apache Kafka.
    pub struct HubKafka {
        /// Some of its brokers, as `HOST:PORT`. They name the others.
        brokers: Spanned<Vec<Spanned<String>>>,
        /// The prefix of the names of topics in Kafka; the hub's names follow.
        // Without one a topic that is there already keeps its name.
        topics_prefix: Spanned<String> = Spanned::unwritten(String::new()),
        /// TLS to the brokers; without it connections are plain.
        tls: Option<UpstreamTls>,
        /// The credentials of the gateway at the brokers; none if absent.
        sasl: Option<HubSasl>,
    }
}

keys! {
    /// The credentials of the gateway at the brokers.
    pub struct HubSasl {
        /// The name.
        user: Spanned<String>,
        /// The password, best `${NAME}`.
        password: Spanned<Secret>,
        /// How that is proved.
        // The broker learns nothing by it that it does not know.
        mechanism: HubSaslMechanism = HubSaslMechanism::ScramSha512,
    }
}

words! {
    /// How a password is proved.
    pub enum HubSaslMechanism {
        /// By the password itself, which needs TLS.
        Plain = "plain",
        /// SCRAM with SHA-256.
        ScramSha256 = "scram-sha-256",
        /// SCRAM with SHA-512.
        ScramSha512 = "scram-sha-512",
    }
}

keys! {
    /// Limits on deliveries in a time, which are dropped above, and on subscriptions.
    pub struct HubLimits {
        /// How many events are delivered in the time of `per`. Retries do not count.
        events: Option<Spanned<Requests>>,
        /// How many bytes of events are delivered in the time of `per`.
        bytes: Option<Spanned<Size>>,
        /// The time, such as `30d`. It begins with the first delivery in it.
        per: Option<Spanned<Timeout>>,
        /// More windows, all of which have to hold, such as `[{ events: 10, per: 1s }]`.
        windows: Vec<Spanned<EventWindow>> = Vec::new(),
        /// How many subscriptions a subject may have; 429 above.
        subscriptions: Option<Spanned<Requests>>,
        /// Whether the limits of the subscriber's plan apply, as in the section `plans`; those written here are for subscribers without one.
        plans: bool = false,
        /// The plan of subscribers without one, such as `AsyncWHBronze`, instead of limits written here.
        default: Option<Spanned<String>>,
        /// Whose deliveries count together.
        // What a plan is sold to.
        by: HubLimitBy = HubLimitBy::Subject,
    }
}

words! {
    /// Whose deliveries count together.
    pub enum HubLimitBy {
        /// Those of all subscriptions of a subject.
        Subject = "subject",
        /// Those of one subscription.
        Subscription = "subscription",
    }
}
