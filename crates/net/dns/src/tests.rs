//! Queries to a name server whose answers the tests write byte by byte.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::*;

#[path = "../../../../tests/harness/dns.rs"]
#[allow(dead_code, reason = "the black-box tests use the rest")]
mod harness;

use harness::{Manner, NameServer};

fn of(servers: &[&NameServer]) -> Servers {
    Servers { addresses: servers.iter().map(|server| server.address()).collect() }
}

fn service(priority: u16, weight: u16, port: u16, host: &str) -> Service {
    Service { priority, weight, port, host: host.to_owned() }
}

#[tokio::test]
async fn services_and_addresses_are_read_with_the_shortest_ttl() {
    let server = NameServer::start();
    server.srv("_orders._tcp.a.test", 30, &[(1, 0, 80, "B.a.test"), (2, 7, 81, ".")]);
    server.addresses("b.a.test", 9, &[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    server.alias("c.a.test", 4, "d.a.test");
    server.alias("d.a.test", 5, "b.a.test");
    let servers = of(&[&server]);
    let found = servers.services("_orders._tcp.a.test").await.unwrap();
    assert_eq!(found.records, [service(1, 0, 80, "b.a.test"), service(2, 7, 81, "")]);
    assert_eq!(found.ttl, Duration::from_secs(30));
    for (name, ttl) in [("b.a.test", 9), ("B.A.test.", 9), ("c.a.test", 4)] {
        for (family, expected) in Family::ALL
            .into_iter()
            .zip([IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()])
        {
            let found = servers.addresses(name, family).await.unwrap();
            assert_eq!(found, Answer { records: vec![expected], ttl: Duration::from_secs(ttl) });
        }
    }
    assert!(matches!(servers.services("b.a.test").await, Err(Failure::NoRecords)));
    assert!(matches!(servers.services("none.test").await, Err(Failure::NoSuchName)));
    for name in ["a..test", &"a".repeat(64), "a b\0"] {
        assert!(matches!(servers.services(name).await, Err(Failure::BadName(_))), "{name}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_for_a_datagram_comes_over_tcp() {
    let server = NameServer::start();
    let hosts: Vec<String> = (0..1000).map(|n| format!("h{n}.a.test")).collect();
    let all: Vec<_> = hosts.iter().map(|host| (0, 1, 80, host.as_str())).collect();
    server.srv("s.test", 1, &all);
    let found = of(&[&server]).services("s.test").await.unwrap();
    assert_eq!((found.records.len(), server.asked_over_tcp()), (1000, 1));
    assert_eq!(found.records.last(), Some(&service(0, 1, 80, "h999.a.test")));
}

/// Datagrams that do not answer the query are ignored. If a server fails, the next one is queried.
#[tokio::test]
async fn another_server_is_asked_when_one_cannot_answer() {
    let well = NameServer::start();
    well.srv("s.test", 1, &[(0, 1, 80, "h.test")]);
    well.behave(Manner::Confused);
    let bad = NameServer::start();
    for manner in [Manner::Failing, Manner::Cut, Manner::Silent] {
        bad.srv("s.test", 1, &[(0, 1, 81, "h.test")]);
        bad.behave(manner);
        let found = of(&[&bad, &well]).services("s.test").await.unwrap();
        assert_eq!(found.records, [service(0, 1, 80, "h.test")]);
    }
    bad.behave(Manner::Failing);
    let alone = of(&[&bad]);
    assert!(matches!(alone.services("s.test").await, Err(Failure::Refused(_, Rcode::SERVFAIL))));
    bad.behave(Manner::Cut);
    assert!(matches!(alone.services("s.test").await, Err(Failure::Malformed(_))));
    let gone = bad.address();
    drop(bad);
    let gone = Servers { addresses: vec![gone] };
    assert!(matches!(gone.services("s.test").await, Err(Failure::Io(..) | Failure::Silent(_))));
}
