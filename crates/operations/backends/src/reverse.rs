//! The reversing WebSocket: each message is sent back reversed, text by grapheme clusters (a flag or an accented letter is kept whole),
//! binary data by bytes.
//!
//! It supports HTTP/1.1 upgrades on any path, answers pings and completes the closing handshake.

use std::pin::pin;
use std::sync::OnceLock;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_websockets::{Limits, Message, ServerBuilder};
use unicode_segmentation::UnicodeSegmentation as _;

use super::body::{Reply, full, refusal};

/// The maximum size of a message, which is held in memory to be reversed.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// The suffix for computing `Sec-WebSocket-Accept` (RFC 6455, 1.3).
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns a 101 and sets `upgrade` to the rest of the connection, or returns a refusal.
pub(super) fn answer(request: &mut Request<Incoming>, upgrade: &OnceLock<OnUpgrade>) -> Reply {
    let Some(key) = websocket_key(request.headers()) else {
        let mut reply = refusal(StatusCode::UPGRADE_REQUIRED, "this backend speaks WebSocket 13");
        let headers = reply.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return reply;
    };
    let mut reply = Response::new(full(""));
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = reply.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.extend(accept(key).map(|accept| (header::SEC_WEBSOCKET_ACCEPT, accept)));
    headers.extend(subprotocol(request.headers()));
    // A connection is upgraded at most once: afterwards hyper reads no further request.
    drop(upgrade.set(hyper::upgrade::on(request)));
    reply
}

/// Reverses messages until either side closes.
pub(super) async fn converse(upgrade: OnUpgrade) {
    let Ok(upgraded) = upgrade.await else { return };
    let limits = Limits::default().max_payload_len(Some(MESSAGE_BYTES_MAX));
    let mut socket = pin!(ServerBuilder::new().limits(limits).serve(TokioIo::new(upgraded)));
    // The library answers pings and the peer's Close frame while messages are read.
    while let Some(Ok(message)) = socket.next().await {
        if let Some(message) = reversed(&message)
            && socket.send(message).await.is_err()
        {
            return;
        }
    }
}

fn reversed(message: &Message) -> Option<Message> {
    if let Some(text) = message.as_text() {
        return Some(Message::text(text.graphemes(true).rev().collect::<String>()));
    }
    message.is_binary().then(|| {
        Message::binary(message.as_payload().iter().rev().copied().collect::<bytes::Bytes>())
    })
}

fn websocket_key(headers: &HeaderMap) -> Option<&HeaderValue> {
    let is = |name: HeaderName, word: &str| {
        // Harmless: a header that is not text does not request an upgrade.
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    let asked = is(header::UPGRADE, "websocket")
        && is(header::CONNECTION, "upgrade")
        && is(header::SEC_WEBSOCKET_VERSION, "13");
    headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| asked)
}

fn accept(key: &HeaderValue) -> Option<HeaderValue> {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(ACCEPT_SUFFIX);
    // Harmless: Base64 is always a valid header value.
    HeaderValue::from_str(&STANDARD.encode(hash.finish())).ok()
}

/// Returns the subprotocol for the reply. Some clients require one of those that they offer, so the first one is accepted.
fn subprotocol(headers: &HeaderMap) -> Option<(HeaderName, HeaderValue)> {
    // Harmless: a protocol that is not text is not chosen.
    let offered = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    // Harmless: a protocol that is not a valid header value is not chosen.
    let first = HeaderValue::from_str(offered.split(',').next()?.trim()).ok()?;
    Some((header::SEC_WEBSOCKET_PROTOCOL, first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_reversed_by_character_as_read() {
        let cases = [
            ("abc", "cba"),
            ("", ""),
            ("größe", "eßörg"),
            ("日本語", "語本日"),
            // A combining accent, a flag and a family emoji are kept whole.
            ("e\u{301}x", "xe\u{301}"),
            ("🇩🇪🇫🇷", "🇫🇷🇩🇪"),
            ("a👨‍👩‍👧b", "b👨‍👩‍👧a"),
        ];
        for (text, expected) in cases {
            let answer = reversed(&Message::text(text)).unwrap();
            assert_eq!(answer.as_text(), Some(expected));
        }
    }

    #[test]
    fn accept_of_the_rfc() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept(&key).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
