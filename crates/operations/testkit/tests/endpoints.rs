//! Upstreams as endpoints, with a paused clock: growing suspensions, failover and its return, sticky clients.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::task::Poll;

use testkit::{Client, Gateway, Message, ServiceAnswer, ServiceRequest, Services, run};

const FIRST: &str = "192.0.2.1:80";
const SECOND: &str = "192.0.2.2:80";
const THIRD: &str = "192.0.2.3:80";

/// Targets that answer with their own address unless another answer is set.
#[derive(Clone, Default)]
struct Targets(Rc<RefCell<HashMap<SocketAddr, ServiceAnswer>>>);

impl Targets {
    fn set(&self, target: &str, answer: ServiceAnswer) {
        self.0.borrow_mut().insert(target.parse().unwrap(), answer);
    }

    fn mend(&self, target: &str) {
        self.0.borrow_mut().remove(&target.parse().unwrap());
    }

    fn gateway(&self, targets: &[&str], upstream: &str) -> Gateway {
        let urls: Vec<String> = targets.iter().map(|target| format!("http://{target}")).collect();
        let yaml = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\n\
             upstreams: {{ u: {{ targets: {urls:?}, timeout: {{ response: 1s }}, {upstream} }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: u }} }}\n"
        );
        let told = self.clone();
        let answer = move |asked: &ServiceRequest| {
            let told = told.0.borrow().get(&asked.to).cloned();
            told.unwrap_or_else(|| ServiceAnswer::with(200, "", &asked.to.to_string()))
        };
        Gateway::new(&yaml, Path::new("."), Services::new(answer)).unwrap()
    }
}

/// Sends one request on its own connection. Five minutes pass after it, as after each exchange.
async fn ask(gateway: &Gateway, lines: &str) -> Message {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n");
    let outcome = gateway.exchange(&Client::sending(request)).await;
    outcome.replies(&[false]).unwrap().remove(0)
}

/// Returns the body of a 200, or else the status.
async fn says(gateway: &Gateway) -> String {
    let reply = ask(gateway, "").await;
    match reply.method_or_status.as_str() {
        "200" => String::from_utf8(reply.body).unwrap(),
        status => status.to_owned(),
    }
}

async fn say(gateway: &Gateway, times: usize) -> Vec<String> {
    let mut said = Vec::new();
    for _ in 0..times {
        said.push(says(gateway).await);
    }
    said
}

/// Returns a list of this length: `first` and then only `then`.
fn once(first: &str, then: &str, places: usize) -> Vec<String> {
    let mut said = vec![then.to_owned(); places];
    said[0] = first.to_owned();
    said
}

const ENDPOINT: &str =
    "balance: failover, suspend: { on: [timeout, reset, 503], initial: 14m, factor: 2, max: 39m }";

#[test]
fn a_suspension_grows_with_each_failure_and_ends_with_a_success() {
    for (answer, status) in [
        (ServiceAnswer::Silent, "504"),
        (ServiceAnswer::Cut(Vec::new()), "502"),
        (ServiceAnswer::with(503, "", ""), "503"),
    ] {
        run(async {
            let targets = Targets::default();
            let gateway = targets.gateway(&[FIRST, SECOND], ENDPOINT);
            assert_eq!(say(&gateway, 2).await, [FIRST, FIRST]);
            targets.set(FIRST, answer);
            // 14, 28 and finally 39 minutes, with a request every five minutes.
            for places in [3, 6, 8, 8] {
                let said = say(&gateway, places).await;
                assert_eq!(said, once(status, SECOND, places), "{status}");
            }
            targets.mend(FIRST);
            assert_eq!(say(&gateway, 3).await, [FIRST; 3], "it goes back by itself");
            targets.set(FIRST, ServiceAnswer::with(503, "", ""));
            assert_eq!(say(&gateway, 3).await, once("503", SECOND, 3), "and begins anew");
            assert_eq!(says(&gateway).await, "503");
        });
    }
}

#[test]
fn only_so_many_failures_in_a_row_of_the_listed_kinds_suspend() {
    run(async {
        let targets = Targets::default();
        let suspend = "balance: failover, suspend: { on: [503], after: 3, initial: 14m, max: 14m }";
        let gateway = targets.gateway(&[FIRST, SECOND], suspend);
        let (listed, other) = (ServiceAnswer::with(503, "", ""), ServiceAnswer::with(500, "", ""));
        for (answer, status, times) in [
            (&listed, "503", 2),
            (&other, "500", 5),
            (&listed, "503", 2),
            (&ServiceAnswer::Cut(Vec::new()), "502", 2),
            // A broken connection is neither a reply nor a listed error, so it does not reset the count.
            (&listed, "503", 1),
        ] {
            targets.set(FIRST, answer.clone());
            assert_eq!(say(&gateway, times).await, vec![status; times]);
        }
        assert_eq!(say(&gateway, 2).await, [SECOND; 2]);
        assert_eq!(says(&gateway).await, "503", "one is enough behind a suspension");
        assert_eq!(says(&gateway).await, SECOND);
    });
}

#[test]
fn many_failures_of_one_moment_are_one_suspension() {
    run(async {
        let targets = Targets::default();
        targets.set(FIRST, ServiceAnswer::Silent);
        let gateway = targets.gateway(&[FIRST, SECOND], ENDPOINT);
        let mut together: Vec<_> = (0..3).map(|_| Box::pin(says(&gateway))).collect();
        let mut said = Vec::new();
        poll_fn(|cx| {
            together.retain_mut(|one| match one.as_mut().poll(cx) {
                Poll::Ready(status) => {
                    said.push(status);
                    false
                }
                Poll::Pending => true,
            });
            if together.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert_eq!(said, ["504"; 3]);
        assert_eq!(say(&gateway, 2).await, [SECOND; 2]);
        targets.mend(FIRST);
        assert_eq!(
            says(&gateway).await,
            FIRST,
            "it was suspended for 14 minutes, and not for more"
        );
    });
}

#[test]
fn a_suspended_target_is_told_from_a_group_without_one() {
    for (all, fault) in [(&[FIRST][..], "target_suspended"), (&[FIRST, SECOND], "no_target")] {
        run(async {
            let targets = Targets::default();
            all.iter().for_each(|target| targets.set(target, ServiceAnswer::with(503, "", "busy")));
            let gateway = targets.gateway(all, ENDPOINT);
            for _ in all {
                let reply = ask(&gateway, "").await;
                assert_eq!((reply.method_or_status.as_str(), &*reply.body), ("503", &b"busy"[..]));
            }
            let asked = gateway.services().take_requests().len();
            let reply = ask(&gateway, "").await;
            assert!(reply.text().contains(&format!("\"fault\":\"{fault}\"")), "{reply:?}");
            assert_eq!((reply.method_or_status.as_str(), asked), ("503", all.len()));
            assert!(gateway.services().take_requests().is_empty(), "nobody is asked");
        });
    }
}

#[test]
fn a_retry_goes_to_the_next_target() {
    run(async {
        let targets = Targets::default();
        for target in [FIRST, SECOND] {
            targets.set(target, ServiceAnswer::with(503, "", ""));
        }
        let retry = format!("{ENDPOINT}, retry: {{ attempts: 2, when: [503] }}");
        let gateway = targets.gateway(&[FIRST, SECOND, THIRD], &retry);
        let asked = || -> Vec<String> {
            gateway.services().take_requests().iter().map(|asked| asked.to.to_string()).collect()
        };
        assert_eq!(says(&gateway).await, THIRD);
        assert_eq!(asked(), [FIRST, SECOND, THIRD]);
        assert_eq!(says(&gateway).await, THIRD);
        assert_eq!(asked(), [THIRD], "the others are suspended");
        // If no target is left, the last reply counts.
        targets.set(THIRD, ServiceAnswer::with(503, "", "busy"));
        let reply = ask(&gateway, "").await;
        assert_eq!((reply.method_or_status.as_str(), &*reply.body), ("503", &b"busy"[..]));
        assert_eq!(asked(), [THIRD]);
        targets.set(SECOND, ServiceAnswer::with(503, "", "busy"));
        let reply = ask(&gateway, "").await;
        assert_eq!((reply.method_or_status.as_str(), &*reply.body), ("503", &b"busy"[..]));
        assert_eq!(asked(), [FIRST, SECOND], "again in order, after 14 minutes");
    });
}

/// Returns the cookie that a reply sets, as the client sends it back.
fn cookie(reply: &Message) -> Option<String> {
    let set = reply.values("set-cookie").next()?;
    let set = String::from_utf8(set.to_vec()).unwrap();
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; HttpOnly");
    Some(pair.to_owned())
}

#[test]
fn a_client_stays_at_its_target_until_that_is_not_ready() {
    run(async {
        let targets = Targets::default();
        let sticky = "sticky: { cookie: srv }, suspend: { on: [503], initial: 14m, max: 14m }";
        let gateway = targets.gateway(&[FIRST, SECOND, THIRD], sticky);
        let first = ask(&gateway, "").await;
        let (home, pin) = (String::from_utf8(first.body.clone()).unwrap(), cookie(&first).unwrap());
        let with = |pin: &str| format!("Cookie: a=1; {pin}; b=2\r\n");
        gateway.services().take_requests();
        for _ in 0..4 {
            let reply = ask(&gateway, &with(&pin)).await;
            assert_eq!((&reply.body, cookie(&reply)), (&first.body, None));
        }
        for asked in gateway.services().take_requests() {
            let sent: Vec<&[u8]> = asked.request.values("cookie").collect();
            assert_eq!(sent, [b"a=1; b=2"], "the gateway's own cookie stays here");
        }
        targets.set(&home, ServiceAnswer::with(503, "", ""));
        let failed = ask(&gateway, &with(&pin)).await;
        assert_eq!((failed.method_or_status.as_str(), cookie(&failed)), ("503", None));
        let elsewhere = ask(&gateway, &with(&pin)).await;
        let other = cookie(&elsewhere).unwrap();
        assert!(elsewhere.body != first.body && other != pin);
        targets.mend(&home);
        for _ in 0..4 {
            let reply = ask(&gateway, &with(&other)).await;
            assert_eq!((&reply.body, cookie(&reply)), (&elsewhere.body, None), "it stays there");
        }
        let back = ask(&gateway, &with(&pin)).await;
        assert_eq!((&back.body, cookie(&back)), (&first.body, None), "an old pin is good again");
    });
}

#[test]
fn the_value_of_a_pin_depends_on_the_url_and_the_secret_alone() {
    run(async {
        let pin = async |all: &[&str], upstream: &str| {
            cookie(&ask(&Targets::default().gateway(all, upstream), "").await).unwrap()
        };
        let plain = "balance: failover, sticky: { cookie: srv }";
        let value = pin(&[FIRST, SECOND], plain).await;
        let digits = value.strip_prefix("srv=").unwrap();
        assert!(digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{value}");
        assert_eq!(pin(&[FIRST], plain).await, value, "after a reload with other targets");
        assert_ne!(pin(&[SECOND, FIRST], plain).await, value);
        let secret = "balance: failover, sticky: { cookie: srv, secret: \"x\" }";
        assert_ne!(pin(&[FIRST], secret).await, value);
        // The value is the same in all gateways and versions.
        assert_eq!(value, "srv=96bc73ef7c975120");
    });
}
