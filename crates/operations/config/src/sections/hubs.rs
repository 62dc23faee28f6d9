//! `hubs.NAME`: topics with their publishers, subscribers and readers.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::policies::{EventWindow, Requests};
use crate::sections::UpstreamTls;
use crate::values::{Between, Map, Network, OneOrMore, Secret, Size, Spanned, Timeout};

keys! {
    /// A hub of events: publishers, subscribers by WebSub, and readers by long poll or as an event stream.
    pub struct Hub {
        /// The names of its topics.
        topics: Vec<Spanned<String>>,
        /// Scopes by topic. A client's token needs one of them to subscribe to the topic, to read it, and to publish without a signature.
        /// Topics that are not named need none.
        scopes: Map<OneOrMore<String>> = Map::default(),
        /// The URL of the hub for its clients, such as `https://hub.example/news`. Links to the hub and its topics begin with it. If
        /// absent, they begin with the scheme and host of the request.
        url: Option<Spanned<String>>,
        /// The secret with which publishers sign. If absent, every request that the route's policies allow may publish.
        secret: Option<Spanned<Secret>>,
        /// The header with a publisher's signature, `METHOD=HEX`.
        signature: Spanned<String> = Spanned::unwritten("x-hub-signature".to_owned()),
        /// The hash of signatures, of publishers and on deliveries.
        algorithm: HubAlgorithm = HubAlgorithm::Sha256,
        /// The path below the hub's own at which events are published, or several.
        publish: OneOrMore<Spanned<String>> = OneOrMore(vec![Spanned::unwritten("/publish".to_owned())]),
        /// How long subscriptions last.
        leases: HubLeases,
        /// The maximum number of subscriptions; 429 above.
        // About 100 MB of a gateway's memory.
        subscriptions_max: Between<1, 10_000_000> = const { Between::new(100_000) },
        /// Whether the callback is verified by a challenge (verification of intent). `false` is for tests.
        // Otherwise, anyone could cause events to be sent to any URL.
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
        // Each is held in memory while it is published, and once for each delivery in progress.
        event_bytes_max: Spanned<Size> = Spanned::unwritten(Size(1 << 20)),
    }
}

words! {
    /// The hash of a signature.
    pub enum HubAlgorithm {
        /// SHA-1, for subscribers that support nothing else.
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
        /// The lease of a subscriber that does not request one.
        // The default that the W3C recommendation suggests.
        default: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(10 * 86_400))),
        /// The longest lease. A longer request is shortened to it.
        max: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(30 * 86_400))),
    }
}

keys! {
    /// How events are delivered to callbacks.
    pub struct HubDelivery {
        /// The timeout of one attempt, from the connection to the reply.
        // A callback that only stores an event takes far less.
        timeout: Timeout = Timeout(Duration::from_secs(10)),
        /// How many times a failed delivery is retried.
        // With the pauses below, over four minutes: a restart of the subscriber.
        retries: Between<0, 100> = const { Between::new(8) },
        /// The pause before the first retry. Each further one is twice as long.
        initial: Timeout = Timeout(Duration::from_secs(1)),
        /// The longest pause.
        max: Timeout = Timeout(Duration::from_secs(5 * 60)),
        /// How many events may be in flight to one subscription. With more than one, they may arrive out of order.
        concurrency: Between<1, 100> = const { Between::new(1) },
        /// Whether events whose last retry has failed are kept, so that the admin API can show and resend them.
        dead_letter: bool = true,
    }
}

keys! {
    /// Which callbacks are called.
    pub struct HubCallbacks {
        /// Networks that are called although they are private, loopback or link-local, such as `10.1.0.0/16`.
        // Otherwise, a subscriber could reach hosts that only the gateway can.
        allow: Vec<Network> = Vec::new(),
    }
}

keys! {
    /// How long the events of a topic are kept.
    pub struct HubRetention {
        /// The age at which events are removed.
        // A reader that is away for a weekend finds all events.
        age: Timeout = Timeout(Duration::from_secs(7 * 86_400)),
        /// The maximum size of the events of a topic. Beyond it, the oldest are removed.
        bytes: Spanned<Size> = Spanned::unwritten(Size(1 << 30)),
    }
}

keys! {
    /// Where events are kept, if not in the gateway's `store`. Subscriptions and dead events remain in the store.
    pub struct HubLog {
        /// An Apache Kafka cluster, in which each topic of the hub is a topic with one partition.
        kafka: HubKafka,
    }
}

keys! {
    /// An Apache Kafka cluster.
    pub struct HubKafka {
        /// Bootstrap brokers, as `HOST:PORT`. They name the others.
        brokers: Spanned<Vec<Spanned<String>>>,
        /// The prefix of the names of topics in Kafka; the hub's names follow.
        // Without a prefix, existing topics can be used under their names.
        topics_prefix: Spanned<String> = Spanned::unwritten(String::new()),
        /// TLS to the brokers; plain connections if absent.
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
        /// The password, preferably as `${NAME}`.
        password: Spanned<Secret>,
        /// The SASL mechanism.
        // The broker does not learn the password.
        mechanism: HubSaslMechanism = HubSaslMechanism::ScramSha512,
    }
}

words! {
    /// A SASL mechanism.
    pub enum HubSaslMechanism {
        /// Sends the password itself, which needs TLS.
        Plain = "plain",
        /// SCRAM with SHA-256.
        ScramSha256 = "scram-sha-256",
        /// SCRAM with SHA-512.
        ScramSha512 = "scram-sha-512",
    }
}

keys! {
    /// Limits on deliveries per time, beyond which they are dropped, and on subscriptions.
    pub struct HubLimits {
        /// How many events are delivered in the time of `per`. Retries do not count.
        events: Option<Spanned<Requests>>,
        /// How many bytes of events are delivered in the time of `per`.
        bytes: Option<Spanned<Size>>,
        /// The time, such as `30d`. It begins with the first delivery in it.
        per: Option<Spanned<Timeout>>,
        /// More windows, all of which apply, such as `[{ events: 10, per: 1s }]`.
        windows: Vec<Spanned<EventWindow>> = Vec::new(),
        /// How many subscriptions a subject may have; 429 above.
        subscriptions: Option<Spanned<Requests>>,
        /// Whether the limits of the subscriber's plan apply, as in the section `plans`; those written here are for subscribers without
        /// one.
        plans: bool = false,
        /// The plan of subscribers without one, such as `AsyncWHBronze`, instead of limits written here.
        default: Option<Spanned<String>>,
        /// Which deliveries share a count.
        // Plans are usually per subject.
        by: HubLimitBy = HubLimitBy::Subject,
    }
}

words! {
    /// Which deliveries share a count.
    pub enum HubLimitBy {
        /// Those of all subscriptions of a subject.
        Subject = "subject",
        /// Those of one subscription.
        Subscription = "subscription",
    }
}
