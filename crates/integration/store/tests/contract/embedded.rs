//! The embedded store: the suite on real files.

use std::sync::Arc;

use store::{Embedded, Error};

use crate::suite;

#[tokio::test]
async fn the_embedded_store_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let (store, recovered) = Embedded::open(&folder.path().join("a/b")).unwrap();
    assert_eq!(recovered, store::RecoveryReport::default());
    suite::run(Arc::new(store.clone()), Arc::new(store)).await;
}

#[tokio::test]
async fn one_process_at_a_time_has_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Embedded::open(folder.path()).unwrap();
    let again = Embedded::open(folder.path()).map(drop);
    let expected = format!("another process has opened {}", folder.path().display());
    assert_eq!(again, Err(Error::Unavailable(expected)));
    drop(store);
    Embedded::open(folder.path()).unwrap();
}
