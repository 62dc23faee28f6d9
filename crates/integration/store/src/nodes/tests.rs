//! Nodes over one store in memory, with a paused clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, LocalSet};
use tokio::time::sleep;

use super::{LEASE, Nodes, PARTITIONS, partition};
use crate::{Error, Faults, Logs as _, Memory};

struct Node {
    nodes: Arc<Nodes>,
    task: JoinHandle<()>,
}

fn start(store: &Memory, name: &str) -> Node {
    let nodes = Arc::new(Nodes::shared(name, LEASE));
    let (running, store) = (nodes.clone(), store.clone());
    let task = kit::spawn(async move { running.run(&store).await });
    Node { nodes, task }
}

fn held(node: &Node) -> Vec<usize> {
    (0..PARTITIONS).filter(|partition| node.nodes.has(*partition)).collect()
}

/// Lets all tasks run that do not wait for time.
async fn settle() {
    sleep(Duration::from_millis(100)).await;
}

fn shared_evenly(nodes: &[&Node]) -> bool {
    let mut all: Vec<usize> = nodes.iter().flat_map(|node| held(node)).collect();
    let least = nodes.iter().map(|node| held(node).len()).min().unwrap_or_default();
    let most = nodes.iter().map(|node| held(node).len()).max().unwrap_or_default();
    all.sort_unstable();
    all == (0..PARTITIONS).collect::<Vec<_>>() && most - least <= 1
}

#[tokio::test(start_paused = true)]
async fn nodes_share_all_partitions_as_they_come_and_go() {
    LocalSet::new()
        .run_until(async {
            let store = Memory::new();
            let a = start(&store, "a");
            settle().await;
            assert_eq!(held(&a).len(), PARTITIONS);
            let b = start(&store, "b");
            settle().await;
            assert!(shared_evenly(&[&a, &b]), "{:?} {:?}", held(&a), held(&b));
            let c = start(&store, "c");
            settle().await;
            assert!(shared_evenly(&[&a, &b, &c]));
            let seen: Vec<String> = a.nodes.views().into_iter().map(|seen| seen.name).collect();
            assert_eq!(seen, ["a", "b", "c"]);
            let before = held(&a);
            sleep(LEASE * 5).await;
            assert_eq!(held(&a), before, "nothing moves without a reason");
            b.nodes.leave().await;
            settle().await;
            assert!(shared_evenly(&[&a, &c]), "a node that leaves returns its partitions at once");
            assert!(b.task.is_finished() && held(&b).is_empty());
            // Twenty nodes are more than there are partitions.
            let more: Vec<Node> = (0..18).map(|n| start(&store, &n.to_string())).collect();
            sleep(LEASE).await;
            let all: Vec<&Node> = more.iter().chain([&a, &c]).collect();
            assert!(shared_evenly(&all));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_work_of_a_dead_node_goes_on_within_the_lease() {
    LocalSet::new()
        .run_until(async {
            let store = Memory::new();
            let (a, b) = (start(&store, "a"), start(&store, "b"));
            settle().await;
            for _ in 0..5 {
                let c = start(&store, "c");
                settle().await;
                assert!(shared_evenly(&[&a, &b, &c]));
                sleep(Duration::from_secs(7)).await;
                let guard = c.nodes.standing().guard.unwrap();
                c.task.abort();
                sleep(LEASE / 2).await;
                assert!(!shared_evenly(&[&a, &b]), "its lease has not expired");
                sleep(LEASE / 2 + Duration::from_millis(200)).await;
                assert!(shared_evenly(&[&a, &b]), "{:?} {:?}", held(&a), held(&b));
                let late = store.append("log", vec![bytes::Bytes::new()], Some(&guard)).await;
                assert_eq!(late, Err(Error::Fenced));
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_slept_has_nothing_and_begins_anew() {
    LocalSet::new()
        .run_until(async {
            let store = Memory::new();
            let (a, b) = (start(&store, "a"), start(&store, "b"));
            settle().await;
            let (before, term) = (held(&b), b.nodes.standing().term);
            // Its process is stopped: its tasks do not run, but the clock advances.
            let b_nodes = b.nodes.clone();
            b.task.abort();
            let hold = b_nodes.hold(before[0], term).unwrap();
            sleep(LEASE + Duration::from_secs(1)).await;
            assert_eq!(held(&a).len(), PARTITIONS);
            assert!(
                !b_nodes.may_begin(term),
                "its lease has expired, though it cannot know about `a`"
            );
            assert!(!b_nodes.has(before[0]));
            let woken = b_nodes.clone();
            let again = store.clone();
            kit::spawn(async move { woken.run(&again).await });
            drop(hold);
            settle().await;
            let b = Node { nodes: b_nodes, task: kit::spawn(async {}) };
            assert!(shared_evenly(&[&a, &b]));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_moves_once_nobody_works_for_it() {
    LocalSet::new()
        .run_until(async {
            let store = Memory::new();
            let a = start(&store, "a");
            settle().await;
            let holds: Vec<_> = (0..PARTITIONS).map(|p| a.nodes.hold(p, 0).unwrap()).collect();
            let b = start(&store, "b");
            sleep(LEASE * 2).await;
            assert!(held(&b).is_empty(), "all partitions have an owner");
            assert_eq!(
                held(&a).len(),
                PARTITIONS / 2,
                "no more work may start for half of the partitions"
            );
            let leaving = (0..PARTITIONS).find(|p| !a.nodes.has(*p)).unwrap();
            assert!(a.nodes.hold(leaving, 0).is_none());
            drop(holds);
            settle().await;
            assert!(shared_evenly(&[&a, &b]));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_stops_the_work_and_moves_none() {
    LocalSet::new()
        .run_until(async {
            let store = Memory::new();
            let (a, b) = (start(&store, "a"), start(&store, "b"));
            settle().await;
            let (of_a, of_b) = (held(&a), held(&b));
            store.set_faults(Faults { away: true, ..Faults::default() });
            sleep(Duration::from_secs(60)).await;
            assert!(held(&a).is_empty() && held(&b).is_empty());
            let mut standing = a.nodes.follow();
            standing.borrow_and_update();
            store.set_faults(Faults::default());
            sleep(Duration::from_secs(1)).await;
            assert_eq!((held(&a), held(&b)), (of_a, of_b));
            assert!(standing.has_changed().unwrap(), "waiting tasks are notified");
            assert_eq!(a.nodes.standing().term, 0);
        })
        .await;
}

#[test]
fn names_are_spread_over_all_partitions() {
    let of: Vec<usize> = ["", "work", "a", "b"].map(partition).to_vec();
    assert!(of.iter().all(|partition| *partition < PARTITIONS));
    let many: std::collections::BTreeSet<usize> =
        (0..200).map(|n| partition(&n.to_string())).collect();
    assert_eq!(many.len(), PARTITIONS);
    assert!((0..PARTITIONS).all(|p| Nodes::single().has(p)));
}
