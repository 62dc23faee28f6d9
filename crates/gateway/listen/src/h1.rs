//! One HTTP/1 connection: reads, answers and writes one request after the other.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::thread::LocalKey;
use std::time::Duration;

use fault::{Fault, Kind};
use http1::Framing;
use kit::clock::{self, Instant};
use kit::scratch::{self, SCRATCH_BYTES, Scratch};
use kit::{SharedAlarm, Wire};
use message::{Body, Headers, Outgoing, Protocol, Reply, Request, Tunnel};
use pipeline::Account;
use policy::{Exchange, Interim};

use crate::calls::CallLifetime;
use crate::client::{Client, ClientBody, ClientHandle, SharedClient};
use crate::connection::Connection;
use crate::exchange_pool::{self, ExchangePool, PooledExchange};
use crate::head::{limits, names_http, refusal, refused_method, request_head};
use crate::reply::{self, ReplyRules};
use crate::sockets::reset_on_close;
use crate::stream_lifetime::StreamLifetime;
use crate::tunnel::{self, TunnelSettings, is_websocket};
use crate::tunnel_parts::TunnelEnd;
use crate::{descriptors, events, h2, lingering_close};

/// The maximum size of an unused request body that is read and discarded, so that the connection can be reused.
const DISCARDED_BYTES_MAX: u64 = 256 * 1024;

/// The grace period of an idle connection when its listener closes or it has given up its place. A request that is already in flight is
/// still served.
const CLOSING: Duration = Duration::from_millis(10);

/// The grace period of an idle connection after another process has replaced this one. A client that sends requests is told to close with
/// its next reply. For others, a longer period makes it less likely that they send a request just as the connection closes.
const CLOSING_REPLACED: Duration = Duration::from_secs(5);

/// One connection. Thousands of connections wait at a time, so it has little more than a waiting connection needs.
pub(crate) struct H1 {
    client: ClientHandle,
    connection: Connection,
    listener: std::sync::Arc<plan::Listener>,
    /// The connection's timer: for the next head, and during an exchange for the waits of the exchange.
    alarm: SharedAlarm,
    /// When the last exchange ended, or `None` before the first one has ended.
    ended: Option<Instant>,
}

/// Why the alarm was set again while the connection waits for the next head. At first it limits the wait for the first byte.
#[derive(Default)]
struct WaitReason {
    /// True if it limits the wait for the rest of a head.
    for_rest: bool,
    /// True if it closes an idle connection that has to end.
    to_close: bool,
}

/// The next input of a connection.
enum Next {
    Request(Box<Arrival>),
    /// The bytes are not a request. Answer and close.
    Refused(Fault),
    /// HTTP/2 with prior knowledge.
    Http2,
    Close,
}

struct Arrival {
    request: Request,
    keep_alive: bool,
}

/// The input of an exchange in the pool.
struct NewExchange {
    h1: Rc<H1>,
    arrival: Box<Arrival>,
}

impl PooledExchange for NewExchange {
    type End = ExchangeStage;

    fn pool() -> &'static LocalKey<ExchangePool<NewExchange>> {
        thread_local!(static FREE: ExchangePool<NewExchange> = const { ExchangePool::new() });
        &FREE
    }

    async fn run(self) -> ExchangeStage {
        self.h1.exchange(self.arrival).await
    }
}

/// The work for the next input.
enum Work<E, R> {
    /// An exchange in a future of the pool.
    Exchange(E),
    Refusal(Pin<Box<R>>),
    /// There is no work to wait for.
    Done(After),
}

/// The stage that an exchange has reached.
enum ExchangeStage {
    /// It has ended.
    Over(After),
    /// Its reply is an event stream, the stream of a gRPC call or a tunnel, which begins now.
    Long(Box<LongExchange>),
}

/// What a long reply needs of its exchange. It is kept separately, so that the other state of the exchange is freed and not kept for hours.
struct LongExchange {
    /// The tunnel, and whether it is a WebSocket.
    tunnel: Option<(Box<Tunnel>, bool)>,
    stay: Option<Rc<StreamLifetime>>,
    replying: ReplyWriter,
    /// Dropped last, since dropping it writes the record.
    account: Account,
}

/// A reply that is being written.
struct ReplyWriter {
    outgoing: Outgoing,
    /// True if the connection can be reused.
    keep_alive: bool,
    ends_by_closing: bool,
}

/// What follows an exchange.
enum After {
    /// The next request, waited for since this time.
    Next(Instant),
    /// Close at once, since nothing is left to read.
    Close,
    /// Close after reading for a while, since the client may still be sending.
    Linger,
    /// Close with a reset, or on TLS without a close notification.
    Cut,
    /// First discard the rest of the request's body.
    Discard,
    /// Continue as HTTP/2.
    Http2,
}

impl H1 {
    /// Returns a connection in an `Rc`, which its exchanges share. A future that held it directly would reserve space for it twice.
    pub(crate) fn new(wire: Wire, connection: Connection) -> Rc<H1> {
        let listener = connection.permit.listener_state.listener();
        let (client, alarm) = (SharedClient::new(wire), SharedAlarm::default());
        Rc::new(H1 { client, connection, listener, alarm, ended: None })
    }

    /// Serves a connection to its end, and returns `None`. If it turns out to be HTTP/2, returns it with the bytes that were read.
    pub(crate) async fn serve(mut self: Rc<H1>) -> Option<(Wire, Vec<u8>, Connection)> {
        loop {
            // Between exchanges there is no other reference.
            let next = Rc::get_mut(&mut self)?.next().await;
            let after = match self.work(next) {
                Work::Exchange(exchange) => {
                    match events::until_cut(&self.connection.permit, exchange).await {
                        Some(ExchangeStage::Over(after)) => after,
                        Some(ExchangeStage::Long(long)) => self.finish_long(long).await,
                        None => After::Cut,
                    }
                }
                Work::Refusal(refusal) => refusal.await,
                Work::Done(after) => after,
            };
            match after {
                After::Next(ended) => Rc::get_mut(&mut self)?.ended = Some(ended),
                After::Discard if Box::pin(self.discard()).await => {
                    Rc::get_mut(&mut self)?.ended = Some(clock::now());
                }
                After::Http2 => return Rc::into_inner(self)?.into_http2(),
                After::Close => {
                    Box::pin(self.shut()).await;
                    return None;
                }
                After::Discard | After::Linger => {
                    Box::pin(self.linger()).await;
                    return None;
                }
                After::Cut => {
                    self.reset();
                    return None;
                }
            }
        }
    }

    /// Waits for the next input.
    async fn next(&mut self) -> Next {
        self.connection.permit.listener_state.refresh(&mut self.listener);
        let timeout = &self.listener.timeout;
        let wait = if self.is_fresh() { timeout.head } else { timeout.idle };
        let now = self.ended.unwrap_or_else(clock::now);
        self.alarm.borrow_mut().set(now, wait);
        self.connection.permit.set_idle(Some(now));
        let mut waiting = WaitReason::default();
        let next = poll_fn(|cx| {
            // The plan may have changed while the connection was idle.
            self.connection.permit.listener_state.refresh(&mut self.listener);
            self.poll_next(cx, &mut waiting)
        });
        let next = next.await;
        self.connection.permit.set_idle(None);
        next
    }

    fn poll_next(&self, cx: &mut Context<'_>, waiting: &mut WaitReason) -> Poll<Next> {
        let mut client = self.client.borrow_mut();
        let mut input = scratch::lend();
        if !client.partial.is_begun() {
            input.append(&mut client.buffer);
        }
        loop {
            if !input.is_empty() {
                if let Some(next) = self.parse(&mut client, &mut input) {
                    client.partial.clear();
                    return Poll::Ready(next);
                }
                client.partial.parsed(input.len());
                client.buffer.extend_from_slice(&input);
                input.clear();
            }
            match client.wire.poll_read_into(cx, &mut input, SCRATCH_BYTES) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Next::Close),
                Poll::Ready(Ok(_)) => self.join(&mut client, &mut input),
                Poll::Pending => {
                    if client.buffer.is_empty() {
                        client.buffer = Vec::new();
                    }
                    return self.poll_head_alarm(cx, !client.buffer.is_empty(), waiting);
                }
            }
        }
    }

    /// Appends new data to the beginning of a head in the buffer, and takes both as input once they may be complete.
    fn join(&self, client: &mut Client, input: &mut Scratch) {
        if !client.partial.is_begun() {
            return;
        }
        client.buffer.append(input);
        let head_bytes_max = self.listener.limits.head_bytes_max;
        if client.partial.is_worth_parsing(&client.buffer, head_bytes_max) {
            input.append(&mut client.buffer);
        }
    }

    /// Sets and polls the alarm. When it rings, the connection ends: with a 408 if a head has begun, otherwise without a reply. The
    /// deadline for a head is fixed: it starts with the head's first byte and does not move.
    fn poll_head_alarm(
        &self,
        cx: &mut Context<'_>,
        begun: bool,
        waiting: &mut WaitReason,
    ) -> Poll<Next> {
        let mut alarm = self.alarm.borrow_mut();
        let timeout = &self.listener.timeout;
        let closing = self.connection.permit.is_closing(cx.waker());
        if begun && !waiting.for_rest {
            waiting.for_rest = true;
            self.connection.permit.set_idle(None);
            alarm.set(clock::now(), timeout.head);
        } else if closing && !begun && !waiting.to_close {
            if self.connection.permit.is_given_up() && descriptors::is_exhausted() {
                // The connection that has taken its place needs the descriptor now.
                return Poll::Ready(Next::Close);
            }
            waiting.to_close = true;
            let is_replaced = self.connection.permit.listener_state.leaves_streams();
            alarm.set(clock::now(), if is_replaced { CLOSING_REPLACED } else { CLOSING });
        }
        ready!(alarm.poll(cx));
        Poll::Ready(if begun {
            Next::Refused(Fault::new(
                Kind::RequestTimeout,
                format!("no complete head within {:?}", timeout.head),
            ))
        } else {
            Next::Close
        })
    }

    /// Parses a request if its head is complete. Data after the head goes to the client's buffer.
    fn parse(&self, client: &mut Client, input: &mut Scratch) -> Option<Next> {
        if self.may_be_http2() && h2::may_be_preface(input) {
            if !h2::is_preface(input) {
                return None;
            }
            client.buffer = input.to_vec();
            return Some(Next::Http2);
        }
        let limits = limits(&self.listener);
        message::with_lines(|lines| match http1::parse_request(input, &limits, lines) {
            Ok(None) => None,
            Ok(Some(parsed)) => {
                let bytes = input.get(..parsed.head_len).unwrap_or(input);
                let host = parsed.host.map_or(&b""[..], |host| host.of(input));
                let head = request_head(&parsed, Headers::copied(bytes, lines), host);
                let (len, keep_alive) = (parsed.head_len, parsed.keep_alive);
                let body = self.body(client, parsed.framing, parsed.expect_continue, input, len);
                let request = Request { head, body };
                Some(Next::Request(Box::new(Arrival { request, keep_alive })))
            }
            // On a port that accepts HTTP/2 with prior knowledge, input that does not name HTTP is a bad preface: such a
            // client would read a 400 as frames (RFC 9113, 3.4).
            Err(http1::Error::RequestLine) if self.may_be_http2() && !names_http(input) => {
                Some(Next::Close)
            }
            Err(error) => Some(Next::Refused(refusal(&error))),
        })
    }

    /// True if there was no request yet.
    fn is_fresh(&self) -> bool {
        self.ended.is_none()
    }

    /// True if the client may begin with HTTP/2 here.
    fn may_be_http2(&self) -> bool {
        self.is_fresh() && self.listener.http2 && self.connection.caller.tls.is_none()
    }

    /// Returns the body that follows a head of `head_len` bytes. `expected` is true if the client waits for a 100 before it sends the body.
    fn body(
        &self,
        client: &mut Client,
        framing: Framing,
        expected: bool,
        input: &mut Scratch,
        head_len: usize,
    ) -> Body {
        let rest = input.get(head_len..).unwrap_or_default();
        self.alarm.borrow_mut().clear();
        client.begin_body(framing, expected && rest.is_empty());
        let whole = match framing {
            // Harmless: a body whose length exceeds the address space cannot have arrived completely.
            Framing::Length(n) => usize::try_from(n).ok().filter(|n| *n <= rest.len()),
            Framing::None => Some(0),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let Some(len) = whole else {
            client.buffer = rest.to_vec();
            client.expect_body(&self.listener);
            return Body::Stream(Box::new(ClientBody(self.client.clone())));
        };
        client.decoder.advance(len);
        client.body_bytes = u64::try_from(len).unwrap_or(u64::MAX);
        client.buffer = rest.get(len..).unwrap_or_default().to_vec();
        Body::whole(input.part(head_len..head_len + len))
    }

    /// Returns the work for the next input. The input stays boxed, since a future reserves space for each value that it destructures.
    fn work(
        self: &Rc<H1>,
        next: Next,
    ) -> Work<impl Future<Output = ExchangeStage> + Unpin + use<>, impl Future<Output = After>>
    {
        match next {
            Next::Request(arrival) => {
                Work::Exchange(exchange_pool::exchange(NewExchange { h1: self.clone(), arrival }))
            }
            Next::Refused(fault) => Work::Refusal(Box::pin(self.refuse(fault))),
            Next::Http2 => Work::Done(After::Http2),
            Next::Close => Work::Done(After::Close),
        }
    }

    /// Runs one exchange from its head to the end of its reply, or to the start of a long one.
    async fn exchange(&self, mut arrival: Box<Arrival>) -> ExchangeStage {
        let current = self.connection.worker.current();
        let mut account = self.account(current.recorders.clone());
        let request = &mut arrival.request;
        account.note_request(&request.head);
        if request.head.protocol != Protocol::Http10 {
            account.ex.interim = Some(Interim::new(self.client.clone(), 0));
        }
        let rules = ReplyRules {
            protocol: request.head.protocol,
            head: request.head.method() == b"HEAD",
            keep_alive: arrival.keep_alive,
        };
        let call = CallLifetime::new(&self.connection);
        call.begin_body(self.client.borrow().progress());
        let served = match refused_method(request.head.method()) {
            Err(fault) => Some(pipeline::refuse(&mut account, fault)),
            Ok(()) => {
                let serving = pin!(pipeline::serve(
                    &current.plan,
                    &self.listener,
                    &mut account,
                    request,
                    &call
                ));
                self.unless_left(serving, rules.protocol != Protocol::Http10).await
            }
        };
        // A long reply needs its route, which the account has, but neither the plan nor the request.
        drop((current, arrival));
        match served {
            Some(mut reply) => {
                let stay = StreamLifetime::of_reply(&mut reply, &account, &self.connection, &call);
                reply.body.yield_to_ready().await;
                let tunnel = reply.tunnel.take().map(|tunnel| (tunnel, is_websocket(&reply)));
                let mut replying = self.replying(&account, rules, reply, tunnel.is_some());
                if stay.is_some() || tunnel.is_some() {
                    let long = LongExchange { account, replying, stay, tunnel };
                    return ExchangeStage::Long(Box::new(long));
                }
                ExchangeStage::Over(self.send(&mut account, &mut replying, None).await)
            }
            None => ExchangeStage::Over(After::Cut),
        }
    }

    /// Runs the rest of an exchange with a long reply, which ends by itself when its listener is cut. A stream runs in a separate task, so
    /// that new data wakes only that task and not the task of the connection.
    async fn finish_long(self: &Rc<H1>, long: Box<LongExchange>) -> After {
        if long.tunnel.is_some() {
            // For a tunnel, only a relay is a separate task.
            return Box::pin(self.finish(long)).await;
        }
        let h1 = self.clone();
        kit::spawn(async move { h1.finish(long).await }).await.unwrap_or(After::Cut)
    }

    /// Writes the long reply or runs the tunnel. The state stays in its box.
    async fn finish(&self, mut long: Box<LongExchange>) -> After {
        let LongExchange { account, replying, stay, tunnel } = &mut *long;
        match tunnel.take() {
            Some((tunnel, is_websocket)) => {
                self.tunnel(account, replying, *tunnel, is_websocket).await
            }
            None => self.send(account, replying, stay.take()).await,
        }
    }

    /// Returns the reply, or `None` if the client leaves first, so that the upstream does not work in vain.
    async fn unless_left(
        &self,
        mut serving: Pin<&mut impl Future<Output = Reply>>,
        takes_interim: bool,
    ) -> Option<Reply> {
        poll_fn(|cx| match serving.as_mut().poll(cx) {
            Poll::Ready(reply) => Poll::Ready(Some(reply)),
            Poll::Pending => self.client.borrow_mut().poll_left(cx, takes_interim).map(|()| None),
        })
        .await
    }

    async fn refuse(&self, fault: Fault) -> After {
        let mut account = self.account(self.connection.worker.current().recorders.clone());
        let reply = pipeline::refuse(&mut account, fault);
        let rules = ReplyRules { protocol: Protocol::Http11, head: false, keep_alive: false };
        let mut replying = self.replying(&account, rules, reply, false);
        self.send(&mut account, &mut replying, None).await;
        After::Linger
    }

    fn account(&self, recorders: Rc<pipeline::Recorders>) -> Account {
        Account::open(Exchange::new(self.connection.caller.clone(), self.alarm.clone()), recorders)
    }

    fn replying(
        &self,
        account: &Account,
        rules: ReplyRules,
        reply: Reply,
        tunnelled: bool,
    ) -> ReplyWriter {
        let ends = account.ex.fault.as_ref().is_some_and(|fault| fault.kind.ends_connection());
        // A streaming reply may still be forwarding the request's body. After any other reply, the rest of the body has to be discarded.
        let stuck = !matches!(reply.body, Body::Stream(_)) && !self.can_discard();
        let keep_alive = rules.keep_alive && !ends && !stuck && !self.connection.permit.is_ending();
        self.client.borrow().begin_reply();
        let (outgoing, keep_alive) =
            reply::outgoing(reply, ReplyRules { keep_alive, ..rules }, tunnelled);
        let ends_by_closing = rules.protocol == Protocol::Http10 && outgoing.has_unknown_length();
        ReplyWriter { outgoing, keep_alive, ends_by_closing }
    }

    async fn send(
        &self,
        account: &mut Account,
        replying: &mut ReplyWriter,
        stay: Option<Rc<StreamLifetime>>,
    ) -> After {
        let timeout = self.listener.timeout.body;
        let outgoing = &mut replying.outgoing;
        let written = reply::write(&self.client, outgoing, account, timeout, stay).await;
        account.request_bytes = self.client.borrow().body_bytes;
        if let Err(fault) = written {
            return broke(account, fault, replying.ends_by_closing);
        }
        let is_done = self.client.borrow().decoder.is_done();
        if replying.keep_alive {
            if is_done { After::Next(account.end()) } else { After::Discard }
        } else if is_done && self.client.borrow().buffer.is_empty() {
            After::Close
        } else {
            After::Linger
        }
    }

    /// True if the rest of the request's body is small enough to discard.
    fn can_discard(&self) -> bool {
        let client = self.client.borrow();
        let little = client.decoder.remaining().is_none_or(|n| n <= DISCARDED_BYTES_MAX);
        client.decoder.is_done() || (little && !client.is_waiting_for_continue())
    }

    /// Reads and discards the rest of the request's body. Returns false if the rest is too large or does not arrive.
    async fn discard(&self) -> bool {
        if !self.can_discard() {
            return false;
        }
        let mut discarded = scratch::lend();
        let mut total = 0;
        while total <= DISCARDED_BYTES_MAX {
            discarded.clear();
            let read = poll_fn(|cx| self.client.borrow_mut().poll_body(cx, &mut discarded)).await;
            total += u64::try_from(discarded.len()).unwrap_or(u64::MAX);
            match read {
                Ok(message::Fill::End) => return true,
                Ok(message::Fill::More | message::Fill::Later) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Answers an upgrade, and forwards data in both directions until the end.
    async fn tunnel(
        &self,
        account: &mut Account,
        replying: &mut ReplyWriter,
        tunnel: Tunnel,
        is_websocket: bool,
    ) -> After {
        let timeout = &self.listener.timeout;
        // Boxed, so that its memory is not kept during the tunnel.
        let outgoing = &mut replying.outgoing;
        let writing = reply::write(&self.client, outgoing, account, timeout.body, None);
        if let Err(fault) = Box::pin(writing).await {
            account.request_bytes = self.client.borrow().body_bytes;
            return broke(account, fault, false);
        }
        let joining = TunnelSettings {
            account,
            connection: &self.connection,
            listener: &self.listener,
            alarm: &self.alarm,
        };
        let client = tunnel::run(self.take_wire(), tunnel, is_websocket, joining).await;
        let Some(client) = client else { return After::Close };
        self.client.borrow_mut().wire = client;
        After::Linger
    }

    async fn shut(&self) {
        lingering_close::shut(&mut self.take_wire().wire).await;
    }

    async fn linger(&self) {
        lingering_close::linger(&mut self.take_wire().wire).await;
    }

    /// Takes the stream and the bytes read from it. The connection cannot be used afterwards.
    fn take_wire(&self) -> TunnelEnd {
        let mut client = self.client.borrow_mut();
        let gone = Wire::Wrapped(Box::new(tokio::io::empty()));
        let wire = std::mem::replace(&mut client.wire, gone);
        TunnelEnd { wire, first_bytes: std::mem::take(&mut client.buffer) }
    }

    fn into_http2(self) -> Option<(Wire, Vec<u8>, Connection)> {
        let TunnelEnd { wire, first_bytes } = self.take_wire();
        Some((wire, first_bytes, self.connection))
    }

    /// Makes the connection end with a reset, and discards data that the client has not taken.
    fn reset(&self) {
        if let Wire::Plain(socket) = &self.client.borrow().wire {
            reset_on_close(socket);
        }
    }
}

/// Records the fault of an incomplete reply, and returns how the connection ends. The reply must not look complete to a client that reads
/// until the connection closes.
fn broke(account: &mut Account, fault: Fault, ends_by_closing: bool) -> After {
    let cut = ends_by_closing || matches!(fault.kind, Kind::ClientGone | Kind::StreamCut);
    account.note_late_fault(fault);
    if cut { After::Cut } else { After::Close }
}
