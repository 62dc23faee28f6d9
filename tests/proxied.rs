//! The PROXY protocol: the client's address as reported by the load balancer.

use crate::harness::{Gateway, Origin, Plain};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// A version 2 header.
fn binary(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
    let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, addresses].concat()
}

fn gateway(origin: &Origin) -> Gateway {
    Plain { listener: "proxy_protocol: true, timeout: { tls: 2s }", ..Plain::default() }
        .start(origin)
}

#[test]
fn the_client_is_who_the_header_says() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin);
    let v4 = [203, 0, 113, 7, 192, 0, 2, 2, 0x1f, 0x90, 0, 80];
    let mut v6 = [0; 36];
    (v6[0], v6[1], v6[2], v6[3], v6[15], v6[31]) = (0x20, 0x01, 0x0d, 0xb8, 7, 2);
    let additions = [&v4[..], b"\x04\0\x02hi"].concat();
    for (header, client) in [
        (b"PROXY TCP4 203.0.113.7 192.0.2.2 8080 80\r\n".to_vec(), "203.0.113.7"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::2 8080 80\r\n".to_vec(), "2001:db8::7"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), "127.0.0.1"),
        (binary(0x21, 0x11, &v4), "203.0.113.7"),
        (binary(0x21, 0x11, &additions), "203.0.113.7"),
        (binary(0x21, 0x21, &v6), "2001:db8::7"),
        (binary(0x20, 0x00, &[]), "127.0.0.1"),
    ] {
        for together in [true, false] {
            let mut wire = gateway.wire();
            if together {
                wire.send([&header[..], REQUEST].concat());
            } else {
                header.iter().for_each(|byte| wire.send([*byte]));
                wire.send(REQUEST);
            }
            assert_eq!(wire.read_reply().text(), "ok");
            // The header is for the whole connection.
            assert_eq!(wire.ask(REQUEST).text(), "ok");
            let requests = origin.requests();
            let clients =
                requests.iter().rev().take(2).map(|request| request.get("x-forwarded-for"));
            assert!(clients.eq([Some(client); 2]), "{}", header.escape_ascii());
        }
    }
}

#[test]
fn a_connection_without_a_right_header_is_closed() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin);
    for header in [
        b"".to_vec(),
        b"PROXY TCP4 203.0.113.7\r\n".to_vec(),
        b"PROXY TCP4 2001:db8::7 2001:db8::2 1 2\r\n".to_vec(),
        b"PROXY TCP4 203.0.113.7 192.0.2.2 8080 99999\r\n".to_vec(),
        b"proxy TCP4 203.0.113.7 192.0.2.2 8080 80\r\n".to_vec(),
        [b"PROXY TCP4 ".to_vec(), vec![b'1'; 200], b"\r\n".to_vec()].concat(),
        binary(0x31, 0x11, &[0; 12]),
        binary(0x21, 0x11, &[0; 3]),
    ] {
        let mut wire = gateway.wire();
        wire.try_send([&header[..], REQUEST].concat());
        assert!(wire.is_closed(), "{}", header.escape_ascii());
    }
    // A slow one does not keep a place either.
    let mut slow = gateway.wire();
    slow.send("PROXY TCP4");
    assert!(slow.is_closed());
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn without_the_option_the_header_is_no_request() {
    let origin = Origin::saying("ok");
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send("PROXY TCP4 203.0.113.7 192.0.2.2 8080 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(wire.next_head().is_none_or(|head| head.status() == 400));
    wire.read_to_end();
    assert_eq!(origin.accepted(), 0);
}
