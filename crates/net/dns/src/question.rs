//! Sends one query to one server: by UDP, and by TCP if the answer is truncated (RFC 1035, 4.2; RFC 7766).

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use aws_lc_rs::rand;
use domain::base::{Message, MessageBuilder, Name, Rtype};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::Failure;

/// The timeout for an answer, over UDP and again over TCP. A recursive server may have to query several others.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// The maximum size of a datagram.
const DATAGRAM_BYTES: usize = 65_535;

pub(crate) async fn ask(
    server: SocketAddr,
    name: &Name<Vec<u8>>,
    rtype: Rtype,
) -> Result<Message<Vec<u8>>, Failure> {
    let query = query(name, rtype).map_err(|error| Failure::Io(server, error))?;
    let answer = in_time(server, by_udp(server, &query)).await?;
    if answer.header().tc() { in_time(server, by_tcp(server, &query)).await } else { Ok(answer) }
}

async fn in_time<T>(
    server: SocketAddr,
    asked: impl Future<Output = io::Result<T>>,
) -> Result<T, Failure> {
    match timeout(ANSWER_TIME, asked).await {
        Ok(Ok(asked)) => Ok(asked),
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Failure::Malformed(server))
        }
        Ok(Err(error)) => Err(Failure::Io(server, error)),
        Err(_) => Err(Failure::Silent(server)),
    }
}

/// Builds a query. Its id and source port are all that distinguishes an answer from a forged one, so they must be unpredictable (RFC 5452).
/// The system chooses a random port.
fn query(name: &Name<Vec<u8>>, rtype: Rtype) -> io::Result<Message<Vec<u8>>> {
    let mut id = [0; 2];
    rand::fill(&mut id).map_err(|_| io::Error::other("no random numbers"))?;
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(u16::from_ne_bytes(id));
    builder.header_mut().set_rd(true);
    let mut question = builder.question();
    question.push((name, rtype)).map_err(io::Error::other)?;
    Ok(question.into_message())
}

async fn by_udp(server: SocketAddr, query: &Message<Vec<u8>>) -> io::Result<Message<Vec<u8>>> {
    kit::stand_in::refuse_others()?;
    let any: SocketAddr = if server.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(query.as_slice()).await?;
    let mut bytes = vec![0; DATAGRAM_BYTES];
    loop {
        let length = socket.recv(&mut bytes).await?;
        // Harmless: the length is at most the size of the buffer.
        let received = bytes.get(..length).unwrap_or_default().to_vec();
        // Harmless: a datagram that does not answer this query may be forged, and the real answer may still arrive.
        if let Ok(answer) = Message::from_octets(received)
            && answer.is_answer(query)
        {
            return Ok(answer);
        }
    }
}

async fn by_tcp(server: SocketAddr, query: &Message<Vec<u8>>) -> io::Result<Message<Vec<u8>>> {
    let mut stream = kit::dial::tcp(&server.ip().to_string(), server.port()).await?;
    let length = u16::try_from(query.as_slice().len()).map_err(io::Error::other)?;
    let framed = [&length.to_be_bytes()[..], query.as_slice()].concat();
    stream.write_all(&framed).await?;
    let length = usize::from(stream.read_u16().await?);
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    let answer = Message::from_octets(bytes);
    let answer =
        answer.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why.to_string()))?;
    if answer.is_answer(query) && !answer.header().tc() {
        Ok(answer)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}
