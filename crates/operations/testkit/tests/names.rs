//! Targets whose names get other addresses, with a paused clock.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use testkit::{Client, Gateway, ServiceAnswer, Services, run};

/// The answers of a resolver.
#[derive(Clone, Default)]
struct Names {
    /// The addresses, or `None` if the resolver fails.
    addresses: Rc<RefCell<Option<Vec<IpAddr>>>>,
    asked: Rc<Cell<usize>>,
}

impl Names {
    fn set(&self, addresses: &[&str]) {
        let parsed = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.addresses.replace(Some(parsed));
    }

    /// Creates a gateway whose target has a name, and whose services answer with their address.
    fn gateway(&self) -> Gateway {
        let yaml = "listen: { a: { address: \"127.0.0.1:0\" } }\n\
             upstreams: { u: { targets: [\"http://u.test:80\"], timeout: { idle: 1h } } }\n\
             routes: { all: { match: { path: \"/**\" }, upstream: u } }\n";
        let services = Services::new(|asked| ServiceAnswer::with(200, "", &asked.to.to_string()));
        let gateway = Gateway::new(yaml, Path::new("."), services).unwrap();
        let names = self.clone();
        kit::fake::names(move |_| {
            names.asked.set(names.asked.get() + 1);
            names.addresses.borrow().clone().ok_or_else(|| io::Error::other("no answer"))
        });
        gateway
    }
}

/// Returns the body of a 200, or else the status.
async fn says(gateway: &Gateway) -> String {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let outcome = gateway.exchange(&Client::sending(request)).await;
    let reply = outcome.replies(&[false]).unwrap().remove(0);
    match reply.method_or_status.as_str() {
        "200" => String::from_utf8(reply.body).unwrap(),
        status => status.to_owned(),
    }
}

/// Connections to an address are kept while only a few look-ups lack it, and then closed even if they are busy.
#[test]
fn connections_follow_the_name() {
    run(async {
        let names = Names::default();
        names.set(&["192.0.2.1"]);
        let gateway = names.gateway();
        gateway.keep_up();
        assert_eq!(says(&gateway).await, "192.0.2.1:80");
        names.set(&["192.0.2.2"]);
        assert_eq!(says(&gateway).await, "192.0.2.1:80", "no look-up since");
        assert_eq!(says(&gateway).await, "192.0.2.2:80");
        // A failed look-up does not change the addresses.
        names.addresses.replace(None);
        assert_eq!([says(&gateway).await, says(&gateway).await], ["192.0.2.2:80"; 2]);
        names.set(&["192.0.2.2", "192.0.2.3"]);
        assert_eq!([says(&gateway).await, says(&gateway).await], ["192.0.2.2:80"; 2]);
    });
}

/// Requests that arrive during the first look-up wait for it and do not start others.
#[test]
fn the_failure_of_a_look_up_is_the_answer_to_all_who_ask() {
    run(async {
        let names = Names::default();
        let gateway = names.gateway();
        let asks: Vec<u8> = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10);
        let outcome = gateway.exchange(&Client::sending(asks)).await;
        let replies = outcome.replies(&[false; 10]).unwrap();
        assert!(replies.iter().all(|reply| reply.method_or_status == "502"), "{replies:?}");
        assert_eq!(names.asked.get(), 1);
        names.set(&["192.0.2.1"]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(says(&gateway).await, "192.0.2.1:80");
        assert_eq!(names.asked.get(), 2);
    });
}
