//! `ip_filter`: which addresses may ask.

use crate::harness::{Origin, Plain};

#[test]
fn only_the_client_that_is_believed_counts() {
    let origin = Origin::saying("ok");
    for (networks, trusted, forwarded, status) in [
        ("allow: [\"127.0.0.0/8\"]", false, "", 200),
        ("allow: [\"192.0.2.0/24\"]", false, "", 403),
        ("allow: [\"192.0.2.0/24\"]", false, "192.0.2.1", 403),
        ("allow: [\"192.0.2.0/24\"]", true, "192.0.2.1", 200),
        ("allow: [\"192.0.2.0/24\"]", true, "192.0.2.1, 198.51.100.1", 403),
        ("deny: [192.0.2.7]", true, "192.0.2.7", 403),
        ("deny: [192.0.2.7]", true, "192.0.2.8", 200),
        ("allow: [\"192.0.2.0/24\"], deny: [192.0.2.7]", true, "192.0.2.7", 403),
        ("deny: [\"::ffff:0:0/96\"]", true, "192.0.2.8", 200),
        ("deny: [192.0.2.8]", true, "::ffff:192.0.2.8", 403),
        ("allow: [\"192.0.2.0/24\"]", true, "192.0.2.1:4711", 200),
        ("allow: [\"192.0.2.0/24\"]", true, "192.0.2.1:4711, 127.0.0.2:80", 200),
        ("allow: [\"192.0.2.0/24\"]", true, "192.0.2.1:port", 403),
        ("allow: [\"2001:db8::/32\"]", true, "[2001:db8::1]:80", 200),
        ("allow: [\"2001:db8::/32\"]", true, "[2001:db8::1]", 200),
        ("allow: [\"2001:db8::/32\"]", true, "2001:db8::1", 200),
    ] {
        let route = format!("policies: [{{ ip_filter: {{ {networks} }} }}]");
        let listener = if trusted { "trusted_proxies: [\"127.0.0.0/8\"]" } else { "" };
        let gateway = Plain { route: &route, listener, ..Plain::default() }.start(&origin);
        let line = match forwarded {
            "" => String::new(),
            client => format!("X-Forwarded-For: {client}\r\n"),
        };
        let reply = gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n"));
        assert_eq!(reply.status(), status, "{networks} {forwarded}");
        assert_eq!(reply.text().contains("\"fault\":\"refused\""), status == 403, "{reply:?}");
    }
}
