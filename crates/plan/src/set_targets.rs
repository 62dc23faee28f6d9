//! What operators have set of targets, in the store.

use bytes::Bytes;
use store::{Change, Error, Expect, LazyStore, Tables as _};

const TABLE: &str = "targets";
const ROW: &[u8] = b"set";

/// What is kept; none if nothing is.
pub async fn kept(store: &LazyStore) -> Result<Option<Bytes>, Error> {
    Ok(store.get(TABLE, ROW).await?.map(|row| row.value))
}

/// Keeps this in place of what was kept.
pub async fn keep(store: &LazyStore, value: Option<Vec<u8>>) -> Result<(), Error> {
    let (table, key) = (TABLE.into(), ROW.to_vec());
    let change = Change { table, key, value: value.map(Bytes::from), expect: Expect::Anything };
    store.change(vec![change], None).await.map(drop)
}
