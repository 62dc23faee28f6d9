//! The store in memory: the suite, and its faults.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{Change, Error, Expect, Faults, Logs, Memory, ReadQuery, Tables};

use crate::suite;

#[tokio::test(start_paused = true)]
async fn memory_keeps_the_contract() {
    let memory = Memory::new();
    suite::run(Arc::new(memory.clone()), Arc::new(memory)).await;
}

#[tokio::test(start_paused = true)]
async fn faults_come_and_go() {
    let memory = Memory::new();
    let one = || vec![Bytes::from_static(b"one")];
    let row = |value: Option<Bytes>| {
        let change =
            Change { table: "t".into(), key: b"k".to_vec(), value, expect: Expect::Anything };
        vec![change]
    };

    memory.set_faults(Faults { away: true, ..Faults::default() });
    assert!(matches!(memory.append("l", one(), None).await, Err(Error::Unavailable(_))));
    assert!(matches!(memory.get("t", b"k").await, Err(Error::Unavailable(_))));

    memory.set_faults(Faults { full: true, ..Faults::default() });
    assert!(matches!(memory.append("l", one(), None).await, Err(Error::Full(_))));
    assert!(matches!(memory.change(row(Some(Bytes::new())), None).await, Err(Error::Full(_))));
    assert_eq!(memory.change(row(None), None).await, Ok(vec![1]), "deleting is always possible");

    memory.set_faults(Faults { delay: Duration::from_secs(2), ..Faults::default() });
    let before = tokio::time::Instant::now();
    let appended = memory.append("l", one(), None);
    memory.set_faults(Faults::default());
    assert_eq!(memory.read("l", ReadQuery::after(0)).await.unwrap().newest, 0, "not yet durable");
    assert_eq!(appended.await, Ok(1..=1), "nothing was written before");
    assert_eq!(before.elapsed(), Duration::from_secs(2));
}
