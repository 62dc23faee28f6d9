//! A `rate_limit` that several gateways share through a Redis server of the test's own.

use std::process::{Child, Command, Stdio};

use crate::harness::{Authority, Gateway, Origin, Plain, until};

/// A server on a socket in a folder of its own. It is killed with the test.
struct Redis {
    process: Child,
    folder: tempfile::TempDir,
}

impl Redis {
    fn start() -> Redis {
        let folder = tempfile::tempdir().unwrap();
        let process = Redis::run(&folder);
        Redis { process, folder }
    }

    fn run(folder: &tempfile::TempDir) -> Child {
        let socket = folder.path().join("redis");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--requirepass", "geheim"])
            .arg("--unixsocket")
            .arg(&socket)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server; scripts/setup.sh installs it");
        until("the server listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        process
    }

    fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let _gone = std::fs::remove_file(self.folder.path().join("redis"));
    }

    /// A gateway whose limit is told to this server.
    fn gateway(&self, origin: &Origin, limit: &str) -> Gateway {
        let route = format!("policies: [{{ rate_limit: {{ {limit}, by: route, shared: ours }} }}]");
        let store = format!(
            "stores: {{ ours: {{ redis: \"unix://{}/redis\", password: geheim, interval: 20ms }} }}",
            self.folder.path().display()
        );
        Plain { route: &route, more: &store, ..Plain::default() }.start(origin)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have been stopped.
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn passes(gateway: &Gateway) -> bool {
    gateway.wire().get("/").status() == 200
}

#[test]
fn what_one_gateway_let_through_counts_at_the_other() {
    let redis = Redis::start();
    let origin = Origin::saying("ok");
    let [one, other] = [(); 2].map(|()| redis.gateway(&origin, "requests: 10, per: 1h"));
    assert!((0..10).all(|_| passes(&one)));
    assert!(!passes(&one));
    // The other has not asked yet: what it lets through meanwhile is the overshoot, and it learns soon.
    let mut overshoot = 0;
    until("the other knows", || {
        let passed = passes(&other);
        overshoot += usize::from(passed);
        !passed
    });
    assert!(overshoot <= 10, "more than it would let through alone: {overshoot}");
    assert!(!passes(&one) && !passes(&other));
}

#[test]
fn the_overshoot_is_paid_back() {
    let redis = Redis::start();
    let origin = Origin::saying("ok");
    let [one, other] = [(); 2].map(|()| redis.gateway(&origin, "requests: 5, per: 1h"));
    let passed =
        (0..8).map(|_| usize::from(passes(&one)) + usize::from(passes(&other))).sum::<usize>();
    assert!((5..=10).contains(&passed), "{passed}");
    // Each request costs 720 s, and all of them are owed to both.
    let owed = u64::try_from(passed).unwrap() * 720;
    for gateway in [&one, &other] {
        until("all is known here", || {
            let reply = gateway.wire().get("/");
            let wait: u64 = reply.get("retry-after").unwrap_or("0").parse().unwrap();
            reply.status() == 429 && wait + 60 > owed + 720 - 3600
        });
    }
}

#[test]
fn while_the_server_is_away_each_gateway_limits_alone_and_tells_later() {
    let mut redis = Redis::start();
    let origin = Origin::saying("ok");
    let one = redis.gateway(&origin, "requests: 4, per: 1h");
    redis.stop();
    assert!((0..4).all(|_| passes(&one)), "a request does not wait for the server");
    assert!(!passes(&one));
    one.wait_for_log("the store of shared limits is away; each gateway limits alone");
    redis.process = Redis::run(&redis.folder);
    one.wait_for_log("the store of shared limits answers again");
    let other = redis.gateway(&origin, "requests: 4, per: 1h");
    // Alone it would have to wait for 900 s at the most, once it has used up its own burst.
    until("the other knows of those four", || {
        let reply = other.wire().get("/");
        let wait: u64 = reply.get("retry-after").unwrap_or("0").parse().unwrap();
        reply.status() == 429 && wait > 1700
    });
    assert!(!one.log().contains("geheim") && !other.log().contains("geheim"));
}

/// A server that speaks nothing but TLS, with certificates of an authority.
struct Secure {
    redis: Redis,
    port: u16,
    authority: Authority,
}

impl Secure {
    fn start() -> Secure {
        let authority = Authority::new();
        let folder = tempfile::tempdir().unwrap();
        let server = authority.issue("localhost");
        for (name, text) in
            [("ca", authority.pem()), ("cert", server.certificate), ("key", server.key)]
        {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        // It takes no port 0: a free one may be taken before it is there, and then another will do.
        loop {
            let port =
                std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut process = Command::new("redis-server")
                .args([
                    "--port",
                    "0",
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                    "--requirepass",
                    "geheim",
                ])
                .args(["--bind", "127.0.0.1", "--tls-port", &port.to_string()])
                .args([
                    "--tls-cert-file",
                    "cert",
                    "--tls-key-file",
                    "key",
                    "--tls-ca-cert-file",
                    "ca",
                ])
                .args(["--tls-auth-clients", "yes"])
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .expect("redis-server; scripts/setup.sh installs it");
            let mut ended = false;
            until("the server listens", || {
                ended = process.try_wait().unwrap().is_some();
                ended || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            if !ended {
                return Secure { redis: Redis { process, folder }, port, authority };
            }
        }
    }

    fn gateway(&self, origin: &Origin, tls: &str) -> Gateway {
        let store = format!(
            "stores: {{ ours: {{ redis: \"rediss://localhost:{}/3\", password: geheim, interval: 20ms, tls: {{ {tls} }} }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}",
            self.port
        );
        let route = "policies: [{ rate_limit: { requests: 3, per: 1h, by: route, shared: ours } }]";
        let yaml = Plain { route, more: &store, ..Plain::default() }.yaml(origin);
        let (us, stranger) = (self.authority.issue("gate"), Authority::new());
        Gateway::start_beside(
            yaml,
            &[
                ("ca.pem", &self.authority.pem()),
                ("stranger.pem", &stranger.pem()),
                ("us.pem", &us.certificate),
                ("us.key", &us.key),
            ],
        )
    }
}

/// What a metric of the store says, if it says anything.
fn metric(gateway: &Gateway, name: &str) -> Option<u64> {
    let text = gateway.admin_get("/metrics").text();
    text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().parse().unwrap())
}

#[test]
fn counts_are_shared_over_tls_and_metrics_say_whether_the_store_answers() {
    let mut secure = Secure::start();
    let origin = Origin::saying("ok");
    let whole = "ca: ca.pem, certificate: us.pem, key: us.key";
    let [one, other] = [(); 2].map(|()| secure.gateway(&origin, whole));
    let answers = "tidegate_store_answers{store=\"ours\"}";
    assert_eq!(metric(&one, answers), None, "nobody knows yet");
    assert!((0..3).all(|_| passes(&one)) && !passes(&one));
    until("it was told", || metric(&one, answers) == Some(1));
    // Each request costs 1200 s: alone the other would never have to wait longer than that.
    until("the other knows", || {
        let wait =
            other.wire().get("/").get("retry-after").map(|wait| wait.parse::<u64>().unwrap());
        wait > Some(1200)
    });
    assert_eq!(metric(&other, answers), Some(1));
    // Who is not vouched for, and who cannot show who it is, counts alone.
    for tls in ["ca: stranger.pem, certificate: us.pem, key: us.key", "ca: ca.pem"] {
        let alone = secure.gateway(&origin, tls);
        assert!((0..3).all(|_| passes(&alone)) && !passes(&alone), "{tls}");
        alone.wait_for_log("the store of shared limits is away");
        assert_eq!(metric(&alone, answers), Some(0), "{tls}");
    }
    secure.redis.stop();
    until("somebody tried", || {
        passes(&one);
        metric(&one, answers) == Some(0)
    });
    assert!(
        metric(&one, "tidegate_store_calls_total{store=\"ours\",result=\"failure\"}") > Some(0)
    );
    assert!(
        metric(&one, "tidegate_store_calls_total{store=\"ours\",result=\"success\"}") > Some(0)
    );
}
