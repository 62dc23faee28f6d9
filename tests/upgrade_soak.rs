//! Programs replace one another under load and with streams of every kind: no request fails, and every stream continues.
//!
//! `make soak` replaces the program fifty times.

use crate::harness::{Gateway, until};
use crate::new_program::Successors;
use crate::reload_soak::asked;
use crate::under_load::{Behind, Clients, Generation};

const UPGRADES: usize = 2;

/// The number of processes whose streams stay open, besides those of the first one, which stay open until the end.
const KEPT: usize = 3;

#[test]
fn programs_follow_one_another_and_nobody_notices() {
    let upgrades = asked("TIDEGATE_SOAK_UPGRADES", UPGRADES);
    let behind = Behind::start();
    let gateway = Gateway::start(behind.yaml(0));
    let successors = Successors(&gateway);
    let mut generations = vec![Generation::open(&gateway)];
    let clients = Clients::start(&gateway, &behind);
    let mut pid = gateway.pid().as_raw_nonzero().get();
    for number in 1..=upgrades {
        pid = successors.replace(pid);
        // Until then the old process may take connections, which end after their first requests.
        until("the old process takes no more connections", || {
            gateway.log().matches("another process serves").count() == number
        });
        behind.service.send_events();
        generations.iter_mut().for_each(Generation::echo);
        generations.push(Generation::open(&gateway));
        if generations.len() > KEPT + 1 {
            generations.remove(1);
        }
        println!("upgrade {number}: {} requests", clients.go_on(20));
    }
    let done = clients.finish(&gateway, &behind);
    println!(
        "{upgrades} upgrades, {} requests, {} events, {} messages; {} connections closed between two requests",
        done.requests, done.events, done.messages, done.stale
    );
    drop((generations, done.reader));
    until("the first one has ended", || gateway.exit_status().is_some());
}
