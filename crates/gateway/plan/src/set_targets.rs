//! Keeps in the store what operators have set for targets.

use bytes::Bytes;
use store::{Change, Error, Expect, LazyStore, Tables as _};

const TABLE: &str = "targets";
const ROW: &[u8] = b"set";

/// Returns the stored value, or `None` if there is none.
pub async fn read(store: &LazyStore) -> Result<Option<Bytes>, Error> {
    Ok(store.get(TABLE, ROW).await?.map(|row| row.value))
}

/// Replaces the stored value.
pub async fn write(store: &LazyStore, value: Option<Vec<u8>>) -> Result<(), Error> {
    let (table, key) = (TABLE.into(), ROW.to_vec());
    let change = Change { table, key, value: value.map(Bytes::from), expect: Expect::Anything };
    store.change(vec![change], None).await.map(drop)
}
