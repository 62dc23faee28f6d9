//! The PROXY protocol, versions 1 and 2: the client's address as reported by a load balancer
//! (haproxy.org/download/2.9/doc/proxy-protocol.txt).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The addresses of source and destination.
type Ends = (SocketAddr, SocketAddr);

/// The first bytes of every version 2 header. The shortest version 1 header, `PROXY UNKNOWN`, has 15 bytes, so reading twelve bytes
/// first never reads beyond a header.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The longest version 1 line, its CRLF included (section 2.1).
const LINE_BYTES_MAX: usize = 107;

/// The maximum number of bytes after the first 16 of a version 2 header: the addresses and further fields. Load balancers send well under
/// 300 bytes.
const REST_BYTES_MAX: usize = 4096;

/// Reads the header and nothing after it. Returns `None` if it has no client's address, such as for a health check by the load balancer
/// itself.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Ends>> {
    let mut start = [0; SIGNATURE.len()];
    stream.read_exact(&mut start).await?;
    if start == *SIGNATURE {
        return read_binary(stream).await;
    }
    let mut line = start.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() >= LINE_BYTES_MAX {
            return Err(bad("the line does not end"));
        }
        line.push(stream.read_u8().await?);
    }
    parse_line(&line)
}

async fn read_binary(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Ends>> {
    let command = stream.read_u8().await?;
    let family = stream.read_u8().await?;
    let len = usize::from(stream.read_u16().await?);
    if len > REST_BYTES_MAX {
        return Err(bad("the header is too long"));
    }
    let mut addresses = vec![0; len];
    stream.read_exact(&mut addresses).await?;
    match (command, family) {
        (0x20, _) => Ok(None),
        (0x21, 0x11) => Ok(Some(ends::<4>(&addresses)?)),
        (0x21, 0x21) => Ok(Some(ends::<16>(&addresses)?)),
        (0x21, _) => Ok(None),
        _ => Err(bad("unknown version or command")),
    }
}

/// Decodes two addresses of N bytes, then two ports.
fn ends<const N: usize>(bytes: &[u8]) -> io::Result<Ends>
where
    IpAddr: FromBytes<N>,
{
    let short = || bad("the addresses are cut short");
    let (source, rest) = bytes.split_first_chunk::<N>().ok_or_else(short)?;
    let (destination, rest) = rest.split_first_chunk::<N>().ok_or_else(short)?;
    let (source_port, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let (destination_port, _) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    Ok((
        SocketAddr::new(IpAddr::read(*source), u16::from_be_bytes(*source_port)),
        SocketAddr::new(IpAddr::read(*destination), u16::from_be_bytes(*destination_port)),
    ))
}

trait FromBytes<const N: usize> {
    fn read(bytes: [u8; N]) -> Self;
}

impl FromBytes<4> for IpAddr {
    fn read(bytes: [u8; 4]) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(bytes))
    }
}

impl FromBytes<16> for IpAddr {
    fn read(bytes: [u8; 16]) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(bytes))
    }
}

fn parse_line(line: &[u8]) -> io::Result<Option<Ends>> {
    let text = std::str::from_utf8(line).map_err(|_| bad("the line is not text"))?;
    let words: Vec<&str> = text.trim_end_matches("\r\n").split(' ').collect();
    match words.as_slice() {
        ["PROXY", "UNKNOWN", ..] => Ok(None),
        [
            "PROXY",
            family @ ("TCP4" | "TCP6"),
            source,
            destination,
            source_port,
            destination_port,
        ] => {
            let source = address(family, source, source_port)?;
            Ok(Some((source, address(family, destination, destination_port)?)))
        }
        _ => Err(bad("the line is not a PROXY line")),
    }
}

fn address(family: &str, ip: &str, port: &str) -> io::Result<SocketAddr> {
    let ip: IpAddr = ip.parse().map_err(|_| bad("not an address"))?;
    let port = kit::digits::whole::<u16>(port).ok_or_else(|| bad("not a port"))?;
    if ip.is_ipv4() == (family == "TCP4") {
        Ok(SocketAddr::new(ip, port))
    } else {
        Err(bad("the address does not have the stated family"))
    }
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("PROXY header: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn reading(bytes: &[u8]) -> (io::Result<Option<Ends>>, Vec<u8>) {
        let mut stream = bytes;
        let result = read(&mut stream).await;
        (result, stream.to_vec())
    }

    fn binary(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let len = u16::try_from(addresses.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &len, addresses, b"GET"].concat()
    }

    #[tokio::test]
    async fn headers_are_read_to_their_end_and_no_further() {
        let ends = |a: &str, b: &str| Some((a.parse().unwrap(), b.parse().unwrap()));
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0x1f, 0x90, 0, 80];
        let mut v6 = [0; 36];
        (v6[15], v6[31], v6[33], v6[35]) = (1, 2, 3, 4);
        let cases: Vec<(Vec<u8>, Option<Ends>)> = vec![
            (
                b"PROXY TCP4 192.0.2.1 192.0.2.2 8080 80\r\nGET".to_vec(),
                ends("192.0.2.1:8080", "192.0.2.2:80"),
            ),
            (b"PROXY TCP6 ::1 ::2 3 4\r\nGET".to_vec(), ends("[::1]:3", "[::2]:4")),
            (b"PROXY UNKNOWN\r\nGET".to_vec(), None),
            (binary(0x21, 0x11, &v4), ends("192.0.2.1:8080", "192.0.2.2:80")),
            (binary(0x21, 0x21, &v6), ends("[::1]:3", "[::2]:4")),
            (binary(0x20, 0, &[]), None),
        ];
        for (bytes, expected) in cases {
            let (result, rest) = reading(&bytes).await;
            assert_eq!(result.unwrap(), expected, "{bytes:?}");
            assert_eq!(rest, b"GET");
        }
    }

    #[tokio::test]
    async fn anything_else_is_refused() {
        let long = format!("PROXY TCP4 {}\r\n", "1".repeat(200));
        for bytes in [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            b"PROXY TCP4 ::1 ::2 1 2\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 99999\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.4 1.2.3.4 +1 80\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 +80\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 \r\n".to_vec(),
            b"PROXY".to_vec(),
            long.into_bytes(),
            binary(0x31, 0x11, &[0; 12]),
            binary(0x21, 0x11, &[0; 3]),
        ] {
            assert!(reading(&bytes).await.0.is_err(), "{bytes:?}");
        }
    }
}
