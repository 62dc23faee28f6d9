//! Names and passwords.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::harness::{Gateway, Message, Origin, Plain, tidegate, until};

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
fn the_header_for_proxies_counts_where_the_operator_says_so() {
    let origin = Origin::saying("ok");
    let line = |header: &str, pair: &str| format!("{header}: Basic {}\r\n", STANDARD.encode(pair));
    let (proxy, plain) = ("Proxy-Authorization", "Authorization");
    let (right, wrong, unknown) = ("alice:wonder:land", "alice:wonder", "nobody:x");
    for (key, lines, status) in [
        ("", line(proxy, right), 401),
        ("", line(proxy, wrong) + &line(plain, right), 200),
        (", proxy_authorization: true", line(proxy, right), 200),
        (", proxy_authorization: true", line(plain, right), 200),
        (", proxy_authorization: true", line(proxy, right) + &line(plain, wrong), 200),
        (", proxy_authorization: true", line(proxy, wrong) + &line(plain, right), 401),
        (", proxy_authorization: true", line(proxy, unknown) + &line(plain, right), 200),
        (", proxy_authorization: true", line(proxy, unknown), 401),
        (", proxy_authorization: true", line(proxy, right) + &line(proxy, right), 401),
        (", proxy_authorization: true", "Proxy-Authorization: Bearer x\r\n".to_owned(), 401),
        (", proxy_authorization: true", String::new(), 401),
    ] {
        origin.forget();
        let route =
            format!("policies: [{{ basic: {{ users: {{ alice: \"wonder:land\" }}{key} }} }}]");
        let gateway = Plain { route: &route, ..Plain::default() }.start(&origin);
        let reply = gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(reply.status(), status, "{key}: {lines}");
        let seen = origin.requests();
        assert_eq!(seen.len(), usize::from(status == 200));
        assert!(key.is_empty() || seen.iter().all(|seen| seen.get(proxy).is_none()), "{lines}");
        assert!(seen.iter().all(|seen| seen.get(plain).is_none()), "{lines}");
    }
}

#[test]
fn slow_hashes_are_checked_beside_the_worker() {
    let origin = Origin::saying("ok");
    // The published test vectors, of OpenBSD's bcrypt and of the reference Argon2.
    for (hash, password) in [
        ("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"),
        (
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "password",
        ),
    ] {
        let gateway = gateway(&origin, hash);
        let before = origin.requests().len();
        let right = format!("erin:{password}");
        assert_eq!(ask(&gateway, &right).status(), 200, "{hash}");
        // The second time the password is cached. A wrong one stays wrong, and an unknown name takes as long.
        assert_eq!(ask(&gateway, &right).status(), 200, "{hash}");
        for wrong in ["erin:U*V", "erin:U*V", &format!("nobody:{password}")] {
            until("the password was checked", || ask(&gateway, wrong).status() == 401);
        }
        assert_eq!(origin.requests().len() - before, 2, "{hash}");
    }
}

#[test]
fn hashes_that_cost_too_much_or_are_none_are_complained_about() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let hash = "c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    for (hash, complaint) in [
        (format!("$argon2id$v=19$m=1000000,t=2,p=1${hash}"), "more than 262144 KiB"),
        (format!("$argon2id$v=19$m=256,t=1000,p=1${hash}"), "more than 16 passes"),
        (
            "$2a$31$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW".to_owned(),
            "the bcrypt cost 31 exceeds 14",
        ),
        ("$2a$05$CC".to_owned(), "like a bcrypt hash, but is not one"),
        ("$6$rounds=5000$salt$hash".to_owned(), "this kind of hash is not supported"),
    ] {
        let route = format!("policies: [{{ basic: {{ users: {{ erin: {hash:?} }} }} }}]");
        let origin = Origin::saying("ok");
        std::fs::write(&file, Plain { route: &route, ..Plain::default() }.yaml(&origin)).unwrap();
        let run = tidegate(&["check".as_ref(), file.as_os_str()]);
        let said = run.stdout + &run.stderr;
        assert_eq!(run.code, Some(1), "{hash}: {said}");
        assert!(said.contains(complaint) && said.contains("a.yaml:"), "{hash}: {said}");
    }
}

/// Issue 18.15: there are few places for slow hashes, and one client with wrong passwords took them all.
#[test]
fn one_client_with_wrong_passwords_keeps_nobody_else_out() {
    let origin = Origin::saying("ok");
    let hash = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
    let users: String = (0..4).map(|n| format!("erin{n}: \"{hash}\"\n")).collect();
    // A guess at this one's password keeps a place for thirty times as long.
    let users = format!("{users}slow: \"{}\"\n", hash.replace("$05$", "$10$"));
    let route = "policies: [{ basic: { users: { file: users.yaml } } }]";
    let listener = "trusted_proxies: [\"127.0.0.0/8\"]";
    let yaml = Plain { route, listener, ..Plain::default() }.yaml(&origin);
    let gateway = Gateway::start_beside(yaml, &[("users.yaml", &users)]);
    let request = |client: &str, credentials: String| {
        let credentials = STANDARD.encode(credentials);
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\nAuthorization: Basic {credentials}\r\n\r\n"
        )
    };
    // The attacker always has thirty passwords on their way, each another one, over as many connections.
    let mut attacker: Vec<_> = (0..30).map(|_| gateway.wire()).collect();
    let mut guesses = 0..;
    let mut guess = |wire: &mut crate::harness::Wire| {
        let guess: u32 = guesses.next().unwrap();
        wire.send(request("192.0.2.66", format!("slow:guess {guess}")));
    };
    attacker.iter_mut().for_each(&mut guess);
    for n in 0..4 {
        let login = request("192.0.2.1", format!("erin{n}:U*U"));
        assert_eq!(gateway.wire().ask(login).status(), 200, "the login of erin{n}");
        for wire in &mut attacker {
            let status = wire.read_reply().status();
            assert!(matches!(status, 401 | 429 | 503), "{status}");
            guess(wire);
        }
    }
    assert_eq!(origin.requests().len(), 4);
}

/// The waiting requests of one client are limited, and further ones are told to retry later.
#[test]
fn a_client_with_too_many_passwords_under_way_is_429() {
    let origin = Origin::saying("ok");
    // With a cost of 11, no machine checks half of them before the others have arrived.
    let gateway = gateway(&origin, "$2a$11$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW");
    let mut wires: Vec<_> = (0..40).map(|_| gateway.wire()).collect();
    for (n, wire) in wires.iter_mut().enumerate() {
        let credentials = STANDARD.encode(format!("erin:guess {n}"));
        wire.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n"
        ));
    }
    let replies: Vec<Message> = wires.iter_mut().map(crate::harness::Wire::read_reply).collect();
    let too_many: Vec<_> = replies.iter().filter(|reply| reply.status() == 429).collect();
    assert!(!too_many.is_empty(), "{replies:?}");
    assert!(too_many.iter().all(|reply| reply.get("retry-after") == Some("1")));
    assert!(replies.iter().all(|reply| matches!(reply.status(), 401 | 429 | 503)));
}
