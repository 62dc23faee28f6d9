//! Certificates that others refuse are reported: by `check`, in the log and in the metrics.

use std::sync::LazyLock;

use rcgen::{BasicConstraints, IsCa};

use crate::harness::{Authority, Gateway, Identity, Origin, Plain, Wire, tidegate, until};

static OURS: LazyLock<Authority> = LazyLock::new(Authority::new);

const DAY: u64 = 24 * 60 * 60;

/// Made by `openssl x509 -req` without an extensions file.
const VERSION_1: &str = include_str!("../crates/net/tls/tests/version-1.pem");

/// Seconds since the Unix epoch.
fn now() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// A certificate that ends after this many days.
fn ending(host: &str, days: u64) -> Identity {
    OURS.issue_for(host, now() - DAY, now() + days * DAY + DAY / 2)
}

fn expired(host: &str) -> Identity {
    OURS.issue_for(host, now() - 9 * DAY, now() - 3 * DAY - DAY / 2)
}

fn authority(host: &str) -> Identity {
    OURS.issue_as(host, |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))
}

/// The end of the certificate at a place of the configuration, as the metrics have it.
fn end(gateway: &Gateway, place: &str) -> Option<u64> {
    let metrics = gateway.admin_get("/metrics").text();
    let name = format!("tidegate_certificate_expiry_timestamp_seconds{{certificate=\"{place}\"}} ");
    let end = metrics.lines().find_map(|line| line.strip_prefix(&*name))?;
    Some(end.parse().unwrap())
}

#[test]
fn check_names_what_clients_would_refuse() {
    let good = OURS.issue("a.test");
    let version_1 = Identity { certificate: VERSION_1.to_owned(), key: good.key.clone() };
    let not_yet = OURS.issue_for("a.test", now() + 5 * DAY + DAY / 2, now() + 90 * DAY);
    for (identity, code, said, line) in [
        (good, 0, None, ""),
        (version_1, 1, Some("not of X.509 version 3"), "-noout -text"),
        (authority("a.test"), 0, Some("an authority's (CA:TRUE)"), "-ext basicConstraints"),
        (expired("a.test"), 0, Some("expired 3 days ago"), "-noout -dates"),
        (not_yet, 0, Some("becomes valid in 5 days"), "-noout -dates"),
        (ending("a.test", 29), 0, Some("expires in 29 days"), "-noout -dates"),
        (ending("a.test", 31), 0, None, ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let write = |name, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.pem", &identity.certificate);
        write("a.key", &identity.key);
        write(
            "gate.yaml",
            "listen:\n  public: { address: \"127.0.0.1:0\", tls: { certificate: a.pem, key: a.key } }\n\
             routes: { all: { match: { path: /** }, respond: {} } }\n",
        );
        let file = folder.path().join("gate.yaml");
        let file = file.to_str().unwrap();
        let run = tidegate(&["check", file]);
        assert_eq!(run.code, Some(code), "{run:?}");
        let told = format!("{}{}", run.stdout, run.stderr);
        let Some(said) = said else {
            assert!(!told.contains("openssl"), "{run:?}");
            continue;
        };
        assert!(told.contains(said) && told.contains("gate.yaml:2:"), "{run:?}");
        assert!(told.contains("`openssl x509 -in ") && told.contains(line), "{run:?}");
        assert_eq!(tidegate(&["check", "--strict", file]).code, Some(1), "{said}");
    }
}

#[test]
fn the_log_names_what_is_wrong_with_an_upstreams_certificate() {
    let ours = OURS.pem();
    for (identity, said, line) in [
        (expired("127.0.0.1"), "expired 3 days ago", "-dates"),
        (authority("127.0.0.1"), "an authority's (CA:TRUE)", "-ext basicConstraints"),
    ] {
        let origin = Origin::start_tls(identity.server(None), crate::harness::echo);
        let targets = [format!("https://{}", origin.address())];
        let yaml = Plain { targets: &targets, upstream: "tls: { ca: ca.pem }", ..Plain::default() };
        let gateway = Gateway::start_beside(yaml.yaml(&origin), &[("ca.pem", &ours)]);
        assert_eq!(gateway.wire().get("/").status(), 502);
        gateway.wait_for_log(said);
        let look = format!("openssl s_client -connect {} -servername 127.0.0.1", origin.address());
        let log = gateway.log();
        assert!(log.contains(&look) && log.contains(line), "{log}");
    }
}

#[test]
fn the_log_names_what_is_wrong_with_a_clients_certificate() {
    let (own, clients) = (OURS.issue("a.test"), Authority::new());
    let listener = "tls: { certificate: a.pem, key: a.key, client_ca: clients.pem }";
    let origin = Origin::echo();
    let yaml = Plain { listener, ..Plain::default() }.yaml(&origin);
    let files =
        [("a.pem", own.certificate.as_str()), ("a.key", &own.key), ("clients.pem", &clients.pem())];
    let gateway = Gateway::start_beside(yaml, &files);
    let late = clients.issue_for("client.test", now() - 9 * DAY, now() - 3 * DAY - DAY / 2);
    let trust = OURS.trust().showing(late);
    // With TLS 1.3, the client notices the refusal only when it reads.
    let _refused = Wire::try_tls(gateway.address("public"), "a.test", &trust);
    gateway.wait_for_log("client certificate: the certificate expired 3 days ago");
}

#[test]
fn the_metrics_say_when_each_certificate_ends() {
    let (own, named, shown) = (ending("a.test", 60), ending("b.test", 90), ending("us.test", 120));
    let listener = "tls: { certificate: a.pem, key: a.key, sni: { b.test: { certificate: b.pem, key: b.key } } }";
    let origin = Origin::echo();
    let targets = [format!("https://{}", origin.address())];
    let upstream = "tls: { certificate: us.pem, key: us.key }";
    let more = "admin: { address: \"127.0.0.1:0\" }\n";
    let yaml = Plain { listener, upstream, targets: &targets, more, ..Plain::default() };
    let files = [
        ("a.pem", own.certificate.as_str()),
        ("a.key", &own.key),
        ("b.pem", &named.certificate),
        ("b.key", &named.key),
        ("us.pem", &shown.certificate),
        ("us.key", &shown.key),
    ];
    let gateway = Gateway::start_beside(yaml.yaml(&origin), &files);
    let days_left = |place: &str| end(&gateway, place).map(|end| (end - now()) / DAY);
    assert_eq!(days_left("listen.public.tls"), Some(60));
    assert_eq!(days_left("listen.public.tls.sni.b.test"), Some(90));
    assert_eq!(days_left("upstreams.origin.tls"), Some(120));

    let renewed = ending("a.test", 365);
    gateway.put("a.key", &renewed.key);
    gateway.put("a.pem", &renewed.certificate);
    until("the renewed certificate is shown", || days_left("listen.public.tls") == Some(365));
}

/// A certificate that all clients refuse takes the place of no valid one, of a listener, of a host or for an upstream. Where there is no
/// valid one, it is served with a warning: some clients do not look.
#[test]
fn an_expired_certificate_takes_the_place_of_no_valid_one() {
    const STAYS: &str = "the valid certificate in use stays in place";
    let origin = Origin::echo();
    let listener = "tls: { certificate: a.pem, key: a.key, sni: { b.test: { certificate: b.pem, key: b.key } } }";
    let targets = [format!("https://{}", origin.address())];
    let upstream = "tls: { certificate: us.pem, key: us.key }";
    let more = "admin: { address: \"127.0.0.1:0\" }\n";
    let yaml = Plain { listener, upstream, targets: &targets, more, ..Plain::default() };
    let yaml = yaml.yaml(&origin);
    let not_yet = |host: &str| OURS.issue_for(host, now() + 5 * DAY, now() + 90 * DAY);
    let (default, of_host) = ("listen.public.tls", "listen.public.tls.sni.b.test");
    for (file, host, place, bad, said) in [
        ("a", "a.test", default, expired("a.test"), "expired 3 days ago"),
        ("b", "b.test", of_host, expired("b.test"), "expired 3 days ago"),
        ("us", "us.test", "upstreams.origin.tls", expired("us.test"), "expired 3 days ago"),
        ("a", "a.test", default, not_yet("a.test"), "becomes valid in"),
    ] {
        let (own, named, shown) =
            (ending("a.test", 60), ending("b.test", 60), ending("us.test", 60));
        let files = [
            ("a.pem", own.certificate.as_str()),
            ("a.key", &own.key),
            ("b.pem", &named.certificate),
            ("b.key", &named.key),
            ("us.pem", &shown.certificate),
            ("us.key", &shown.key),
        ];
        let gateway = Gateway::start_beside(yaml.clone(), &files);
        let handshakes = || {
            let to = |host| Wire::try_tls(gateway.address("public"), host, &OURS.trust()).is_ok();
            to("a.test") && to("b.test")
        };
        let (pem, key) = (format!("{file}.pem"), format!("{file}.key"));
        gateway.put(&key, &bad.key);
        gateway.put(&pem, &bad.certificate);
        gateway.wait_for_log(STAYS);
        let log = gateway.log();
        assert!(log.contains(said) && log.contains(&pem), "{file}: {log}");
        assert!(handshakes(), "{file}");
        let failed = "tidegate_config_reloads_total{result=\"failure\"} ";
        assert!(!gateway.admin_get("/metrics").text().contains(&format!("{failed}0")), "{file}");
        // A valid one does.
        let good = ending(host, 90);
        gateway.put(&pem, &good.certificate);
        gateway.put(&key, &good.key);
        until("the valid one is shown", || {
            end(&gateway, place).is_some_and(|end| end > now() + 80 * DAY)
        });
        assert!(handshakes(), "{file}");
    }
    // Nothing valid is lost here.
    let first = expired("a.test");
    let second = OURS.issue_for("a.test", now() - 9 * DAY, now() - 6 * DAY);
    let files = [("a.pem", first.certificate.as_str()), ("a.key", first.key.as_str())];
    let plain =
        Plain { listener: "tls: { certificate: a.pem, key: a.key }", more, ..Plain::default() };
    let gateway = Gateway::start_beside(plain.yaml(&origin), &files);
    gateway.put("a.pem", &second.certificate);
    gateway.put("a.key", &second.key);
    until("it is in service", || end(&gateway, default).is_some_and(|end| end < now() - 5 * DAY));
    assert!(!gateway.log().contains(STAYS), "{}", gateway.log());
}

#[test]
fn a_listener_for_development_needs_no_files() {
    let origin = Origin::saying("ok");
    let listener = "tls: { self_signed: true }";
    let gateway = Plain { listener, ..Plain::default() }.start(&origin);
    gateway.wait_for_log("clients cannot verify a certificate that is `self_signed`");
    let targets = [format!("https://{}", gateway.address("public"))];
    for (upstream, status) in [("tls: { verify: false }", 200), ("", 502)] {
        let client = Plain { targets: &targets, upstream, ..Plain::default() }.start(&origin);
        assert_eq!(client.wire().get("/").status(), status, "{upstream:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    for (tls, code, said) in [
        ("self_signed: true", 0, "write `certificate` and `key` elsewhere"),
        ("self_signed: true, certificate: a.pem, key: a.key", 1, "keep the files"),
        ("self_signed: true, key: a.key", 1, "keep the files"),
        ("key: a.key", 1, "the key `certificate` is missing"),
        ("certificate: a.pem", 1, "the key `key` is missing"),
        ("self_signed: false", 1, "write `self_signed: true` for development"),
    ] {
        let listener = format!("tls: {{ {tls} }}");
        let yaml = Plain { listener: &listener, ..Plain::default() }.yaml(&origin);
        std::fs::write(&file, yaml).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        let told = run.stdout + &run.stderr;
        assert_eq!(run.code, Some(code), "{tls}: {told}");
        assert!(told.contains(said), "{tls}: {told}");
    }
}
