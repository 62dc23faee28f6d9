//! Looks up the addresses of a target's name: with the system's resolver, or at configured servers. Decides when to look it up again.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use dns::{Failure, Family};
use futures_util::future;
use kit::names::LookUps;

use crate::settings::Dns;

/// The result of a look-up for each version of IP. One may fail alone.
pub(crate) struct LookupResult {
    pub(crate) families: [io::Result<Vec<IpAddr>>; 2],
    /// The validity. The system's resolver does not report it.
    pub(crate) ttl: Option<Duration>,
}

/// The minimum validity of an answer, since some servers set a TTL of 0.
const TTL_MIN: Duration = Duration::from_secs(1);

/// Limits the concurrent look-ups of targets' names. A resolver may take half a minute to fail, and other blocking work must be able to
/// continue meanwhile.
static LOOK_UPS: LookUps = LookUps::new(128, 128);

pub(crate) async fn look_up(dns: &Dns, host: &str) -> LookupResult {
    if host.parse::<IpAddr>().is_err() && !dns.servers.addresses.is_empty() {
        return ask_servers(dns, host).await;
    }
    let families = match LOOK_UPS.find("", host, 0).await {
        Ok(found) => {
            let (v4, v6) = found.iter().map(|address| address.ip()).partition(IpAddr::is_ipv4);
            [Ok(v4), Ok(v6)]
        }
        Err(error) => [Err(copied(&error)), Err(error)],
    };
    LookupResult { families, ttl: None }
}

async fn ask_servers(dns: &Dns, host: &str) -> LookupResult {
    let asked = Family::ALL.map(|family| dns.servers.addresses(host, family));
    let [v4, v6] = asked;
    let (v4, v6) = future::join(v4, v6).await;
    let mut ttl: Option<Duration> = None;
    let families = [v4, v6].map(|found| match found {
        Ok(found) => {
            ttl = Some(ttl.map_or(found.ttl, |ttl| ttl.min(found.ttl)));
            Ok(found.records)
        }
        Err(Failure::NoRecords) => Ok(Vec::new()),
        Err(failure) => Err(io::Error::other(failure.to_string())),
    });
    LookupResult { families, ttl }
}

/// Returns the time until a name is looked up again: its TTL, within bounds.
pub(crate) fn pause(dns: &Dns, ttl: Option<Duration>) -> Duration {
    ttl.unwrap_or(dns.refresh).max(TTL_MIN).min(dns.refresh)
}

impl LookupResult {
    /// All addresses, at least one, or the reason why there is none.
    pub(crate) fn all(&self) -> io::Result<Vec<IpAddr>> {
        // Harmless: if there is no address at all, the error of a failed version is returned below.
        let all: Vec<IpAddr> = self.families.iter().flatten().flatten().copied().collect();
        match (all.is_empty(), &self.families) {
            (false, _) => Ok(all),
            (true, [Err(error), _] | [_, Err(error)]) => Err(copied(error)),
            (true, [Ok(_), Ok(_)]) => Err(no_address()),
        }
    }
}

pub(crate) fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address")
}

fn copied(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}
