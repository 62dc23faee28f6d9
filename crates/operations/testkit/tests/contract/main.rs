//! The contract of policies: rules for every kind of policy. An exchange may be dropped at any await, a body may arrive in any pieces, and
//! a client or an upstream may disappear. There must be at most one reply and one record, no work may remain in progress, and the messages
//! must not depend on the pieces.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

mod cases;
mod stage;

use std::panic::{AssertUnwindSafe, catch_unwind};

use config::Policy;
use testkit::{AfterSending, Client, Message, ServiceAnswer, run};

use cases::{Ask, CASES, Case, Shows};
use stage::{Said, Stage, bytes_of};

/// Runs a check for each request of each case. If any failed, it fails at the end with all of them.
fn each(check: impl AsyncFn(&'static Case, &'static Ask)) {
    let all = CASES.iter().flat_map(|case| case.asks.iter().map(move |ask| (case, ask)));
    let failed: Vec<String> = all
        .filter(|(case, ask)| catch_unwind(AssertUnwindSafe(|| run(check(case, ask)))).is_err())
        .map(|(case, ask)| name(case, ask))
        .collect();
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
}

#[test]
fn every_kind_of_policy_has_a_case() {
    for name in Policy::NAMES {
        let cases: Vec<&Case> = CASES.iter().filter(|case| case.policy == *name).collect();
        let [case] = cases.as_slice() else {
            panic!(
                "`{name}` needs one case in crates/operations/testkit/tests/contract/cases.rs, there are {}",
                cases.len()
            );
        };
        assert!(
            case.policies.contains(&format!("{name}: ")),
            "the case of `{name}` does not use it"
        );
        assert!(!case.asks.is_empty(), "the case of `{name}` asks nothing");
    }
    assert_eq!(CASES.len(), Policy::NAMES.len());
}

#[test]
fn a_request_becomes_what_its_case_says() {
    each(async |case, ask| {
        let said = Stage::of(case).say(&Client::sending(bytes_of(ask))).await;
        assert_eq!(said.statuses(), [ask.status], "{}: {said:#?}", name(case, ask));
        let text = match ask.shows {
            Shows::Status => return,
            Shows::Above(text) => (text, said.above()),
            Shows::Below(text) => (text, said.below()),
        };
        assert!(text.1.contains(text.0), "{}: no `{}` in {}", name(case, ask), text.0, text.1);
    });
}

#[test]
fn an_exchange_that_is_dropped_at_any_await_leaves_nothing() {
    each(async |case, ask| {
        let stage = Stage::of(case);
        let mut client = Client { piece: Some(128), ..Client::sending(bytes_of(ask)) };
        stage.piece(Some(128));
        let before = stage.say(&client).await;
        assert_eq!(before.statuses(), [ask.status], "{}", name(case, ask));
        let mut recorded = 0;
        for polls in 0..before.polls {
            client.polls_max = Some(polls);
            let said = stage.say(&client).await;
            let at = format!("{}, dropped after {polls} polls", name(case, ask));
            said.assert_quiet(&at);
            assert!(
                said.records <= 1 && said.records >= recorded,
                "{at}: {} records",
                said.records
            );
            let seen = !said.written.is_empty() || !said.asked.is_empty();
            assert!(said.records == 1 || !seen, "{at}: no record of what was seen");
            recorded = said.records;
        }
        assert_eq!(recorded, 1, "{}: dropped with its last byte out", name(case, ask));
        client.polls_max = None;
        // A place that was not released is missing now.
        let after = stage.say(&client).await;
        assert_eq!(after.statuses(), [ask.status], "{}: {after:#?}", name(case, ask));
    });
}

#[test]
fn a_body_says_the_same_in_any_pieces() {
    each(async |case, ask| {
        let whole = bytes_of(ask);
        let expected = Stage::of(case).say(&Client::sending(whole.clone())).await;
        let head = whole.len() - ask.body.len();
        let step = (ask.body.len() / 6).max(1);
        let splits = (head..whole.len()).step_by(step);
        let ways = splits.map(|at| Client {
            sends: vec![whole[..at].to_vec(), whole[at..].to_vec()],
            piece: Some(usize::MAX),
            ..Client::default()
        });
        let by_byte =
            [1, 7].map(|piece| Client { piece: Some(piece), ..Client::sending(whole.clone()) });
        for client in ways.chain(by_byte) {
            let said = Stage::of(case).say(&client).await;
            let at = format!("{} in pieces of {:?}", name(case, ask), client.piece);
            assert_eq!(said.told(case), expected.told(case), "{at}");
            said.assert_quiet(&at);
        }
    });
}

#[test]
fn a_reply_says_the_same_in_any_pieces() {
    each(async |case, ask| {
        let client = Client::sending(bytes_of(ask));
        let expected = Stage::of(case).say(&client).await;
        for piece in [1, 13] {
            let stage = Stage::of(case);
            stage.piece(Some(piece));
            let said = stage.say(&client).await;
            let at = format!("{} from an upstream by {piece} bytes", name(case, ask));
            assert_eq!(said.told(case), expected.told(case), "{at}");
            said.assert_quiet(&at);
        }
    });
}

#[test]
fn a_reply_to_head_has_no_body() {
    each(async |case, ask| {
        let target = ask.start.split(' ').next_back().unwrap();
        let request = format!("HEAD {target} HTTP/1.1\r\nHost: a.test\r\n{}\r\n", ask.lines);
        let stage = Stage::of(case);
        let said = stage.say_head(&Client::sending(stage::filled(&request))).await;
        let [reply] = said.replies.as_slice() else {
            panic!("{}: {said:#?}", name(case, ask));
        };
        // Bytes after the head would have been parsed as another reply, or be left over.
        assert!(reply.body.is_empty(), "{}", name(case, ask));
        said.assert_once(&name(case, ask));
    });
}

#[test]
fn trailers_of_a_request_are_its_own_or_nobodys() {
    each(async |case, ask| {
        let head = String::from_utf8(bytes_of(&Ask { body: "", ..*ask })).unwrap();
        let head = head.strip_suffix("\r\n").unwrap().replace("Content-Length: 0\r\n", "");
        let request = format!(
            "{head}Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n{}0\r\nX-Sum: 9\r\n\r\n",
            stage::chunk(ask.body)
        );
        let said = Stage::of(case).say(&Client::sending(request)).await;
        let at = name(case, ask);
        assert_eq!(said.statuses(), [ask.status], "{at}: {said:#?}");
        said.assert_once(&at);
        for asked in said.asked_of_targets() {
            assert_trailers(&asked.request, ask.body, &at);
        }
    });
}

#[test]
fn trailers_of_a_reply_are_its_own_or_nobodys() {
    each(async |case, ask| {
        let (lines, body) = case.reply;
        let reply = format!(
            "HTTP/1.1 200 OK\r\n{lines}Transfer-Encoding: chunked\r\n\r\n{}0\r\nX-Sum: 9\r\n\r\n",
            stage::chunk(body)
        );
        let stage = Stage::answering(case, ServiceAnswer::Reply(reply.into_bytes()));
        let said = stage.say(&Client::sending(bytes_of(ask))).await;
        let at = name(case, ask);
        assert_eq!(said.statuses(), [ask.status], "{at}: {said:#?}");
        said.assert_once(&at);
        if !said.asked.is_empty() {
            assert_trailers(&said.replies[0], body, &at);
        }
    });
}

#[test]
fn a_client_that_is_gone_leaves_nothing() {
    each(async |case, ask| {
        let whole = bytes_of(ask);
        let head = whole.len() - ask.body.len();
        for (at, then) in [(head, AfterSending::Resets), (head, AfterSending::Ends)]
            .into_iter()
            .chain([
                (head + ask.body.len() / 2, AfterSending::Resets),
                (head + ask.body.len() / 2, AfterSending::Ends),
            ])
            .chain([(whole.len(), AfterSending::Resets)])
        {
            let client = Client { then, ..Client::sending(&whole[..at]) };
            let said = Stage::of(case).say(&client).await;
            said.assert_quiet(&format!("{}, gone after {at} bytes ({then:?})", name(case, ask)));
            assert!(said.replies.len() <= 1);
            assert_eq!(said.records, 1, "{}, gone after {at} bytes ({then:?})", name(case, ask));
        }
    });
}

#[test]
fn an_upstream_that_fails_is_one_reply_and_one_record() {
    each(async |case, ask| {
        let cut = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 999\r\n\r\nabc", case.reply.0);
        for answer in [
            ServiceAnswer::Cut(Vec::new()),
            ServiceAnswer::Cut(b"HTTP/1.1 200 OK\r\nContent-".to_vec()),
            ServiceAnswer::Cut(cut.into_bytes()),
            ServiceAnswer::Reply(b"HTTP/1.1 2000 OK\r\n\r\n".to_vec()),
            ServiceAnswer::Reply(b"rubbish\r\n\r\n".to_vec()),
            ServiceAnswer::with(503, "", "busy"),
            ServiceAnswer::Silent,
        ] {
            let at = format!("{}, the upstream does {answer:?}", name(case, ask));
            let stage = Stage::answering(case, answer);
            one_reply(&stage.say(&Client::sending(bytes_of(ask))).await, &at);
        }
        let stage = Stage::of(case);
        stage.refuse();
        one_reply(
            &stage.say(&Client::sending(bytes_of(ask))).await,
            &format!("{}, refused", name(case, ask)),
        );
    });
}

/// Checks that trailers are unchanged, and that they are sent if the body is unchanged.
fn assert_trailers(message: &Message, body: &str, at: &str) {
    let trailers = String::from_utf8_lossy(&message.trailers).to_lowercase();
    let passed = message.body == body.as_bytes();
    assert!(trailers == "x-sum: 9\r\n" || (trailers.is_empty() && !passed), "{at}: {message:?}");
}

/// Returns the only reply. It may be incomplete, since an upstream may end in the middle.
fn one_reply(said: &Said, at: &str) {
    let [reply] = said.replies.as_slice() else { panic!("{at}: {said:#?}") };
    let Message { method_or_status, whole, .. } = reply;
    assert!(*whole || method_or_status == "200", "{at}: {said:#?}");
    said.assert_quiet(at);
    assert_eq!((said.records, said.panics), (1, 0), "{at}");
}

fn name(case: &Case, ask: &Ask) -> String {
    format!("{}: {}", case.policy, ask.start)
}
