//! Reads the name servers of the system from `/etc/resolv.conf` (resolv.conf(5)).

use std::io::{self, ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::Failure;

const PATH: &str = "/etc/resolv.conf";

/// The maximum size of the file, which is read again for each query.
const BYTES_MAX: u64 = 64 * 1024;

/// The maximum number of servers, as in the system's resolver.
const SERVERS_MAX: usize = 3;

const PORT: u16 = 53;

/// Returns the servers in the file. It is read each time, since it may change and queries are rare.
pub(crate) async fn servers() -> Result<Vec<SocketAddr>, Failure> {
    let text = kit::task::run_blocking(text).await;
    let text = text.unwrap_or_else(|| Err(io::Error::other("it could not be read")));
    match text {
        Ok(text) => listed(&text),
        // As in the system's resolver, a missing file means that the server is on this machine.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok(vec![(IpAddr::from(Ipv4Addr::LOCALHOST), PORT).into()])
        }
        Err(error) => Err(Failure::NoServer(format!("{PATH}: {error}"))),
    }
}

fn text() -> io::Result<String> {
    let mut text = String::new();
    // Harmless: a larger file is an error.
    let read = std::fs::File::open(PATH)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if read > usize::try_from(BYTES_MAX).unwrap_or(usize::MAX) {
        Err(io::Error::new(ErrorKind::FileTooLarge, "it is larger than 64 KiB"))
    } else {
        Ok(text)
    }
}

fn listed(text: &str) -> Result<Vec<SocketAddr>, Failure> {
    let words = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next().unwrap_or("").to_owned())
    };
    // Harmless: only `nameserver` lines name servers, so all other lines are skipped.
    let written: Vec<String> = text.lines().filter_map(words).collect();
    if written.is_empty() {
        return Ok(vec![(IpAddr::from(Ipv4Addr::LOCALHOST), PORT).into()]);
    }
    let address = |word: &String| word.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    // Harmless: the system's resolver also ignores invalid lines and further servers.
    let servers: Vec<SocketAddr> =
        written.iter().map(address).filter_map(Result::ok).take(SERVERS_MAX).collect();
    if servers.is_empty() {
        Err(Failure::NoServer(format!("{PATH} contains no valid name server address")))
    } else {
        Ok(servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_the_system_reads_them() {
        for (text, expected) in [
            ("nameserver 192.0.2.1\n", &["192.0.2.1:53"][..]),
            (
                "# nameserver 192.0.2.9\nsearch a.test\n\tnameserver\t192.0.2.1 x\n",
                &["192.0.2.1:53"],
            ),
            (
                "nameserver ::1\nnameserver fe80::1%eth0\nnameserver 192.0.2.2",
                &["[::1]:53", "192.0.2.2:53"],
            ),
            ("", &["127.0.0.1:53"]),
            (
                "nameserver 1.0.0.1\nnameserver 1.0.0.2\nnameserver 1.0.0.3\nnameserver 1.0.0.4\n",
                &["1.0.0.1:53", "1.0.0.2:53", "1.0.0.3:53"],
            ),
        ] {
            let found: Vec<String> =
                listed(text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{text:?}");
        }
        assert!(matches!(listed("nameserver localhost\n"), Err(Failure::NoServer(_))));
    }
}
