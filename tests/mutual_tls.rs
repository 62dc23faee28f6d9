//! Client certificates as a name.

use std::sync::LazyLock;

use crate::harness::{Authority, Gateway, Origin, Plain, Wire};

static OURS: LazyLock<Authority> = LazyLock::new(Authority::new);
static CLIENTS: LazyLock<Authority> = LazyLock::new(Authority::new);

#[track_caller]
fn gateway(origin: &Origin, tls: &str, listener: &str, policy: &str) -> Gateway {
    let own = OURS.issue("a.test");
    let listener = format!("tls: {{ certificate: a.pem, key: a.key, {tls} }}, {listener}");
    let route = format!("policies: [{{ mutual_tls: {{ {policy} }} }}]");
    let yaml = Plain { listener: &listener, route: &route, ..Plain::default() }.yaml(origin);
    let files =
        [("a.pem", own.certificate.as_str()), ("a.key", &own.key), ("c.pem", &CLIENTS.pem())];
    Gateway::start_beside(yaml, &files)
}

const ASK: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

#[test]
fn a_listed_certificate_lets_in_and_another_does_not() {
    let origin = Origin::saying("ok");
    for policy in ["subjects: [good.test]", "names: [good.test]", "names: [Good.TEST]"] {
        let gateway = gateway(&origin, "client_auth: { ca: c.pem, mode: request }", "", policy);
        let address = gateway.address("public");
        let status = |trust| Wire::connect_tls(address, "a.test", &trust).ask(ASK).status();
        assert_eq!(status(OURS.trust().showing(CLIENTS.issue("good.test"))), 200, "{policy}");
        assert_eq!(status(OURS.trust().showing(CLIENTS.issue("bad.test"))), 401, "{policy}");
        assert_eq!(status(OURS.trust()), 401, "{policy}: without a certificate");
    }
    assert_eq!(origin.requests().len(), 3);
}

#[test]
fn a_certificate_of_another_authority_is_refused_by_the_listener() {
    let origin = Origin::saying("ok");
    let gateway =
        gateway(&origin, "client_auth: { ca: c.pem, mode: request }", "", "optional: true");
    let address = gateway.address("public");
    assert_eq!(Wire::connect_tls(address, "a.test", &OURS.trust()).ask(ASK).status(), 200);
    let stranger = OURS.trust().showing(OURS.issue("good.test"));
    let refused = Wire::try_tls(address, "a.test", &stranger)
        .map_or(true, |mut wire| !wire.try_send(ASK) || wire.is_closed() || wire.is_reset());
    assert!(refused);
}

#[test]
fn only_a_trusted_proxy_is_believed_about_certificates() {
    let origin = Origin::saying("ok");
    let client = CLIENTS.issue("good.test");
    let header = client.certificate.replace('\n', "%0A").replace('+', "%2B").replace(' ', "%20");
    let route = "policies: [{ mutual_tls: { subjects: [good.test], header: X-Client-Cert } }]";
    for (listener, status) in
        [("trusted_proxies: [127.0.0.1]", 200), ("trusted_proxies: [192.0.2.1]", 401)]
    {
        let gateway = Plain { listener, route, ..Plain::default() }.start(&origin);
        let ask = |value: &str| {
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Client-Cert: {value}\r\n\r\n");
            gateway.wire().ask(request).status()
        };
        assert_eq!(ask(&header), status, "{listener}");
        assert_eq!(ask("rubbish"), 401);
        assert_eq!(ask(&CLIENTS.issue("bad.test").certificate.replace('\n', "%0A")), 401);
        assert_eq!(gateway.wire().ask(ASK).status(), 401);
    }
    assert!(origin.request().get("x-client-cert").is_none());
}
