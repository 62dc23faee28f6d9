//! Bodies through steps: limits, buffers and transforms, without sockets.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use message::{Fill, GatheredBody, Protocol, ReplyHead, RequestHead, Source, Trailers};
use plan::Preflights;
use policy::{
    BodyTransform, Caller, Decision, Flow, OnBuffered, OnHead, OnPieces, OnStreamed, Onward,
    Policy, Scheme, Step,
};

use super::*;

/// Runs a future that never waits for anything outside of it.
fn done<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        if let Poll::Ready(done) = future.as_mut().poll(&mut cx) {
            return done;
        }
    }
    panic!("it waits");
}

fn exchange() -> Exchange {
    let peer = "192.0.2.1:1".parse().unwrap();
    Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default())
}

/// A body that arrives in these pieces, with trailers at its end.
struct Pieces {
    left: VecDeque<&'static str>,
    announced: Option<u64>,
    /// What was read of it.
    read: Rc<RefCell<Vec<&'static str>>>,
}

impl Source for Pieces {
    fn poll_fill(&mut self, _: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let piece = self.left.pop_front().unwrap_or_default();
        self.read.borrow_mut().push(piece);
        out.extend_from_slice(piece.as_bytes());
        Poll::Ready(Ok(if self.left.is_empty() { Fill::End } else { Fill::More }))
    }

    fn remaining(&self) -> Option<u64> {
        self.announced
    }

    fn trailers(&mut self) -> Trailers {
        b"t: 1\r\n".to_vec()
    }
}

type Read = Rc<RefCell<Vec<&'static str>>>;

fn pieces(pieces: &[&'static str], announced: Option<u64>) -> (Body, Read) {
    let read = Read::default();
    let left = pieces.iter().copied().collect();
    (Body::Stream(Box::new(Pieces { left, announced, read: read.clone() })), read)
}

/// Reads a body piece by piece: each piece, and the kind of the fault that follows them.
fn read(body: &mut Body) -> (Vec<String>, Result<(), Kind>) {
    let mut all = Vec::new();
    loop {
        let mut bytes = Vec::new();
        let filled = done(std::future::poll_fn(|cx| body.poll_fill(cx, &mut bytes)));
        match filled {
            Err(fault) => {
                assert!(bytes.is_empty(), "bytes with a fault are lost");
                return (all, Err(fault.kind));
            }
            Ok(fill) => {
                all.push(String::from_utf8(bytes).unwrap());
                if fill == Fill::End {
                    return (all, Ok(()));
                }
            }
        }
    }
}

fn route(policies: Vec<Policy>) -> Route {
    Route {
        places: policies.iter().map(|_| Default::default()).collect(),
        policies: policies.into(),
        ..Route::placeholder()
    }
}

fn request(body: Body) -> Request {
    Request { head: RequestHead::new(Protocol::Http11, b"POST", b"/"), body }
}

#[test]
fn a_route_limits_announced_bodies_at_once_and_others_as_they_arrive() {
    let limited = |bytes_max, length_required| Route {
        body_bytes_max: bytes_max,
        length_required,
        ..route(Vec::new())
    };
    let too_large = Err((Kind::BodyTooLarge, 413));
    for (route, announced, sent, at_once, then) in [
        (limited(None, false), None, &["1234", "5"][..], Ok(()), Ok(())),
        (limited(Some(4), false), Some(4), &["1234"], Ok(()), Ok(())),
        (limited(Some(4), false), Some(5), &["12345"], too_large, Ok(())),
        (limited(Some(4), false), None, &["12", "34"], Ok(()), Ok(())),
        (limited(Some(4), false), None, &["12", "345"], Ok(()), Err(Kind::BodyTooLarge)),
        (limited(Some(0), false), None, &["1"], Ok(()), Err(Kind::BodyTooLarge)),
        (limited(Some(4), true), Some(4), &["1234"], Ok(()), Ok(())),
        (limited(Some(4), true), None, &["1"], Err((Kind::RequestInvalid, 411)), Ok(())),
    ] {
        let (body, of) = pieces(sent, announced);
        let mut request = request(body);
        let limit = limited::limit(&route, &mut request);
        let limit = limit.map_err(|fault| (fault.kind, fault.status()));
        assert_eq!(limit, at_once, "{sent:?}");
        if at_once.is_ok() {
            let (arrived, ended) = read(&mut request.body);
            assert_eq!(ended, then, "{sent:?}");
            assert_eq!(arrived, sent[..sent.len() - usize::from(then.is_err())], "{sent:?}");
            assert!(then.is_err() || request.body.trailers() == b"t: 1\r\n");
        } else {
            assert!(of.borrow().is_empty(), "nothing was read");
        }
    }
}

/// A step that takes 4 bytes, replaces the body by `replaced`, and may look at the pieces.
#[derive(Default)]
struct Buffers {
    replaced: Option<&'static str>,
    looks: bool,
    passes: bool,
}

/// Refuses a body with an `x` in it.
struct Looks;

impl<H> OnPieces<H> for Looks {
    fn on_piece(
        &mut self,
        _: &mut Exchange,
        _: &H,
        so_far: &[u8],
        from: usize,
    ) -> Result<(), Fault> {
        if so_far[from..].contains(&b'x') {
            Err(Fault::new(Kind::RequestInvalid, "an x"))
        } else {
            Ok(())
        }
    }

    fn on_end(&mut self, _: &mut Exchange, _: &mut H, _: &mut GatheredBody) -> Flow {
        Ok(Onward::Next)
    }
}

impl<H> OnBuffered<H> for Buffers {
    fn wants(&self, _: &mut Exchange, _: &mut H) -> Result<bool, Fault> {
        Ok(!self.passes)
    }

    fn bytes_max(&self) -> usize {
        4
    }

    fn on_pieces(&self, _: &mut Exchange, _: &H) -> Option<Box<dyn OnPieces<H>>> {
        self.looks.then(|| Box::new(Looks) as _)
    }

    fn on_buffered<'a>(
        &'a self,
        _: &'a mut Exchange,
        _: &'a mut H,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        if let Some(replaced) = self.replaced {
            body.bytes = replaced.into();
        }
        Decision::Ready(Ok(Onward::Next))
    }
}

#[test]
fn a_buffered_body_has_a_bound_and_more_of_it_is_not_read() {
    for (announced, sent, expected, reads) in [
        (None, &["12", "34"][..], Ok("1234"), 2),
        (None, &["12", "345", "6"], Err(Kind::BodyTooLarge), 2),
        (Some(5), &["12345"], Err(Kind::BodyTooLarge), 0),
        (Some(4), &["1234"], Ok("1234"), 1),
        (None, &[""], Ok(""), 1),
    ] {
        for looks in [false, true] {
            let (body, of) = pieces(sent, announced);
            let mut request = request(body);
            let step = Step::Buffered(Box::new(Buffers { looks, ..Buffers::default() }));
            let Request { head, body } = &mut request;
            let flow = done(step::run("test", &step, &mut exchange(), head, body));
            assert_eq!(flow.map(drop).map_err(|fault| fault.kind), expected.map(drop), "{sent:?}");
            assert_eq!(of.borrow().len(), reads, "{sent:?}");
            if let Ok(expected) = expected {
                assert_eq!(read(body).0.concat(), expected);
            }
        }
    }
}

#[test]
fn a_step_that_looks_at_the_pieces_ends_the_body_at_the_first_wrong_one() {
    let (body, of) = pieces(&["1", "x", "3"], None);
    let mut request = request(body);
    let step = Step::Buffered(Box::new(Buffers { looks: true, ..Buffers::default() }));
    let Request { head, body } = &mut request;
    let flow = done(step::run("test", &step, &mut exchange(), head, body));
    assert_eq!(flow.map(drop).map_err(|fault| fault.kind), Err(Kind::RequestInvalid));
    assert_eq!(*of.borrow(), ["1", "x"]);
}

#[test]
fn the_old_length_does_not_stay_beside_a_body_that_may_be_another() {
    for (step, before, body, after) in [
        (Buffers::default(), "2", "hi", None),
        (Buffers { replaced: Some("hey"), ..Buffers::default() }, "2", "hi", None),
        (Buffers { replaced: Some(""), ..Buffers::default() }, "2", "hi", None),
        // The writer adds no length for an empty body.
        (Buffers::default(), "0", "", Some("0")),
        (Buffers { passes: true, ..Buffers::default() }, "2", "hi", Some("2")),
    ] {
        let mut request = request(Body::whole(body.into()));
        request.head.headers.add("content-length", before.as_bytes()).unwrap();
        let step = Step::Buffered(Box::new(step));
        let Request { head, body } = &mut request;
        done(step::run("test", &step, &mut exchange(), head, body)).map(drop).unwrap();
        assert_eq!(head.headers.get("content-length"), after.map(str::as_bytes));
    }
}

#[test]
fn an_event_stream_is_not_buffered() {
    let mut head = ReplyHead::new(200);
    head.headers.add("content-type", b"text/event-stream").unwrap();
    let (mut body, of) = pieces(&["data: 1\n\n"], None);
    let step = Step::Buffered(Box::new(Buffers::default()));
    let flow = done(step::run("test", &step, &mut exchange(), &mut head, &mut body));
    assert_eq!(flow.map(drop).map_err(|fault| fault.kind), Err(Kind::ReplyStreams));
    assert!(of.borrow().is_empty());
}

/// Writes bytes in capitals, ends the body after a `.`, and fails at a `!`, after the bytes before it.
struct Capitals;

impl BodyTransform for Capitals {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        for byte in bytes {
            match byte {
                b'!' => return Err(Fault::new(Kind::UpstreamMalformed, "an exclamation")),
                b'.' => return Ok(Fill::End),
                _ => out.push(byte.to_ascii_uppercase()),
            }
        }
        Ok(Fill::More)
    }

    fn on_trailers(&mut self, trailers: &mut Trailers) {
        trailers.make_ascii_uppercase();
    }

    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        out.extend_from_slice(b"$");
        Ok(())
    }
}

impl<H> OnStreamed<H> for Capitals {
    fn on_streamed(
        &self,
        _: &mut Exchange,
        _: &mut H,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        Ok(Some(Box::new(Capitals)))
    }
}

#[test]
fn a_transform_loses_nothing_that_it_wrote_before_a_fault_or_an_early_end() {
    for (sent, expected, ended, trailers) in [
        (&["ab", "c"][..], "ABC$", Ok(()), "T: 1\r\n"),
        (&[""], "$", Ok(()), "T: 1\r\n"),
        (&["a", "b.c", "d"], "AB", Ok(()), ""),
        (&["a", "b!c", "d"], "AB", Err(Kind::UpstreamMalformed), ""),
        (&["a", "!c", "d"], "A", Err(Kind::UpstreamMalformed), ""),
    ] {
        let (mut body, _read) = pieces(sent, Some(3));
        let mut head = ReplyHead::new(200);
        head.headers.add("content-length", b"3").unwrap();
        assert!(step::stream(&Capitals, &mut exchange(), &mut head, &mut body).unwrap());
        assert!(!head.headers.contains("content-length"), "the new length is not known");
        let (arrived, then) = read(&mut body);
        assert_eq!((arrived.concat().as_str(), then), (expected, ended), "{sent:?}");
        assert_eq!(body.trailers(), trailers.as_bytes(), "{sent:?}");
    }
}

/// The calls of the steps of a route, in order.
type Calls = Arc<Mutex<Vec<String>>>;

/// A step that records its call. With `answers` it then turns the exchange around, by a reply of this status or a fault of this kind.
struct Recorded {
    name: &'static str,
    calls: Calls,
    answers: Option<Result<u16, Kind>>,
}

impl Recorded {
    fn call(&self) -> Flow {
        self.calls.lock().unwrap().push(self.name.to_owned());
        match self.answers {
            None => Ok(Onward::Next),
            Some(Ok(status)) => Ok(Onward::Turn(Reply::new(status, Body::Empty))),
            Some(Err(kind)) => Err(Fault::new(kind, "the step fails")),
        }
    }
}

impl OnHead<RequestHead> for Recorded {
    fn on_head(&self, _: &mut Exchange, _: &mut RequestHead) -> Flow {
        self.call()
    }
}

impl OnHead<ReplyHead> for Recorded {
    fn on_head(&self, _: &mut Exchange, head: &mut ReplyHead) -> Flow {
        self.calls.lock().unwrap().push(head.status.to_string());
        self.call()
    }
}

#[test]
fn policies_run_down_and_up_and_those_below_an_answer_never_see_the_exchange() {
    let run = |request: Option<Result<u16, Kind>>, response: Option<Result<u16, Kind>>, large| {
        let calls = Calls::default();
        let step = |name, answers| Recorded { name, calls: calls.clone(), answers };
        let policy = |down, up, request, response| Policy {
            name: down,
            request: Some(Step::Head(Box::new(step(down, request)))),
            response: Some(Step::Head(Box::new(step(up, response)))),
        };
        let policies = vec![
            policy("1", "-1", None, None),
            policy("2", "-2", request, response),
            policy("3", "-3", None, None),
        ];
        let preflights = Preflights { topmost: 1, ..Preflights::default() };
        let route = Route { body_bytes_max: Some(1), preflights, ..route(policies) };
        let body = if large { Body::whole("hi".into()) } else { Body::Empty };
        let (mut ex, mut request) = (exchange(), self::request(body));
        let (depth, mut reply) = match done(descend(&route, &mut ex, &mut request)) {
            Descent::Through => (route.policies.len(), Reply::new(200, Body::Empty)),
            Descent::Turned { depth, reply } => (depth, reply),
        };
        done(ascend(&route, depth, &mut ex, &mut reply));
        let calls = calls.lock().unwrap().join(" ");
        (calls, reply.head.status)
    };
    let denied = Some(Err(Kind::Forbidden));
    for (request, response, large, calls, status) in [
        (None, None, false, "1 2 3 200 -3 200 -2 200 -1", 200),
        (Some(Ok(204)), None, false, "1 2 204 -1", 204),
        (denied, None, false, "1 2 403 -1", 403),
        (None, Some(Ok(299)), false, "1 2 3 200 -3 200 -2 299 -1", 299),
        (None, denied, false, "1 2 3 200 -3 200 -2 403 -1", 403),
        // The body is too large, which the first policy still sees: it answers preflights.
        (None, None, true, "1 413 -1", 413),
    ] {
        let ran = run(request, response, large);
        assert_eq!(ran, (calls.to_owned(), status));
    }
}

#[test]
fn faults_have_the_headers_of_their_kind_and_their_own() {
    for (kind, name, value) in [
        (Kind::MethodRefused, "allow", Some("GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS")),
        (Kind::UpgradeRequired, "sec-websocket-version", Some("13")),
        (Kind::NoRoute, "allow", None),
    ] {
        let fault = Fault::new(kind, "why").with_header("X-Own", "1");
        let reply = problem::reply(&mut exchange(), Errors::Problem, fault);
        let headers = &reply.head.headers;
        assert_eq!(headers.get(name), value.map(str::as_bytes), "{kind:?}");
        assert_eq!(headers.get("x-own"), Some(&b"1"[..]));
        assert_eq!(headers.get("content-type"), Some(&b"application/problem+json"[..]));
        assert_eq!(reply.head.status, kind.status());
    }
}
