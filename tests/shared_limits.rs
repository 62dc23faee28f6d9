//! A `rate_limit` that several gateways share through a Redis server of the test's own.

use std::process::{Child, Command, Stdio};

use crate::harness::{Gateway, Origin, Plain, until};

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
