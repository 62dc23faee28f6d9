//! The configuration that the gateways of one store share: a state, and the files of each configuration that the state refers to.
//!
//! Each write of the state is conditional on the version that was read. If two gateways write at once, only one succeeds.

use bytes::Bytes;
use store::{Change, Error, Expect, LazyStore, Tables as _};

const TABLE: &str = "configuration";
const STATE: &[u8] = b"state";

/// The encoded state, and its version.
pub struct SharedState {
    pub bytes: Bytes,
    pub version: u64,
}

/// A new state, with the files to add and to remove.
#[derive(Default)]
pub struct SharedChange {
    pub state: Vec<u8>,
    /// The version of the state that was read, or `None` if there was no state.
    pub version: Option<u64>,
    /// The number of a new configuration, and its files as an archive.
    pub files: Option<(u64, Vec<u8>)>,
    /// Numbers of configurations to remove.
    pub removed: Vec<u64>,
}

/// Reads the state. Returns `None` if no gateway has written one.
pub async fn state(store: &LazyStore) -> Result<Option<SharedState>, Error> {
    let row = store.get(TABLE, STATE).await?;
    Ok(row.map(|row| SharedState { bytes: row.value, version: row.version }))
}

/// Reads the files of a configuration, as an archive.
pub async fn files(store: &LazyStore, number: u64) -> Result<Option<Bytes>, Error> {
    Ok(store.get(TABLE, &key(number)).await?.map(|row| row.value))
}

/// Writes a state. Returns false if another gateway has written one in the meantime.
pub async fn write(store: &LazyStore, change: SharedChange) -> Result<bool, Error> {
    let SharedChange { state, version, files, removed } = change;
    let row = |key: Vec<u8>, value: Option<Vec<u8>>, expect| {
        let value = value.map(Bytes::from);
        Change { table: TABLE.into(), key, value, expect }
    };
    let expect = version.map_or(Expect::Nothing, Expect::Version);
    let mut changes = vec![row(STATE.to_vec(), Some(state), expect)];
    changes.extend(files.map(|(number, bytes)| row(key(number), Some(bytes), Expect::Anything)));
    changes.extend(removed.into_iter().map(|number| row(key(number), None, Expect::Anything)));
    match store.change(changes, None).await {
        Ok(_) => Ok(true),
        Err(Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("files/{number:020}").into_bytes()
}
