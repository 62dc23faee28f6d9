//! Requests that arrive in pieces: a fault at the beginning is reported before the end.

use super::*;

const ROUTE: &str =
    "errors: kong, policies: [{ soap: { schema: calculator.wsdl, verbose: true } }]";

/// The head of a request whose body has that many bytes.
fn head(length: usize) -> String {
    format!(
        "POST /ws HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n"
    )
}

#[test]
fn a_bad_beginning_is_refused_while_the_client_still_holds_the_rest() {
    let origin = Origin::saying("never");
    let gateway = gateway(&origin, ROUTE);
    let wrong = add().replace("<intA>5</intA>", "<intA>five</intA>");
    let (at, _) = wrong.match_indices("<intB>").next().unwrap();
    let unknown = envelope(SOAP_11, &operation("Divided", "1", "2"));
    let (named, _) = unknown.match_indices("<intA>").next().unwrap();
    for (beginning, said) in [
        (&wrong[..at], "Error Node: intA, Error code: 1824, Line: 5"),
        (&unknown[..named], "Error Node: Divided, Error code: 1845, Line: 4"),
        ("<soap:Envelope xmlns:soap=\"urn:none\">", "Error code: 1845, Line: 1"),
        ("<a></b>", "Invalid XML input. Line: 1"),
        ("no xml at all", "Start tag expected"),
    ] {
        // The rest never comes.
        let mut wire = gateway.wire();
        wire.send(format!("{}{beginning}", head(100_000)));
        let reply = wire.read_reply();
        assert_eq!(reply.status(), 500);
        assert!(reply.text().contains(said), "{beginning}: {}", reply.text());
    }
    assert_eq!(origin.requests().len(), 0, "nothing of it went on");
}

#[test]
fn a_message_in_pieces_is_judged_as_one_at_once() {
    let origin = Origin::saying("ok");
    let gateway =
        gateway(&origin, &ROUTE.replace("verbose: true", "verbose: true, action: required"));
    let lines = "Content-Type: text/xml\r\nSOAPAction: http://tempuri.org/Add\r\n";
    let good = add();
    let late = good.replace("<intB>7</intB>", "<intB>7</intB><intC/>");
    let open = good.replace("</soap:Envelope>", "");
    let plain = post_to(&gateway, "/ws", lines, &late).text();
    assert!(plain.contains("Error Node: intC, Error code: 1871"), "{plain}");
    for (body, expected) in [
        (&good, "ok".to_owned()),
        (&late, plain),
        (&open, post_to(&gateway, "/ws", lines, &open).text()),
    ] {
        // A chunk for each byte, so that the parser sees every way to cut it.
        let chunks: String =
            body.chars().map(|c| format!("{:x}\r\n{c}\r\n", c.len_utf8())).collect();
        let request = format!(
            "POST /ws HTTP/1.1\r\nHost: a.test\r\n{lines}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
        );
        let mut wire = gateway.wire();
        let middle = request.len() - body.len() * 3;
        for piece in [&request[..middle], &request[middle..middle + 40], &request[middle + 40..]] {
            wire.send(piece);
        }
        assert_eq!(wire.read_reply().text(), expected);
    }
    // The action is checked when the message is complete.
    let mut wire = gateway.wire();
    let (first, rest) = good.split_at(100);
    wire.send(format!("{}{first}", head(good.len())));
    wire.send(rest);
    assert!(wire.read_reply().text().contains("The 'SOAPAction' header is not set"));
    let sent = origin.requests();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].text(), good, "and goes on as it came");
}

#[test]
fn a_large_message_is_checked_to_its_end() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, ROUTE);
    let comment = format!("<!--{}-->", "x".repeat(300_000));
    let good = add().replace("<intA>", &format!("{comment}<intA>"));
    assert_eq!(post(&gateway, &good).text(), "ok");
    let bad = good.replace("<intB>7</intB>", "<intB>seven</intB>");
    let reply = post(&gateway, &bad);
    assert!(reply.text().contains("Error Node: intB, Error code: 1824"), "{}", reply.text());
    assert_eq!(origin.requests().len(), 1);
    let limited = gateway_to(
        &origin.url(),
        &ROUTE.replace("verbose: true", "verbose: true, body_bytes_max: 100KiB"),
        &[],
    );
    let chunked = format!(
        "POST /ws HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{good}",
        good.len()
    );
    let mut wire = limited.wire();
    wire.send(chunked);
    assert_eq!(wire.read_reply().status(), 413);
}
