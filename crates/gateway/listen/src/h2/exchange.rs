//! One stream: passes its request to the pipeline, and sends the reply.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::thread::LocalKey;

use fault::Fault;
use kit::task::Unwritten;
use message::{Reply, Request, RequestHead, Tunnel};
use pipeline::Account;
use plan::Listener;
use policy::{Exchange, Interim};

use super::stream::Stream;
use super::{body, reply, tunnel};
use crate::calls::CallLifetime;
use crate::connection::Connection;
use crate::lingering_close;
use crate::stream_lifetime::StreamLifetime;
use crate::task_pool::{TaskExchange, TaskPool};
use crate::tunnel::{TunnelSettings, is_websocket};
use crate::tunnel_parts::TunnelEnd;

/// The start of a stream's exchange.
pub(super) struct NewExchange {
    pub(super) connection: Rc<Connection>,
    pub(super) listener: Arc<Listener>,
    pub(super) stream: Stream,
    pub(super) head: Result<RequestHead, RefusedHead>,
    pub(super) is_tunnel: bool,
    /// Counts the request as unwritten until its task runs.
    pub(super) unwritten: Unwritten,
}

/// A request whose head breaks the rules, with its content type, which determines the format of the fault.
pub(super) struct RefusedHead {
    pub(super) fault: Fault,
    pub(super) content_type: Option<Vec<u8>>,
}

impl TaskExchange for NewExchange {
    fn pool() -> &'static LocalKey<TaskPool<NewExchange>> {
        thread_local!(static WAITING: TaskPool<NewExchange> = const { TaskPool::new() });
        &WAITING
    }

    fn run(self) -> impl Future<Output = ()> {
        run(self)
    }
}

/// Runs one exchange from its head to the end of its reply.
async fn run(new: NewExchange) {
    let NewExchange { connection, listener, stream, head, is_tunnel, unwritten } = new;
    drop(unwritten);
    let alarm = kit::alarm::take();
    'exchange: {
        let current = connection.worker.current();
        let mut ex = Exchange::new(connection.caller.clone(), alarm.clone());
        ex.interim = Some(Interim::new(stream.shared.clone(), stream.number));
        let mut account = Account::open(ex, current.recorders.clone());
        let is_head = head.as_ref().is_ok_and(|head| head.method() == b"HEAD");
        let call = CallLifetime::new(&connection);
        let reply = match head {
            Ok(head) => {
                account.note_request(&head);
                let begun = if is_tunnel {
                    // The tunnel reads the data of the stream.
                    body::IncomingRequest::default()
                } else {
                    body::of(&stream, &head, &listener)
                };
                call.begin_body(begun.progress);
                // A tunnel counts its bytes itself.
                match begun.counted {
                    Some(counted) => account.count_request_body(counted),
                    None => account.request_bytes = begun.body.remaining().unwrap_or(0),
                }
                let mut request = Request { head, body: begun.body };
                let serving = pin!(pipeline::serve(
                    &current.plan,
                    &listener,
                    &mut account,
                    &mut request,
                    &call
                ));
                unless_gone(&stream, serving).await
            }
            Err(RefusedHead { fault, content_type }) => {
                Some(pipeline::refuse_typed(&mut account, content_type.as_deref(), fault))
            }
        };
        // A long reply needs its route, which the account has, but not the plan.
        drop(current);
        let Some(mut reply) = reply else { break 'exchange };
        if let Some(tunnel) = reply.tunnel.take().filter(|_| is_tunnel) {
            let joining = TunnelSettings {
                account: &mut account,
                connection: &connection,
                listener: &listener,
                alarm: &alarm,
            };
            // Boxed, so that the futures of exchanges without a tunnel are smaller.
            Box::pin(join(stream, reply, *tunnel, joining)).await;
            break 'exchange;
        }
        if is_tunnel && let Some(fault) = tunnel::missing(&reply) {
            reply = pipeline::refuse(&mut account, fault);
        }
        let stay = StreamLifetime::of_reply(&mut reply, &account, &connection, &call);
        let timeout = listener.timeout.body;
        reply::send(&stream, reply, &mut account, is_head, timeout, stay).await;
    }
    kit::alarm::give(alarm);
}

/// Opens the tunnel, and forwards data in both directions until the end.
async fn join(stream: Stream, mut reply: Reply, tunnel: Tunnel, joining: TunnelSettings<'_>) {
    let is_websocket = is_websocket(&reply);
    tunnel::open(&stream, &mut reply);
    let client = TunnelEnd { wire: tunnel::wire(stream), first_bytes: Vec::new() };
    if let Some(mut wire) = crate::tunnel::run(client, tunnel, is_websocket, joining).await {
        lingering_close::linger(&mut wire).await;
    }
}

/// Returns the reply, or `None` if the client resets the stream first, so that the upstream does not work in vain.
async fn unless_gone(
    stream: &Stream,
    mut serving: Pin<&mut impl Future<Output = Reply>>,
) -> Option<Reply> {
    poll_fn(|cx| match serving.as_mut().poll(cx) {
        Poll::Ready(reply) => Poll::Ready(Some(reply)),
        Poll::Pending => stream.poll_gone(cx).map(|()| None),
    })
    .await
}
