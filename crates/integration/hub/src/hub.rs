//! One hub: its topics, and the operations on them.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use delivery::rows::{self, Rows};
use fault::{Fault, Kind};
use policy::Exchange;
use store::nodes::Nodes;
use store::{Change, Error, Expect, Guard, Scan, Store};
use telemetry::{TopicMetrics, UpstreamMetrics};

use crate::callbacks::CallbackSettings;
use crate::event;
use crate::feed::Feed;
use crate::hub_state::HubState;
use crate::positions::{self, Group, StoredPosition};
use crate::reader::store_fault;
use crate::representation::Representation;
use crate::settings::HubSettings;
use crate::signature::SigningKey;
use crate::subscription::{Id, Subscription, read};

/// One hub. It is rebuilt when its settings change; its data is in the store.
pub struct Hub {
    pub(crate) settings: HubSettings,
    pub(crate) topics: Box<[Topic]>,
    /// The index of each topic by its name. There may be ten thousand topics.
    places: HashMap<Box<[u8]>, usize>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) state: Arc<HubState>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) tables: Tables,
    /// The key that publishers sign with, if they must.
    publisher: Option<SigningKey>,
    tls: tls::Client,
    /// The metrics of connections to callbacks.
    connections: Arc<UpstreamMetrics>,
}

/// One topic of a hub.
pub(crate) struct Topic {
    pub(crate) name: Box<str>,
    /// A client needs one of these scopes. If the list is empty, all clients have access.
    scopes: Box<[Box<str>]>,
    /// The log of its events.
    pub(crate) log: Arc<str>,
    pub(crate) metrics: Arc<TopicMetrics>,
}

/// The tables of a hub.
pub(crate) struct Tables {
    pub(crate) subscriptions: Arc<str>,
    /// Positions of subscriptions: a row for each group.
    pub(crate) cursors: Arc<str>,
    /// Dead events.
    pub(crate) dead: Arc<str>,
    /// Updates for the node that owns a subscription. The key is the id of the subscription, or the key of a dead event to send again. The
    /// row that pauses deliveries is in this table too.
    pub(crate) news: Arc<str>,
}

/// The environment of a hub: everything it is made with except its settings.
pub struct Parts<'a> {
    pub store: Arc<dyn Store>,
    /// This process among those that share the store.
    pub nodes: Arc<Nodes>,
    /// The state that is kept when the settings change.
    pub state: Arc<HubState>,
    /// The TLS settings for callbacks with `https`.
    pub tls: tls::Client,
    /// The metrics of connections to callbacks.
    pub connections: Arc<UpstreamMetrics>,
    /// Returns the metrics of a topic.
    pub metrics: &'a dyn Fn(&str) -> Arc<TopicMetrics>,
}

impl Topic {
    /// Refuses a client that has none of the scopes.
    pub(crate) fn check_scopes(&self, ex: &Exchange) -> Result<(), Fault> {
        let claims = ex.identity.as_ref().and_then(|identity| identity.claims.as_deref());
        let has = |scope: &str| claims.is_some_and(|claims| claims.has_scope(scope));
        if self.scopes.is_empty() || self.scopes.iter().any(|scope| has(scope)) {
            return Ok(());
        }
        Err(Fault::new(Kind::ScopeMissing, format!("no scope for the topic {}", self.name)))
    }
}

/// The number of rows read at once.
const ROWS_MAX: usize = 1000;

/// A stored subscription, with its version and its position.
pub(crate) type StoredSubscription = (Id, u64, Subscription, Option<StoredPosition>);

/// The stored subscriptions of a worker in a partition.
pub(crate) struct StoredSubscriptions {
    pub(crate) all: Vec<StoredSubscription>,
    /// The positions of subscriptions that cannot be read.
    pub(crate) unread: UnreadPositions,
}

/// Positions of subscriptions that cannot be read, with the indexes of their topics. They are kept for the version that can.
pub(crate) type UnreadPositions = BTreeMap<Id, (u32, StoredPosition)>;

impl Hub {
    pub fn new(settings: HubSettings, parts: Parts<'_>) -> Hub {
        let Parts { store, nodes, state, tls, connections, metrics } = parts;
        let scopes = settings.scopes.iter().cloned();
        let mut scopes: HashMap<Box<str>, Box<[Box<str>]>> = scopes.collect();
        let mut topic = |name: &str| Topic {
            // Harmless: a topic without configured scopes is open to all clients.
            scopes: scopes.remove(name).unwrap_or_default(),
            log: format!("hub/{}/topic/{name}", settings.name).into(),
            metrics: metrics(name),
            name: name.into(),
        };
        let table = |kind| Arc::from(format!("hub/{}/{kind}", settings.name));
        let secret = settings.secret.as_ref();
        let places = settings.topics.iter().enumerate();
        Hub {
            places: places.map(|(place, name)| (name.as_bytes().into(), place)).collect(),
            topics: settings.topics.iter().map(|name| topic(name)).collect(),
            tables: Tables {
                subscriptions: table("subscriptions"),
                cursors: table("cursors"),
                dead: table("dead"),
                news: table("news"),
            },
            publisher: secret.map(|secret| SigningKey::new(settings.algorithm, secret.as_bytes())),
            store,
            state,
            nodes,
            tls,
            connections,
            settings,
        }
    }

    /// True if the hub has these settings.
    pub fn is_of(&self, settings: &HubSettings) -> bool {
        self.settings == *settings
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// The topic with a name.
    pub(crate) fn topic(&self, name: &[u8]) -> Option<&Topic> {
        self.topics.get(self.place_of(name)?)
    }

    /// The index of the topic with a name.
    pub(crate) fn place_of(&self, name: &[u8]) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// This worker's feed of a topic.
    pub(crate) fn feed(&self, topic: &Topic) -> Rc<Feed> {
        Feed::of(&self.store, self.state.serial, &topic.log)
    }

    /// The settings of connections to callbacks.
    pub(crate) fn callback_settings(&self) -> CallbackSettings {
        CallbackSettings {
            tls: self.tls.clone(),
            rule: Arc::new(self.settings.callbacks.clone()),
            metrics: self.connections.clone(),
            timeout: self.settings.delivery.timeout,
        }
    }

    /// Verifies the signature of a publisher, if one is required.
    pub(crate) fn check_publisher(&self, values: &[&[u8]], body: &[u8]) -> Result<(), Fault> {
        let Some(key) = &self.publisher else { return Ok(()) };
        let header = &self.settings.signature;
        match values {
            [] => Err(Fault::new(Kind::CredentialMissing, format!("no {header}"))),
            [value] if key.accepts(value, body) => Ok(()),
            _ => Err(Fault::new(Kind::Unauthenticated, format!("{header} does not match"))),
        }
    }

    /// True if publishers have to sign. They need no scope then.
    pub(crate) fn is_signed(&self) -> bool {
        self.publisher.is_some()
    }

    /// Publishes an event. Returns its id once it is durable.
    pub(crate) async fn publish(
        &self,
        topic: &Topic,
        representation: &Representation,
        body: &Bytes,
    ) -> Result<u64, Fault> {
        let record = event::record(representation, body)
            .ok_or_else(|| Fault::new(Kind::Internal, "the lines of an event are too long"))?;
        let appended = self.store.append(&topic.log, vec![record], None).await;
        let positions = appended.map_err(|error| store_fault(&error))?;
        topic.metrics.published();
        Ok(*positions.end())
    }

    /// Removes a subscription if it still has the expected version. Returns the version of the removal. The owner removes the position with
    /// its next write of the group. A call without a guard may not come from the owner, so it also writes an update for the owner if
    /// another node may be the owner.
    pub(crate) async fn remove_row(
        &self,
        id: Id,
        expect: Expect,
        guard: Option<&Guard>,
    ) -> Result<u64, Error> {
        let (table, key) = (self.tables.subscriptions.clone(), id.key());
        let mut changes = vec![Change { table, key, value: None, expect }];
        if guard.is_none() {
            changes.extend(self.news_of(id));
        }
        let versions = self.store.change(changes, guard).await?;
        Ok(versions.first().copied().unwrap_or(0))
    }

    /// The write that sets or deletes a dead event.
    pub(crate) fn dead_change(&self, key: &str, value: Option<Bytes>) -> Change {
        let (table, key) = (self.tables.dead.clone(), key.as_bytes().to_vec());
        Change { table, key, value, expect: Expect::Anything }
    }

    /// The condition of this node's writes: its term.
    pub(crate) fn guard(&self) -> Option<Guard> {
        self.nodes.standing().guard
    }

    /// The write that makes the owner of a subscription read its row, if another node may own it.
    pub(crate) fn news_of(&self, id: Id) -> Option<Change> {
        let value = Some(Bytes::new());
        self.nodes.has_company().then(|| self.news_change(id.key(), value, Expect::Anything))
    }

    pub(crate) fn news_change(&self, key: Vec<u8>, value: Option<Bytes>, expect: Expect) -> Change {
        Change { table: self.tables.news.clone(), key, value, expect }
    }

    /// The number of subscriptions on all nodes. Counting stops soon after `max` is reached. Subscriptions to topics that are no longer
    /// configured count too.
    pub(crate) async fn count(&self, max: usize) -> Result<usize, Error> {
        rows::count(&*self.store, &self.tables.subscriptions, max).await
    }

    /// The number of confirmed subscriptions on all nodes for which `of` returns true. Counting stops soon after `max` is reached.
    pub(crate) async fn count_confirmed(
        &self,
        max: usize,
        of: impl Fn(&Subscription) -> bool,
    ) -> Result<usize, Error> {
        let mut rows = Rows::new(&*self.store, &self.tables.subscriptions, ROWS_MAX);
        let mut count = 0;
        while count < max
            && let Some(some) = rows.next().await?
        {
            let confirmed = some.iter().filter(|row| {
                let known = read::<Subscription>(&row.value);
                known.is_some_and(|known| known.until.is_some() && of(&known))
            });
            count += confirmed.count();
        }
        Ok(count)
    }

    /// All subscriptions of a worker in a partition.
    pub(crate) async fn subscriptions_of(
        &self,
        partition: usize,
        worker: usize,
        workers: usize,
    ) -> Result<StoredSubscriptions, Error> {
        let (mut all, mut unread) = (Vec::new(), UnreadPositions::new());
        for prefix in Id::prefixes(partition, worker, workers) {
            let rows = self.rows_of(&self.tables.cursors, &prefix).await?;
            for row in rows.iter().filter(|row| !positions::is_known_form(&row.value)) {
                // Harmless: the text is only logged.
                let key = String::from_utf8_lossy(&row.key);
                tracing::warn!(
                    hub = self.name(),
                    key = &*key,
                    "positions in the store cannot be read: another version wrote them; their subscriptions start again where they began"
                );
            }
            let mut places: HashMap<Id, (u32, StoredPosition)> = HashMap::new();
            for row in &rows {
                // Harmless: subscriptions to topics that are not configured are left out, so their positions are not needed.
                let Some(topic) = self.place_of(Group::topic_of(&row.key)) else { continue };
                let topic = u32::try_from(topic).unwrap_or(u32::MAX);
                places.extend(positions::read(&row.value).map(|(id, place)| (id, (topic, place))));
            }
            for row in self.rows_of(&self.tables.subscriptions, &prefix).await? {
                let id = Id::parse(&row.key);
                let place = id.and_then(|id| places.remove(&id));
                let (Some(id), Some(known)) = (id, read::<Subscription>(&row.value)) else {
                    self.warn_unread("subscription", &row.key);
                    if let (Some(id), Some(place)) = (id, place) {
                        unread.insert(id, place);
                    }
                    continue;
                };
                let place = place.map(|(_, place)| place).filter(|place| place.from == known.from);
                all.push((id, row.version, known, place));
            }
        }
        Ok(StoredSubscriptions { all, unread })
    }

    /// The stored position of a subscription, if there is one.
    pub(crate) async fn position(
        &self,
        id: Id,
        subscription: &Subscription,
    ) -> Result<Option<StoredPosition>, Error> {
        let group = Group { topic: 0, first: id.first() };
        let row = self.store.get(&self.tables.cursors, &group.key(&subscription.topic)).await?;
        let mut places = row.iter().flat_map(|row| positions::read(&row.value));
        let place = places.find(|(of, place)| *of == id && place.from == subscription.from);
        Ok(place.map(|(_, place)| place))
    }

    /// The rows of a table whose keys begin with a prefix, in their order.
    pub(crate) async fn rows_of(
        &self,
        table: &str,
        prefix: &str,
    ) -> Result<Vec<store::Row>, Error> {
        let mut rows: Vec<store::Row> = Vec::new();
        loop {
            let after = rows.last().map(|row| row.key.to_vec());
            let scan = Scan { prefix: prefix.as_bytes().to_vec(), after, rows_max: ROWS_MAX };
            let found = self.store.scan(table, scan).await?;
            let is_last = !found.more || found.rows.is_empty();
            rows.extend(found.rows);
            if is_last {
                return Ok(rows);
            }
        }
    }
}
