//! A minimal HTTP client for the demo. It reads the status and the headers of a reply, and does not decode the body.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ANSWER_MAX;

/// The reply to a request of the demo.
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) body: String,
}

/// Maximum size of a reply. The demo prints replies, so they are small.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Sends a request, and reads the reply until the peer closes the connection.
pub(super) async fn send(address: SocketAddr, request: &str) -> anyhow::Result<Answer> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        // Harmless: a truncated reply differs from the expected one.
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        // Harmless: the text is only shown.
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer =
        tokio::time::timeout(ANSWER_MAX, exchange).await.context("no answer in time")??;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("incomplete head: {answer}")
    };
    // Harmless: a status that is missing or not a number is an error.
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).context("no status")?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

/// Sends a GET request.
pub(super) async fn get(address: SocketAddr, path: &str) -> anyhow::Result<Answer> {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
        .await
}

/// Sends a POST request.
pub(super) async fn post(
    address: SocketAddr,
    path: &str,
    content_type: &str,
    body: &str,
) -> anyhow::Result<Answer> {
    let length = body.len();
    send(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
    )
    .await
}

/// Upgrades to WebSocket, sends one text and reads one back (RFC 6455, 5.2).
pub(super) async fn websocket(
    address: SocketAddr,
    path: &str,
    text: &str,
) -> anyhow::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let handshake = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(handshake.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        if !head.starts_with(b"HTTP/1.1 101") {
            // Harmless: the text is only shown.
            bail!("{}", String::from_utf8_lossy(&head));
        }
        stream.write_all(&text_frame(text)?).await?;
        let _kind = stream.read_u8().await?;
        let len = stream.read_u8().await?;
        let mut payload = vec![0; usize::from(len)];
        stream.read_exact(&mut payload).await?;
        // Harmless: the text is only compared.
        Ok(String::from_utf8_lossy(&payload).into_owned())
    };
    tokio::time::timeout(ANSWER_MAX, exchange).await.context("no answer in time")?
}

/// Encodes a message of one masked text frame. The text must be shorter than 126 bytes.
fn text_frame(text: &str) -> anyhow::Result<Vec<u8>> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let len =
        u8::try_from(text.len()).ok().filter(|len| *len < 126).context("too long for the demo")?;
    // Harmless: the mask is repeated endlessly.
    let masked = text.bytes().zip(MASK.into_iter().cycle()).map(|(byte, mask)| byte ^ mask);
    Ok([0x81, 0x80 | len].into_iter().chain(MASK).chain(masked).collect())
}
