//! The objects of the catalog: in the store, and in memory as last read or written.
//!
//! Owns the rows. An object is written only if it was not changed since its writer read it. A write is acknowledged once it is durable
//! and in memory. Changes of other gateways are read row by row, by means of [`crate::foreign_changes`].

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use store::nodes::Nodes;
use store::{Change, Error, Expect, Row, Scan, Store};

use crate::application_rows::ApplicationRows;
use crate::digest;
use crate::foreign_changes::{self, ForeignChanges, Reader, Writer};
use crate::objects::{Application, Object, Subscription};
use crate::subscription_rows::SubscriptionRows;

/// The table of all rows.
const TABLE: &str = "catalog";

/// The limit of removals that are remembered. When it is reached, all are forgotten. Remembering matters only for a read that began before
/// the removal, which would otherwise restore the row.
const GONE_MAX: usize = 100_000;

/// The limit of rows in one scan.
const ROWS: usize = 1000;

/// All objects.
pub(crate) struct ObjectStore {
    store: Arc<dyn Store>,
    /// Tells whether other gateways use the same store.
    nodes: Arc<Nodes>,
    memory: RwLock<Memory>,
    writer: Writer,
    reader: Mutex<Reader>,
    /// True if all rows have to be read again, for example because it is unknown whether a write of this gateway took effect.
    unsure: AtomicBool,
}

/// The limit of changes in one call to the store, without the entry of the ring.
pub(crate) const CHANGES_MAX: usize = store::limits::ITEMS_MAX - 1;

#[derive(Default)]
struct Memory {
    kinds: HashMap<&'static str, Rows>,
    /// Rows that were removed here, with the version of the removal.
    gone: HashMap<String, u64>,
}

/// The objects of one kind.
enum Rows {
    Objects(Objects),
    Applications(ApplicationRows),
    Subscriptions(SubscriptionRows),
}

/// The objects of a kind with few objects.
#[derive(Default)]
struct Objects {
    rows: HashMap<String, Known>,
    /// While all rows are being read: the objects that were known before and have not been read yet.
    unread: HashSet<String>,
}

/// An object with the version of its row.
#[derive(Clone)]
struct Known {
    object: AnyObject,
    version: u64,
}

/// An object as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Read<T> {
    pub(crate) object: Arc<T>,
    pub(crate) version: u64,
}

/// The reason why an object was not written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The object was changed since it was read, or another object has the name.
    Conflict,
    /// The store cannot be reached.
    Unavailable(String),
}

/// An object of any kind.
type AnyObject = Arc<dyn Any + Send + Sync>;

/// Changes that are made atomically.
#[derive(Default)]
pub(crate) struct Batch {
    changes: Vec<Change>,
    /// The effect of each change on memory once it is durable, by the index of the change.
    effects: Vec<(usize, &'static str, String, Option<AnyObject>)>,
}

impl Batch {
    /// Writes a new object.
    pub(crate) fn add<T: Object>(&mut self, object: T) {
        for name in object.names() {
            self.name::<T>(&name, Some(object.id().to_owned()), Expect::Nothing);
        }
        self.put(object, Expect::Nothing);
    }

    /// Writes a changed object.
    pub(crate) fn change<T: Object>(&mut self, read: &Read<T>, object: T) {
        let (before, after) = (read.object.names(), object.names());
        for gone in before.iter().filter(|name| !after.contains(name)) {
            self.name::<T>(gone, None, Expect::Anything);
        }
        for new in after.iter().filter(|name| !before.contains(name)) {
            self.name::<T>(new, Some(object.id().to_owned()), Expect::Nothing);
        }
        self.put(object, Expect::Version(read.version));
    }

    /// Removes an object that was read.
    pub(crate) fn remove<T: Object>(&mut self, read: &Read<T>) {
        for name in read.object.names() {
            self.name::<T>(&name, None, Expect::Anything);
        }
        let id = read.object.id().to_owned();
        self.effects.push((self.changes.len(), T::KIND, id.clone(), None));
        self.push(key::<T>(&id), None, Expect::Version(read.version));
    }

    fn put<T: Object>(&mut self, object: T, expect: Expect) {
        // Harmless: an object can always be serialised.
        let value = serde_json::to_vec(&object).unwrap_or_default();
        let id = object.id().to_owned();
        self.effects.push((self.changes.len(), T::KIND, id.clone(), Some(Arc::new(object))));
        self.push(key::<T>(&id), Some(value), expect);
    }

    fn name<T: Object>(&mut self, name: &str, id: Option<String>, expect: Expect) {
        let digest = digest::sha256(name);
        let key = format!("name/{}/{digest}", T::KIND);
        self.push(key, id.map(String::into_bytes), expect);
    }

    fn push(&mut self, key: String, value: Option<Vec<u8>>, expect: Expect) {
        let value = value.map(Into::into);
        self.changes.push(Change { table: TABLE.into(), key: key.into_bytes(), value, expect });
    }
}

fn key<T: Object>(id: &str) -> String {
    format!("{}/{id}", T::KIND)
}

impl ObjectStore {
    pub(crate) fn new(store: Arc<dyn Store>, nodes: Arc<Nodes>) -> ObjectStore {
        ObjectStore {
            store,
            nodes,
            memory: RwLock::default(),
            writer: Writer::new(),
            reader: Mutex::default(),
            unsure: AtomicBool::new(false),
        }
    }

    /// The rows that other gateways have changed since the last check.
    pub(crate) async fn foreign_changes(&self) -> Result<ForeignChanges, WriteError> {
        if self.unsure.swap(false, Ordering::AcqRel) {
            return Ok(ForeignChanges::Everything);
        }
        let mut others = Vec::new();
        self.rows(foreign_changes::PREFIX, |row| {
            if !self.writer.owns(&row.key) {
                others.push(row);
            }
        })
        .await?;
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(reader.read(&others, kit::clock::now()))
    }

    /// True if all rows have to be read again.
    pub(crate) fn is_unsure(&self) -> bool {
        self.unsure.load(Ordering::Acquire)
    }

    /// Requests that all rows are read again.
    pub(crate) fn set_unsure(&self) {
        self.unsure.store(true, Ordering::Release);
    }

    /// Removes ring entries that are no longer needed.
    pub(crate) async fn remove_old_changes(&self, now: u64) -> Result<(), WriteError> {
        let mut changes = Vec::new();
        self.rows(foreign_changes::PREFIX, |row| {
            // Later turns remove the rest.
            if foreign_changes::is_over(&row, now) && changes.len() < CHANGES_MAX {
                changes.push(Change {
                    table: TABLE.into(),
                    key: row.key.to_vec(),
                    value: None,
                    expect: Expect::Version(row.version),
                });
            }
        })
        .await?;
        if changes.is_empty() {
            return Ok(());
        }
        self.store.change(changes, None).await.map(drop).map_err(away)
    }

    /// Reads all objects of a kind from the store. Changes that this gateway makes meanwhile are kept.
    pub(crate) async fn load<T: Object>(&self) -> Result<(), WriteError> {
        self.write().of::<T>().begin_reading();
        self.rows(&format!("{}/", T::KIND), |row| {
            // Harmless: an unreadable row is logged.
            if let Some((id, known)) = read::<T>(&row) {
                self.write().take_over::<T>(id, known);
            }
        })
        .await?;
        self.write().of::<T>().end_reading();
        Ok(())
    }

    /// Reads one row again. Returns the previous object.
    pub(crate) async fn refresh<T: Object>(&self, id: &str) -> Result<Option<Read<T>>, WriteError> {
        let before = self.get::<T>(id);
        let row = self.store.get(TABLE, key::<T>(id).as_bytes()).await.map_err(away)?;
        let mut memory = self.write();
        match row.as_ref().map(read::<T>) {
            Some(Some((id, known))) => memory.take_over::<T>(id, known),
            Some(None) => {}
            None => {
                let rows = memory.of::<T>();
                if rows.version(id) == before.as_ref().map(|read| read.version) {
                    rows.remove(id);
                }
            }
        }
        Ok(before)
    }

    /// Calls `each` with all rows whose keys have a prefix.
    async fn rows(&self, prefix: &str, mut each: impl FnMut(Row)) -> Result<(), WriteError> {
        let mut after = None;
        loop {
            let scan = Scan { prefix: prefix.as_bytes().to_vec(), after, rows_max: ROWS };
            let read = self.store.scan(TABLE, scan).await.map_err(away)?;
            after = read.rows.last().map(|row| row.key.to_vec());
            read.rows.into_iter().for_each(&mut each);
            if !read.more || after.is_none() {
                return Ok(());
            }
        }
    }

    /// One object.
    pub(crate) fn get<T: Object>(&self, id: &str) -> Option<Read<T>> {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        memory.kinds.get(T::KIND)?.get(id).as_ref().and_then(typed)
    }

    /// All objects of a kind, in no particular order. There may be too many applications and subscriptions for this: [`Self::each`]
    /// visits one at a time.
    pub(crate) fn all<T: Object>(&self) -> Vec<Read<T>> {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        if let Some(rows) = memory.kinds.get(T::KIND) {
            // Harmless: all rows of a kind have its type.
            rows.each(|known| all.extend(typed(known)));
        }
        all
    }

    /// Visits each object of a kind with its version. `look` must not access the object store: while a writer waits for the lock, that would
    /// deadlock.
    pub(crate) fn each<T: Object>(&self, mut look: impl FnMut(&T, u64)) {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = memory.kinds.get(T::KIND) {
            rows.each(|known| {
                if let Some(object) = known.object.downcast_ref() {
                    look(object, known.version);
                }
            });
        }
    }

    /// The subscriptions of an application, the newest first.
    pub(crate) fn subscriptions_of(&self, application: &str) -> Vec<Subscription> {
        self.with_subscriptions(|rows| rows.of_application(application).collect())
    }

    pub(crate) fn count_subscriptions_of(&self, application: &str) -> usize {
        self.with_subscriptions(|rows| rows.count_of(application))
    }

    /// The applications that have subscribed to an API.
    pub(crate) fn subscribers_of(&self, api: &str) -> Vec<String> {
        self.with_subscriptions(|rows| rows.subscribers_of(api).collect())
    }

    fn with_subscriptions<R: Default>(&self, look: impl FnOnce(&SubscriptionRows) -> R) -> R {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        match memory.kinds.get(Subscription::KIND) {
            Some(Rows::Subscriptions(rows)) => look(rows),
            // Harmless: before the first load there are none.
            Some(Rows::Objects(_) | Rows::Applications(_)) | None => R::default(),
        }
    }

    /// Writes one new object.
    pub(crate) async fn add<T: Object>(&self, object: T) -> Result<(), WriteError> {
        let mut batch = Batch::default();
        batch.add(object);
        self.commit(batch).await
    }

    /// Writes one changed object.
    pub(crate) async fn change<T: Object>(
        &self,
        read: &Read<T>,
        object: T,
    ) -> Result<(), WriteError> {
        let mut batch = Batch::default();
        batch.change(read, object);
        self.commit(batch).await
    }

    /// Removes one object that was read.
    pub(crate) async fn remove<T: Object>(&self, read: &Read<T>) -> Result<(), WriteError> {
        let mut batch = Batch::default();
        batch.remove(read);
        self.commit(batch).await
    }

    /// Makes the changes of a batch atomically.
    pub(crate) async fn commit(&self, batch: Batch) -> Result<(), WriteError> {
        if batch.changes.is_empty() {
            return Ok(());
        }
        let mut changes = batch.changes;
        let mut listed = None;
        if self.nodes.has_company() {
            let rows = batch.effects.iter().map(|(_, kind, id, _)| format!("{kind}/{id}"));
            let pending = self.writer.begin(rows.collect());
            changes.push(Change {
                table: TABLE.into(),
                key: pending.key.clone().into_bytes(),
                value: Some(pending.value.clone().into()),
                expect: Expect::Anything,
            });
            listed = Some(pending);
        }
        let written = self.store.change(changes, None).await;
        if let (Err(_), Some(pending)) = (&written, listed) {
            self.writer.failed(pending);
        }
        if matches!(written, Err(Error::Unavailable(_) | Error::OutcomeUnknown(_))) {
            self.set_unsure();
        }
        let versions = written.map_err(away)?;
        let mut memory = self.write();
        for (at, kind, id, object) in batch.effects {
            // Harmless: there is a version for each change.
            let version = versions.get(at).copied().unwrap_or_default();
            let rows = memory.kind(kind);
            // A later change of the same row may have been read already.
            let is_newer = rows.version(&id).is_none_or(|known| known < version);
            match object {
                Some(object) if is_newer => rows.insert(id, Known { object, version }),
                None if is_newer => {
                    rows.remove(&id);
                    memory.forget(format!("{kind}/{id}"), version);
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    /// A watch that wakes up when any gateway has changed a row.
    pub(crate) fn watch(&self) -> store::Watch {
        self.store.watch(TABLE)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Memory> {
        self.memory.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn new(kind: &str) -> Rows {
        match kind {
            Application::KIND => Rows::Applications(ApplicationRows::default()),
            Subscription::KIND => Rows::Subscriptions(SubscriptionRows::default()),
            _ => Rows::Objects(Objects::default()),
        }
    }

    fn get(&self, id: &str) -> Option<Known> {
        match self {
            Rows::Objects(objects) => objects.rows.get(id).cloned(),
            Rows::Applications(rows) => rows.get(id).map(known),
            Rows::Subscriptions(rows) => rows.get(id).map(known),
        }
    }

    fn version(&self, id: &str) -> Option<u64> {
        match self {
            Rows::Objects(objects) => objects.rows.get(id).map(|known| known.version),
            Rows::Applications(rows) => rows.version(id),
            Rows::Subscriptions(rows) => rows.version(id),
        }
    }

    fn insert(&mut self, id: String, known: Known) {
        let (object, version) = (&known.object, known.version);
        let is_kept = match self {
            Rows::Objects(objects) => {
                objects.unread.remove(&id);
                objects.rows.insert(id, known);
                return;
            }
            Rows::Applications(rows) => {
                object.downcast_ref().is_some_and(|one| rows.insert(one, version))
            }
            Rows::Subscriptions(rows) => {
                object.downcast_ref().is_some_and(|one| rows.insert(one, version))
            }
        };
        if !is_kept {
            tracing::error!(%id, "a row of the catalog cannot be read, and is left out");
        }
    }

    fn remove(&mut self, id: &str) {
        match self {
            Rows::Objects(objects) => drop(objects.rows.remove(id)),
            Rows::Applications(rows) => rows.remove(id),
            Rows::Subscriptions(rows) => rows.remove(id),
        }
    }

    fn each(&self, look: impl FnMut(&Known)) {
        match self {
            Rows::Objects(objects) => objects.rows.values().for_each(look),
            Rows::Applications(rows) => rows.iter().map(known).for_each(by_reference(look)),
            Rows::Subscriptions(rows) => rows.iter().map(known).for_each(by_reference(look)),
        }
    }

    /// Begins a reading of all rows.
    fn begin_reading(&mut self) {
        match self {
            Rows::Objects(objects) => objects.unread = objects.rows.keys().cloned().collect(),
            Rows::Applications(rows) => rows.begin_reading(),
            Rows::Subscriptions(rows) => rows.begin_reading(),
        }
    }

    /// Notes that the store has this row.
    fn note(&mut self, id: &str) {
        match self {
            Rows::Objects(objects) => drop(objects.unread.remove(id)),
            Rows::Applications(rows) => rows.note(id),
            Rows::Subscriptions(rows) => rows.note(id),
        }
    }

    /// Ends a reading of all rows. Earlier objects without a row are removed.
    fn end_reading(&mut self) {
        match self {
            Rows::Objects(Objects { rows, unread }) => {
                std::mem::take(unread).iter().for_each(|id| drop(rows.remove(id)));
            }
            Rows::Applications(rows) => rows.end_reading(),
            Rows::Subscriptions(rows) => rows.end_reading(),
        }
    }
}

fn known<T: Object>((object, version): (T, u64)) -> Known {
    Known { object: Arc::new(object), version }
}

fn by_reference(mut look: impl FnMut(&Known)) -> impl FnMut(Known) {
    move |known| look(&known)
}

impl Memory {
    fn of<T: Object>(&mut self) -> &mut Rows {
        self.kind(T::KIND)
    }

    fn kind(&mut self, kind: &'static str) -> &mut Rows {
        self.kinds.entry(kind).or_insert_with(|| Rows::new(kind))
    }

    /// Adopts a row that was read, unless a later version is known.
    fn take_over<T: Object>(&mut self, id: String, known: Known) {
        let removed = self.gone.get(&key::<T>(&id)).copied().unwrap_or(0);
        let rows = self.of::<T>();
        rows.note(&id);
        let had = rows.version(&id).unwrap_or(0);
        if known.version > had.max(removed) {
            rows.insert(id, known);
        }
    }

    fn forget(&mut self, key: String, version: u64) {
        if self.gone.len() >= GONE_MAX {
            self.gone.clear();
        }
        self.gone.insert(key, version);
    }
}

fn typed<T: Object>(known: &Known) -> Option<Read<T>> {
    // Harmless: all rows of a kind have its type.
    let object = known.object.clone().downcast().ok()?;
    Some(Read { object, version: known.version })
}

fn read<T: Object>(row: &Row) -> Option<(String, Known)> {
    match serde_json::from_slice::<T>(&row.value) {
        Ok(object) => {
            let id = object.id().to_owned();
            Some((id, Known { object: Arc::new(object), version: row.version }))
        }
        Err(error) => {
            tracing::error!(kind = T::KIND, %error, "a row of the catalog cannot be read, and is left out");
            None
        }
    }
}

fn away(error: Error) -> WriteError {
    if matches!(error, Error::Conflict { .. }) {
        return WriteError::Conflict;
    }
    WriteError::Unavailable(error.to_string())
}
