//! The objects of the catalog: in the store, and in memory as they were last read or written.
//!
//! Owns the rows. An object is written only if nobody has changed it since its writer read it. A write is acknowledged once it is durable
//! and in memory.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use store::{Change, Error, Expect, Scan, Store};

use crate::objects::Object;

/// The table of all rows.
const TABLE: &str = "catalog";

/// Attempts to read a kind while others change it.
const LOADS_MAX: usize = 8;

/// The most rows of one scan.
const ROWS: usize = 1000;

/// All objects.
pub(crate) struct Shelf {
    store: Arc<dyn Store>,
    kinds: RwLock<HashMap<&'static str, Rows>>,
    /// The number of changes that were made here.
    commits: AtomicU64,
}

type Rows = HashMap<String, Known>;

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

/// Why something was not written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// Somebody else has changed the object, or another object has the name.
    Conflict,
    /// The store cannot be reached.
    Away(String),
}

/// An object of any kind.
type AnyObject = Arc<dyn Any + Send + Sync>;

/// Changes that are made all or none.
#[derive(Default)]
pub(crate) struct Batch {
    changes: Vec<Change>,
    /// What each change does to memory once it is durable, by the place of the change.
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

    /// Writes an object that was read, changed.
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
        // Harmless: an object is data, which can always be written.
        let value = serde_json::to_vec(&object).unwrap_or_default();
        let id = object.id().to_owned();
        self.effects.push((self.changes.len(), T::KIND, id.clone(), Some(Arc::new(object))));
        self.push(key::<T>(&id), Some(value), expect);
    }

    fn name<T: Object>(&mut self, name: &str, id: Option<String>, expect: Expect) {
        let digest = crate::secrets::digest(name);
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

impl Shelf {
    pub(crate) fn new(store: Arc<dyn Store>) -> Shelf {
        Shelf { store, kinds: RwLock::default(), commits: AtomicU64::new(0) }
    }

    /// Reads all objects of a kind from the store.
    pub(crate) async fn load<T: Object>(&self) -> Result<(), WriteError> {
        for _ in 0..LOADS_MAX {
            let before = self.commits.load(Ordering::Acquire);
            let rows = self.scan::<T>().await?;
            let mut kinds = self.write();
            // What was committed meanwhile may be missing among the rows.
            if self.commits.load(Ordering::Acquire) == before {
                kinds.insert(T::KIND, rows);
                return Ok(());
            }
        }
        // The next look at what others have changed reads it.
        Err(WriteError::Away("too much is changed at the moment".to_owned()))
    }

    async fn scan<T: Object>(&self) -> Result<Rows, WriteError> {
        let prefix = format!("{}/", T::KIND).into_bytes();
        let (mut rows, mut after) = (Rows::new(), None);
        loop {
            let scan = Scan { prefix: prefix.clone(), after: after.clone(), rows_max: ROWS };
            let read = self.store.scan(TABLE, scan).await.map_err(away)?;
            for row in read.rows {
                after = Some(row.key.to_vec());
                match serde_json::from_slice::<T>(&row.value) {
                    Ok(object) => {
                        let id = object.id().to_owned();
                        rows.insert(id, Known { object: Arc::new(object), version: row.version });
                    }
                    Err(error) => {
                        tracing::error!(kind = T::KIND, %error, "a row of the catalog cannot be read, and is left out")
                    }
                }
            }
            if !read.more {
                break;
            }
        }
        Ok(rows)
    }

    /// One object.
    pub(crate) fn get<T: Object>(&self, id: &str) -> Option<Read<T>> {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        kinds.get(T::KIND)?.get(id).and_then(typed)
    }

    /// All objects of a kind, in no order.
    pub(crate) fn all<T: Object>(&self) -> Vec<Read<T>> {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        // Harmless: all rows of a kind have its type.
        kinds.get(T::KIND).iter().flat_map(|rows| rows.values()).filter_map(typed).collect()
    }

    /// Writes one new object.
    pub(crate) async fn add<T: Object>(&self, object: T) -> Result<(), WriteError> {
        let mut batch = Batch::default();
        batch.add(object);
        self.commit(batch).await
    }

    /// Writes one object that was read, changed.
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

    /// Makes changes, all or none.
    pub(crate) async fn commit(&self, batch: Batch) -> Result<(), WriteError> {
        if batch.changes.is_empty() {
            return Ok(());
        }
        let versions = self.store.change(batch.changes, None).await.map_err(away)?;
        let mut kinds = self.write();
        self.commits.fetch_add(1, Ordering::AcqRel);
        for (at, kind, id, object) in batch.effects {
            let rows = kinds.entry(kind).or_default();
            // Harmless: there is a version for each change.
            let version = versions.get(at).copied().unwrap_or_default();
            // A later change of the same row may have been read already.
            let is_newer = rows.get(&id).is_none_or(|known| known.version < version);
            match object {
                Some(object) if is_newer => drop(rows.insert(id, Known { object, version })),
                None if is_newer => drop(rows.remove(&id)),
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    /// Wakes up when any gateway has changed something.
    pub(crate) fn watch(&self) -> store::Watch {
        self.store.watch(TABLE)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<&'static str, Rows>> {
        self.kinds.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn typed<T: Object>(known: &Known) -> Option<Read<T>> {
    // Harmless: all rows of a kind have its type.
    let object = known.object.clone().downcast().ok()?;
    Some(Read { object, version: known.version })
}

fn away(error: Error) -> WriteError {
    if matches!(error, Error::Conflict { .. }) {
        return WriteError::Conflict;
    }
    WriteError::Away(error.to_string())
}
