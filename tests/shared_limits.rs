//! A `rate_limit` that several gateways share through a Redis server of the test's own.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Authority, Gateway, Origin, Plain, until};

/// A server on a socket in its own folder. It is killed with the test.
pub(crate) struct Redis {
    process: Child,
    folder: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Redis {
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
        let _ = std::fs::remove_file(self.folder.path().join("redis"));
    }

    /// A gateway whose limit is shared through this server, which may be slow on a busy machine.
    fn gateway(&self, origin: &Origin, limit: &str) -> Gateway {
        let route = format!("policies: [{{ rate_limit: {{ {limit}, by: route, shared: ours }} }}]");
        Plain { route: &route, more: &self.stores(), ..Plain::default() }.start(origin)
    }

    /// The section with this server as `ours`.
    pub(crate) fn stores(&self) -> String {
        format!(
            "stores: {{ ours: {{ redis: \"unix://{}/redis\", password: geheim, interval: 20ms, timeout: 30s }} }}",
            self.folder.path().display()
        )
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have been stopped.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn passes(gateway: &Gateway) -> bool {
    gateway.wire().get("/").status() == 200
}

/// The number of requests that passed, sent to two gateways by several clients of each at once.
fn passed(gateways: [&Gateway; 2], clients: usize, requests: usize) -> usize {
    let ask = |gateway: &Gateway| {
        let mut wire = gateway.wire();
        (0..requests).filter(|_| wire.get("/").status() == 200).count()
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .flat_map(|_| gateways)
            .map(|gateway| scope.spawn(move || ask(gateway)))
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    })
}

/// Of 4 allowed requests per minute 7 passed, 4 at one gateway and 3 at the other.
#[test]
fn a_small_limit_is_exact_over_two_gateways() {
    let origin = Origin::saying("ok");
    for (limit, most) in [
        ("requests: 1, per: 1h", 1),
        ("requests: 4, per: 1h", 4),
        ("requests: 10, per: 1h, burst: 3", 3),
        ("windows: [{ requests: 7, per: 1h }, { requests: 1000, per: 24h }]", 7),
        ("requests: 100, per: 1h", 100),
        ("requests: 4, per: 8760h, algorithm: fixed", 4),
        ("requests: 7, per: 8760h, algorithm: sliding", 7),
        (
            "windows: [{ requests: 9, per: 8760h }, { requests: 5, per: 4380h }], algorithm: fixed",
            5,
        ),
    ] {
        for (clients, requests) in [(1, 2 * most), (4, most)] {
            let redis = Redis::start();
            let gateways = [(); 2].map(|()| redis.gateway(&origin, limit));
            let passed = passed(gateways.each_ref(), clients, requests);
            assert_eq!(passed, most, "{limit}, {clients} clients of each");
            assert!(gateways.iter().all(|gateway| !passes(gateway)), "{limit}");
        }
    }
}

#[test]
fn a_window_on_the_clock_says_at_both_gateways_what_is_left() {
    let redis = Redis::start();
    let origin = Origin::saying("ok");
    let limit = "requests: 10, per: 8760h, algorithm: fixed, headers: kong";
    let [one, other] = [(); 2].map(|()| redis.gateway(&origin, limit));
    for left in (0..10).rev() {
        let gateway = if left % 3 == 0 { &one } else { &other };
        let reply = gateway.wire().get("/");
        assert_eq!(reply.get("x-ratelimit-remaining-year"), Some(&*left.to_string()), "{reply:?}");
    }
    for gateway in [&one, &other] {
        let reply = gateway.wire().get("/");
        assert_eq!((reply.status(), reply.get("x-ratelimit-remaining-year")), (429, Some("0")));
    }
}

/// Costs are reported after the replies; each request first asks what is left.
#[test]
fn what_replies_cost_at_one_gateway_counts_at_the_other() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let cost = if request.target() == "/" { "X-Cost: 4\r\n" } else { "" };
            peer.try_send(format!("HTTP/1.1 200 OK\r\n{cost}Content-Length: 2\r\n\r\nok"));
        }
    });
    for algorithm in ["fixed", "gcra"] {
        let redis = Redis::start();
        let limit = format!(
            "requests: 10, per: 8760h, algorithm: {algorithm}, headers: kong, cost: {{ header: x-cost }}"
        );
        let [one, other] = [(); 2].map(|()| redis.gateway(&origin, &limit));
        let left = |gateway: &Gateway, target: &str| {
            let reply = gateway.wire().get(target);
            let left = reply.get("x-ratelimit-remaining-year").unwrap_or_default().to_owned();
            (reply.status(), left)
        };
        for (gateway, told) in [(&one, "6"), (&other, "2"), (&one, "0")] {
            assert_eq!(left(gateway, "/"), (200, told.to_owned()), "{algorithm}");
            until("both gateways know", || {
                [&one, &other].iter().all(|gateway| left(gateway, "/look").1 == told)
            });
        }
        // A gateway that has counted nothing asks before its first request.
        let third = redis.gateway(&origin, &limit);
        for gateway in [&third, &one, &other] {
            assert_eq!(left(gateway, "/").0, 429, "{algorithm}");
        }
    }
}

/// With a large limit, a hundredth of the burst may pass unreported at each gateway.
#[test]
fn a_large_limit_is_over_by_a_hundredth_at_the_most() {
    let redis = Redis::start();
    let origin = Origin::saying("ok");
    let gateways = [(); 2].map(|()| redis.gateway(&origin, "requests: 500, per: 1h"));
    let passed = passed(gateways.each_ref(), 2, 300);
    assert!((500..=500 + 2 * 4).contains(&passed), "{passed}");
}

#[test]
fn what_one_gateway_let_through_counts_at_the_other() {
    let redis = Redis::start();
    let origin = Origin::saying("ok");
    let [one, other] = [(); 2].map(|()| redis.gateway(&origin, "requests: 10, per: 1h"));
    for left in (0..10).rev() {
        let gateway = if left % 3 == 0 { &one } else { &other };
        let reply = gateway.wire().get("/");
        let told = reply.get("ratelimit").unwrap();
        assert!(told.contains(&format!("r={left};")), "{told}");
    }
    for gateway in [&one, &other] {
        let reply = gateway.wire().get("/");
        let wait: u64 = reply.get("retry-after").unwrap().parse().unwrap();
        // One costs 360 s.
        assert!(reply.status() == 429 && (300..=360).contains(&wait), "{reply:?}");
    }
}

/// A server that does not answer is detected as soon as one that is gone, with and without requests.
#[test]
fn a_server_that_does_not_answer_is_seen_and_nobody_waits_for_it() {
    let redis = Redis::start();
    let origin = Origin::saying("ok");
    let store = format!(
        "stores: {{ ours: {{ redis: \"unix://{}/redis\", password: geheim }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}",
        redis.folder.path().display()
    );
    let route = "policies: [{ rate_limit: { requests: 4, per: 1h, by: route, shared: ours } }]";
    let yaml = Plain { route, more: &store, ..Plain::default() }.yaml(&origin);
    let [idle, asked] = [(); 2].map(|()| Gateway::start(&yaml));
    let answers = "tidegate_store_answers{store=\"ours\"}";
    for gateway in [&idle, &asked] {
        until("it is there", || metric(gateway, answers) == Some(1));
    }
    let pid = Pid::from_child(&redis.process);
    kill_process(pid, Signal::STOP).unwrap();
    // Alone, and all of them pass.
    assert!((0..4).all(|_| passes(&asked)) && !passes(&asked));
    for gateway in [&idle, &asked] {
        until("it is away", || metric(gateway, answers) == Some(0));
        gateway.wait_for_log("the store of shared limits is not available");
    }
    kill_process(pid, Signal::CONT).unwrap();
    for gateway in [&idle, &asked] {
        until("it is back", || metric(gateway, answers) == Some(1));
    }
    until("the other knows of all four", || !passes(&idle));
}

#[test]
fn while_the_server_is_away_each_gateway_limits_alone_and_tells_later() {
    let mut redis = Redis::start();
    let origin = Origin::saying("ok");
    let one = redis.gateway(&origin, "requests: 4, per: 1h");
    redis.stop();
    assert!((0..4).all(|_| passes(&one)), "a request does not wait for the server");
    assert!(!passes(&one));
    one.wait_for_log("the store of shared limits is not available; each gateway counts on its own");
    redis.process = Redis::run(&redis.folder);
    one.wait_for_log("the store of shared limits answers again");
    let other = redis.gateway(&origin, "requests: 4, per: 1h");
    // The call that was answered told of all four.
    assert!(!passes(&other), "the other knows of those four");
    assert!(!one.log().contains("geheim") && !other.log().contains("geheim"));
}

/// A server that is suspended and resumed processes all data that it was sent meanwhile, although no answer arrived
/// in time.
#[test]
fn what_passed_while_the_server_stood_still_is_told_once() {
    let origin = Origin::saying("ok");
    for (limit, lines) in [
        ("requests: 1000, per: 1h", "ratelimit"),
        (
            "requests: 1000, per: 8760h, algorithm: fixed, headers: kong",
            "x-ratelimit-remaining-year",
        ),
    ] {
        let redis = Redis::start();
        let more = format!(
            "stores: {{ ours: {{ redis: \"unix://{}/redis\", password: geheim, interval: 20ms, timeout: 200ms }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}",
            redis.folder.path().display()
        );
        let route = format!("policies: [{{ rate_limit: {{ {limit}, by: route, shared: ours }} }}]");
        let yaml = Plain { route: &route, more: &more, ..Plain::default() }.yaml(&origin);
        let [one, other] = [(); 2].map(|()| Gateway::start(&yaml));
        let left = || {
            let reply = other.wire().get("/");
            let told = reply.get(lines).unwrap_or_default().to_owned();
            let told = told.split("r=").last().unwrap_or_default();
            told.split(';').next().unwrap_or_default().parse::<u32>().unwrap_or_default()
        };
        until("they share", || passes(&one) && left() < 1000);
        let pid = Pid::from_child(&redis.process);
        kill_process(pid, Signal::STOP).unwrap();
        one.wait_for_log("the store of shared limits is not available");
        let failed =
            || metric(&one, "tidegate_store_calls_total{store=\"ours\",result=\"failure\"}");
        let mut wire = one.wire();
        (0..100).for_each(|_| assert_eq!(wire.get("/").status(), 200, "it limits alone"));
        let before = failed().unwrap_or_default();
        until("it has tried again and again", || failed().unwrap_or_default() >= before + 12);
        kill_process(pid, Signal::CONT).unwrap();
        one.wait_for_log("the store of shared limits answers again");
        other.wait_for_log("the store of shared limits answers again");
        until("the other knows of them", || left() <= 899);
        assert!(left() > 500, "{limit}: {} are left", left());
    }
}

/// A server that only supports TLS, with certificates of an authority.
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
            "stores: {{ ours: {{ redis: \"rediss://localhost:{}/3\", password: geheim, interval: 20ms, timeout: 30s, tls: {{ {tls} }} }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}",
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

/// The value of a metric of the store, if there is one.
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
    assert!((0..3).all(|_| passes(&one)) && !passes(&one));
    until("it was told", || metric(&one, answers) == Some(1));
    assert!(!passes(&other), "the other knows");
    assert_eq!(metric(&other, answers), Some(1));
    // A gateway without a trusted certificate, or without any, counts alone.
    for tls in ["ca: stranger.pem, certificate: us.pem, key: us.key", "ca: ca.pem"] {
        let alone = secure.gateway(&origin, tls);
        assert!((0..3).all(|_| passes(&alone)) && !passes(&alone), "{tls}");
        alone.wait_for_log("the store of shared limits is not available");
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

/// Issue 42: the step `throttle` counts as the policy does, also with other gateways.
#[test]
fn gateways_share_a_throttle() {
    let redis = Redis::start();
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n{}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\n\
         flows: {{ main: [throttle: {{ requests: 20, per: 1h, shared: ours }}, respond: {{ text: in }}] }}\n",
        redis.stores()
    );
    let gateways = [Gateway::start(&yaml), Gateway::start(&yaml)];
    assert_eq!(passed([&gateways[0], &gateways[1]], 2, 15), 20);
    assert!(!passes(&gateways[0]) && !passes(&gateways[1]));
}
