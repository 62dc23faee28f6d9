//! Sends DNS queries that the system's resolver does not support: SRV records (RFC 2782), and addresses from name servers that the operator
//! has chosen. Answers include their TTL.
//!
//! Owns the choice of a server, the retries and the parsing of answers. It queries recursive servers, has no cache and no search list:
//! names are fully qualified. A query enters by [`Servers::services`] or [`Servers::addresses`], and completes within [`TRIES`] times the
//! number of servers times four seconds.
#![forbid(unsafe_code)]

mod question;
mod resolv_conf;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use domain::base::iana::Rcode;
use domain::base::message::RecordIter;
use domain::base::name::ParsedName;
use domain::base::record::Ttl;
use domain::base::{Message, Name, ParseRecordData, Rtype};
use domain::rdata::{A, Aaaa, Srv};

/// The name servers to query, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Servers {
    /// The addresses of the servers. If empty, those in `/etc/resolv.conf` at the time of the query.
    pub addresses: Vec<SocketAddr>,
}

/// The records of an answer, at least one, and the TTL of the whole answer: the smallest of its records and aliases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<T> {
    pub records: Vec<T>,
    pub ttl: Duration,
}

/// An SRV record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    /// The host, in lower case and without the trailing dot. Empty for `.`, which means that the service is not available.
    pub host: String,
}

/// The versions of IP, each of which has its own record type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// The reason why a lookup found no records.
#[derive(Debug)]
pub enum Failure {
    /// The text is not a valid name.
    BadName(String),
    /// The servers report that the name does not exist.
    NoSuchName,
    /// The name exists, but has no such records.
    NoRecords,
    /// The last server answered with an error code, such as SERVFAIL or REFUSED.
    Refused(SocketAddr, Rcode),
    /// The answer of the last server is malformed.
    Malformed(SocketAddr),
    /// The last server did not answer.
    Silent(SocketAddr),
    /// The last server cannot be reached.
    Io(SocketAddr, io::Error),
    /// No name server is configured or known.
    NoServer(String),
}

/// The number of rounds over all servers before a query fails.
pub const TRIES: usize = 2;

impl Family {
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];
}

impl Servers {
    /// Returns the services of a name such as `_orders._tcp.example.com`.
    pub async fn services(&self, name: &str) -> Result<Answer<Service>, Failure> {
        let service = |record: Srv<ParsedName<&[u8]>>| Service {
            priority: record.priority(),
            weight: record.weight(),
            port: record.port(),
            host: written(record.target()),
        };
        self.ask(name, Rtype::SRV, |answer, from| read(answer, from, service)).await
    }

    /// Returns the addresses of a name in one version of IP.
    pub async fn addresses(&self, name: &str, family: Family) -> Result<Answer<IpAddr>, Failure> {
        match family {
            Family::V4 => {
                let address = |record: A| record.addr().into();
                self.ask(name, Rtype::A, |answer, from| read(answer, from, address)).await
            }
            Family::V6 => {
                let address = |record: Aaaa| record.addr().into();
                self.ask(name, Rtype::AAAA, |answer, from| read(answer, from, address)).await
            }
        }
    }

    /// Queries the servers in turn, and returns the first conclusive result: the records, or the error that there are none.
    async fn ask<T>(
        &self,
        name: &str,
        rtype: Rtype,
        read: impl Fn(&Message<Vec<u8>>, SocketAddr) -> Result<Answer<T>, Failure>,
    ) -> Result<Answer<T>, Failure> {
        let qname = Name::<Vec<u8>>::vec_from_str(name.trim_end_matches('.'));
        let qname = qname.map_err(|why| Failure::BadName(why.to_string()))?;
        let listed = if self.addresses.is_empty() {
            resolv_conf::servers().await?
        } else {
            self.addresses.clone()
        };
        let mut failure = Failure::NoServer("no name server is configured".to_owned());
        for server in (0..TRIES).flat_map(|_| &listed) {
            let answer = question::ask(*server, &qname, rtype).await;
            let found = answer.and_then(|answer| match answer.header().rcode() {
                Rcode::NOERROR => read(&answer, *server),
                Rcode::NXDOMAIN => Err(Failure::NoSuchName),
                other => Err(Failure::Refused(*server, other)),
            });
            match found {
                Ok(found) => return Ok(found),
                Err(none @ (Failure::NoSuchName | Failure::NoRecords)) => return Err(none),
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }
}

/// Returns the records of type `D` in an answer. If the queried name is an alias, these are the records of the name it refers to.
fn read<'m, D: ParseRecordData<'m, Vec<u8>>, T>(
    answer: &'m Message<Vec<u8>>,
    from: SocketAddr,
    record: impl Fn(D) -> T,
) -> Result<Answer<T>, Failure> {
    let malformed = |_| Failure::Malformed(from);
    let name = answer.canonical_name().ok_or(Failure::Malformed(from))?;
    let section = answer.answer().map_err(malformed)?;
    let mut ttl = Ttl::CAP;
    let mut records = Vec::new();
    let all: RecordIter<'m, Vec<u8>, D> = section.limit_to_in();
    for found in all {
        let found = found.map_err(malformed)?;
        if *found.owner() == name {
            ttl = ttl.min(found.ttl());
            records.push(record(found.into_data()));
        }
    }
    // The TTL of an alias limits that of the answer.
    for alias in section.limit_to_in::<domain::rdata::Cname<ParsedName<_>>>() {
        ttl = ttl.min(alias.map_err(malformed)?.ttl());
    }
    if records.is_empty() {
        Err(Failure::NoRecords)
    } else {
        Ok(Answer { records, ttl: ttl.into_duration() })
    }
}

fn written(name: &ParsedName<&[u8]>) -> String {
    let text = name.to_string();
    text.trim_end_matches('.').to_ascii_lowercase()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::BadName(why) => write!(f, "not a DNS name: {why}"),
            Failure::NoSuchName => f.write_str("the name does not exist (NXDOMAIN)"),
            Failure::NoRecords => f.write_str("the name has no such records"),
            Failure::Refused(server, code) => write!(f, "the name server {server} answers {code}"),
            Failure::Malformed(server) => {
                write!(f, "the name server {server} sends an answer that cannot be read")
            }
            Failure::Silent(server) => write!(f, "the name server {server} does not answer"),
            Failure::Io(server, error) => write!(f, "the name server {server}: {error}"),
            Failure::NoServer(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests;
