//! The protocol that a request asks to upgrade to (RFC 9110, 7.8). All code that accepts or examines an upgrade uses this module, so that
//! no two parts of the gateway interpret a request differently.

use crate::{Protocol, RequestHead};

/// The protocol of an upgrade request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upgrade {
    /// WebSocket, with or without a version in `Upgrade`, alone or in a list.
    WebSocket,
    /// Any other protocols, as the request lists them.
    Other(Vec<u8>),
}

impl Upgrade {
    /// Returns the upgrade that a request asks for, or `None`. An upgrade requires `Connection: upgrade`, and is ignored in HTTP/1.0. An
    /// HTTP/2 request for a tunnel (RFC 8441) gets both lines when it is read. An offer of `h2c` cancels the upgrade, because requests on
    /// the upgraded connection would bypass routing.
    pub fn of(head: &RequestHead) -> Option<Upgrade> {
        let mut lines = head.headers.get_all("upgrade").peekable();
        lines.peek()?;
        let asks = head.protocol != Protocol::Http10
            && head.headers.get_all("connection").any(|line| http1::list_has(line, "upgrade"));
        if !asks {
            return None;
        }
        let protocols: Vec<&[u8]> = lines
            .flat_map(|line| line.split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|protocol| !protocol.is_empty())
            .collect();
        let is_h2c = |protocol: &&[u8]| {
            protocol.get(..3).is_some_and(|begins| begins.eq_ignore_ascii_case(b"h2c"))
        };
        if protocols.is_empty() || protocols.iter().any(is_h2c) {
            return None;
        }
        if protocols.iter().any(|protocol| is_websocket(protocol)) {
            Some(Upgrade::WebSocket)
        } else {
            Some(Upgrade::Other(protocols.join(&b", "[..])))
        }
    }

    /// Returns true if a request names WebSocket in `Upgrade`, whether or not it validly asks for an upgrade.
    pub fn names_websocket(head: &RequestHead) -> bool {
        let mut lines = head.headers.get_all("upgrade");
        lines.any(|line| line.split(|byte| *byte == b',').any(is_websocket))
    }

    /// Returns true if a request validly asks for an upgrade to WebSocket.
    pub fn is_to_websocket(head: &RequestHead) -> bool {
        Upgrade::of(head) == Some(Upgrade::WebSocket)
    }

    /// Returns the value of the `Upgrade` line that asks for this protocol.
    pub fn into_line(self) -> Vec<u8> {
        match self {
            Upgrade::WebSocket => b"websocket".to_vec(),
            Upgrade::Other(protocols) => protocols,
        }
    }
}

/// Returns true if a protocol is WebSocket, with or without a version.
fn is_websocket(protocol: &[u8]) -> bool {
    let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(b"websocket")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrade_requests_are_interpreted_by_all_of_their_lines() {
        let other = |text: &str| Some(Upgrade::Other(text.as_bytes().to_vec()));
        let websocket = || Some(Upgrade::WebSocket);
        for (lines, expected) in [
            (&[("Connection", "Upgrade"), ("Upgrade", "websocket")][..], websocket()),
            (&[("Connection", "keep-alive, upgrade"), ("Upgrade", "WebSocket")], websocket()),
            (&[("Connection", "upgrade"), ("Upgrade", "websocket/13")], websocket()),
            (&[("Connection", "upgrade"), ("Upgrade", "websocket / 13")], websocket()),
            (&[("Connection", "upgrade"), ("Upgrade", "foo/1, websocket")], websocket()),
            (
                &[("Connection", "upgrade"), ("Upgrade", "foo"), ("Upgrade", "websocket")],
                websocket(),
            ),
            (&[("Connection", "upgrade"), ("Upgrade", "foo/1 ,bar")], other("foo/1, bar")),
            (&[("Connection", "upgrade"), ("Upgrade", "websockets")], other("websockets")),
            (&[("Upgrade", "websocket")], None),
            (&[("Connection", "close"), ("Upgrade", "websocket")], None),
            (&[("Connection", "upgrade")], None),
            (&[("Connection", "upgrade"), ("Upgrade", " , ")], None),
            (&[("Connection", "upgrade"), ("Upgrade", "h2c")], None),
            (&[("Connection", "upgrade"), ("Upgrade", "websocket, H2C")], None),
            (&[("Connection", "upgrade"), ("Upgrade", "h2c-14")], None),
        ] {
            for (protocol, expected) in [
                (Protocol::Http11, expected.clone()),
                (Protocol::Http2, expected),
                (Protocol::Http10, None),
            ] {
                let mut head = RequestHead::new(protocol, b"GET", b"/");
                for (name, value) in lines {
                    head.headers.add(name, value.as_bytes()).unwrap();
                }
                assert_eq!(Upgrade::of(&head), expected, "{lines:?} {protocol:?}");
            }
        }
    }
}
