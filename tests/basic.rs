//! Names and passwords.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::harness::{Gateway, Message, Origin, Plain, until};

/// `dave` has `{SHA}` of `pass`, `erin` bcrypt of `pass` with the lowest cost.
const FILE: &str =
    "alice: wonder:land\ndave: \"{SHA}nU4eI71bcnBGqeO0t9tXvY1u5oQ=\"\nerin: \"ERIN\"\n";

#[track_caller]
fn gateway(origin: &Origin, erin: &str) -> Gateway {
    let route = "policies: [{ basic: { users: { file: users.yaml }, realm: \"the shop\" } }]";
    let yaml = Plain { route, ..Plain::default() }.yaml(origin);
    Gateway::start_beside(yaml, &[("users.yaml", &FILE.replace("ERIN", erin))])
}

#[track_caller]
fn ask(gateway: &Gateway, credentials: &str) -> Message {
    let credentials = STANDARD.encode(credentials);
    gateway
        .wire()
        .ask(format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n"))
}

#[test]
fn a_name_with_its_password_lets_in_and_stays_here() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "x");
    for credentials in ["alice:wonder:land", "dave:pass"] {
        assert_eq!(ask(&gateway, credentials).status(), 200, "{credentials}");
    }
    assert!(origin.requests().iter().all(|request| request.get("authorization").is_none()));
    for credentials in [
        "alice:wonder",
        "alice:",
        "alice",
        "",
        ":",
        "bob:wonder:land",
        "ALICE:wonder:land",
        "dave:Pass",
    ] {
        let reply = ask(&gateway, credentials);
        assert_eq!(reply.status(), 401, "{credentials}");
        let challenge = "Basic realm=\"the shop\", charset=\"UTF-8\"";
        assert_eq!(reply.get("www-authenticate"), Some(challenge));
    }
    for line in
        ["", "Authorization: Basic ?\r\n", "Authorization: Bearer x\r\n", "Authorization: b\r\n"]
    {
        let reply = gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n"));
        assert_eq!(reply.status(), 401, "{line}");
    }
    assert_eq!(ask(&gateway, &format!("alice:{}", "x".repeat(5000))).status(), 401);
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn slow_hashes_are_checked_beside_the_worker() {
    let origin = Origin::saying("ok");
    // The published test vector: no letter as the password (OpenBSD's bcrypt, `U*U`).
    let gateway = gateway(&origin, "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW");
    assert_eq!(ask(&gateway, "erin:U*U").status(), 200);
    // The second time it is known; a wrong one stays wrong, and a name nobody has takes as long.
    assert_eq!(ask(&gateway, "erin:U*U").status(), 200);
    for wrong in ["erin:U*V", "erin:U*V", "nobody:U*U"] {
        until("the password was checked", || ask(&gateway, wrong).status() == 401);
    }
    assert_eq!(origin.requests().len(), 2);
}
