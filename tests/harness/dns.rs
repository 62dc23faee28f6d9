//! A name server for tests. It answers from a table that the test may change at any time, over UDP, and over TCP for answers longer than
//! 512 bytes. Its messages are built byte by byte, to check the library that parses them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const SRV: u16 = 33;

/// The longest answer over UDP (RFC 1035, 4.2.1).
const DATAGRAM_BYTES: usize = 512;

/// A name server on this machine. It stops when dropped.
pub(crate) struct NameServer {
    address: SocketAddr,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    /// The records by name and type.
    records: BTreeMap<(String, u16), Vec<Record>>,
    manner: Manner,
    /// The names that were queried, with the number of queries.
    asked: BTreeMap<String, usize>,
    over_tcp: usize,
    over: bool,
}

#[derive(Clone)]
struct Record {
    ttl: u32,
    bytes: Vec<u8>,
}

/// The behaviour of a name server.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    #[default]
    Well,
    /// Reads queries and never answers.
    Silent,
    /// Answers everything with SERVFAIL.
    Failing,
    /// Truncates answers in the middle.
    Cut,
    /// First sends an answer to another question with another id.
    Confused,
}

impl NameServer {
    pub(crate) fn start() -> NameServer {
        let (socket, listener) = loop {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            // The TCP port may be taken.
            if let Ok(listener) = TcpListener::bind(socket.local_addr().unwrap()) {
                break (socket, listener);
            }
        };
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let server = NameServer { address: socket.local_addr().unwrap(), table: Arc::default() };
        let (udp, tcp) = (server.table.clone(), server.table.clone());
        thread::spawn(move || by_udp(&socket, &udp));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if tcp.lock().unwrap().over {
                    return;
                }
                let table = tcp.clone();
                thread::spawn(move || by_tcp(stream.unwrap(), &table));
            }
        });
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the services of a name: priority, weight, port and host.
    pub(crate) fn srv(&self, name: &str, ttl: u32, services: &[(u16, u16, u16, &str)]) {
        let record = |(priority, weight, port, host): &(u16, u16, u16, &str)| {
            let mut bytes: Vec<u8> =
                [*priority, *weight, *port].iter().flat_map(|n| n.to_be_bytes()).collect();
            bytes.extend(labels(host));
            Record { ttl, bytes }
        };
        self.set(name, SRV, services.iter().map(record).collect());
    }

    /// Sets the addresses of a name.
    pub(crate) fn addresses(&self, name: &str, ttl: u32, addresses: &[IpAddr]) {
        let of = |v4: bool| {
            let these = addresses.iter().filter(move |ip| ip.is_ipv4() == v4);
            these
                .map(|ip| match ip {
                    IpAddr::V4(ip) => Record { ttl, bytes: ip.octets().to_vec() },
                    IpAddr::V6(ip) => Record { ttl, bytes: ip.octets().to_vec() },
                })
                .collect()
        };
        self.set(name, A, of(true));
        self.set(name, AAAA, of(false));
    }

    /// Makes a name an alias of another.
    pub(crate) fn alias(&self, name: &str, ttl: u32, of: &str) {
        self.set(name, CNAME, vec![Record { ttl, bytes: labels(of) }]);
    }

    /// Removes all records of a name, so that it does not exist any more.
    pub(crate) fn remove(&self, name: &str) {
        self.table.lock().unwrap().records.retain(|(named, _), _| named != name);
    }

    pub(crate) fn behave(&self, manner: Manner) {
        self.table.lock().unwrap().manner = manner;
    }

    /// Returns the number of queries for a name.
    pub(crate) fn asked(&self, name: &str) -> usize {
        self.table.lock().unwrap().asked.get(name).copied().unwrap_or_default()
    }

    /// Returns the number of queries over TCP.
    pub(crate) fn asked_over_tcp(&self) -> usize {
        self.table.lock().unwrap().over_tcp
    }

    fn set(&self, name: &str, rtype: u16, records: Vec<Record>) {
        self.table.lock().unwrap().records.insert((name.to_owned(), rtype), records);
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.table.lock().unwrap().over = true;
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.address));
    }
}

fn by_udp(socket: &UdpSocket, table: &Mutex<Table>) {
    let mut bytes = [0; DATAGRAM_BYTES];
    loop {
        let received = socket.recv_from(&mut bytes);
        if table.lock().unwrap().over {
            return;
        }
        let Ok((length, peer)) = received else { continue };
        let Some(mut answer) = answer(&bytes[..length], table) else { continue };
        let manner = table.lock().unwrap().manner;
        if manner == Manner::Confused {
            let mut other = answer.clone();
            other[0] ^= 0x55;
            socket.send_to(&other, peer).unwrap();
            socket.send_to(b"?", peer).unwrap();
        }
        if answer.len() > DATAGRAM_BYTES {
            // A truncated answer has only the header and the question.
            answer.truncate(length);
            answer[2] |= 0x02;
            answer[6..8].fill(0);
        }
        if manner == Manner::Cut {
            answer.truncate(answer.len() - 3);
        }
        socket.send_to(&answer, peer).unwrap();
    }
}

fn by_tcp(mut stream: TcpStream, table: &Mutex<Table>) {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut query).is_err() {
            return;
        }
        table.lock().unwrap().over_tcp += 1;
        let Some(answer) = answer(&query, table) else { continue };
        let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
        if stream.write_all(&[&length[..], &answer].concat()).is_err() {
            return;
        }
    }
}

/// Returns the answer, or `None` to stay silent.
fn answer(query: &[u8], table: &Mutex<Table>) -> Option<Vec<u8>> {
    let (name, end) = question(query);
    let rtype = u16::from_be_bytes([query[end], query[end + 1]]);
    let mut table = table.lock().unwrap();
    *table.asked.entry(name.clone()).or_default() += 1;
    let (mut records, mut owner) = (Vec::new(), name.clone());
    while let Some(alias) = table.records.get(&(owner.clone(), CNAME)).and_then(|all| all.first()) {
        records.push((owner, CNAME, alias.clone()));
        owner = dotted(&alias.bytes);
    }
    let found = table.records.get(&(owner.clone(), rtype)).cloned().unwrap_or_default();
    records.extend(found.into_iter().map(|record| (owner.clone(), rtype, record)));
    let is_known = table.records.keys().any(|(known, _)| *known == owner);
    let code = match table.manner {
        Manner::Silent => return None,
        Manner::Failing => 2,
        Manner::Well | Manner::Cut | Manner::Confused if is_known => 0,
        Manner::Well | Manner::Cut | Manner::Confused => 3,
    };
    if code != 0 {
        records.clear();
    }
    let mut answer = query[..end + 4].to_vec();
    answer[2..4].copy_from_slice(&[0x81, 0x80 | code]);
    answer[6..8].copy_from_slice(&u16::try_from(records.len()).unwrap().to_be_bytes());
    answer[8..12].fill(0);
    for (owner, rtype, record) in records {
        answer.extend(if owner == name {
            // A pointer to the name in the question.
            vec![0xc0, 12]
        } else {
            labels(&owner)
        });
        answer.extend(rtype.to_be_bytes());
        answer.extend([0, 1]);
        answer.extend(record.ttl.to_be_bytes());
        answer.extend(u16::try_from(record.bytes.len()).unwrap().to_be_bytes());
        answer.extend(record.bytes);
    }
    Some(answer)
}

/// Returns the name in the question, and the offset of its end.
fn question(query: &[u8]) -> (String, usize) {
    let length = query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    (dotted(&query[12..12 + length]), 12 + length)
}

fn dotted(mut labels: &[u8]) -> String {
    let mut name = Vec::new();
    while let Some((length, rest)) = labels.split_first().filter(|(length, _)| **length > 0) {
        let (label, rest) = rest.split_at(usize::from(*length));
        name.push(String::from_utf8(label.to_vec()).unwrap().to_ascii_lowercase());
        labels = rest;
    }
    name.join(".")
}

fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}
