//! What is settled as soon as a head is there: who asks, under which id, and for which route.
//!
//! From here on the head has the path that was matched, so that no policy decides about another one than the route did.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use fault::{Fault, Kind};
use message::{Headers, RequestHead};
use plan::path::{self, Refused, Resolved};
use plan::{
    EmptySegments, EscapedSlash, Listener, PathParameters, PathRules, PathSent, Piece, Plan,
};
use policy::{Exchange, Parameters, RequestId};

use crate::HeldRoute;

/// A request whose route is known.
pub(crate) struct Arrived {
    pub(crate) route: HeldRoute,
    /// Where in the matched path that begins which `**` stands for.
    rest: usize,
}

pub(crate) fn arrive(
    plan: &Plan,
    listener: &Listener,
    ex: &mut Exchange,
    head: &mut RequestHead,
) -> Result<Arrived, Fault> {
    if let Some(id) = head.headers.get("x-request-id").and_then(RequestId::kept) {
        ex.id = id;
    }
    ex.peer_trusted = listener.trusts(ex.caller.peer.ip());
    if ex.peer_trusted {
        ex.client = client(listener, &head.headers).unwrap_or(ex.client);
    }
    let Resolved { path, moved } =
        path::resolve(head.path(), listener.paths).map_err(|why| refused(why, head))?;
    let found = plan.table.find(&listener.name, head, &path).ok_or_else(|| no_route(head))?;
    if !found.names_method && !http1::is_registered_method(head.method()) {
        return Err(Fault::new(
            Kind::NotImplemented,
            format!("method {}, which no route names", shown(head.method())),
        ));
    }
    ex.parameters = found.parameters;
    let arrived = Arrived { route: found.route.clone(), rest: found.rest };
    if let Cow::Owned(matched) = path
        && matched != head.path()
    {
        // One with other segments than were matched must not go on.
        ex.notes().path_sent = (!moved).then(|| head.path().into());
        head.set_path(&matched);
    }
    Ok(arrived)
}

/// What a request is refused with that no route takes by its method, though some take others (RFC 9110, 15.5.6), and the route whose
/// form that has.
pub(crate) fn misdirected<'p>(
    plan: &'p Plan,
    listener: &Listener,
    head: &RequestHead,
) -> Option<(Fault, &'p HeldRoute)> {
    let path = path::resolve(head.path(), listener.paths).ok()?.path;
    let (allow, route) = plan.table.others(&listener.name, head, &path)?;
    let (method, shown_path) = (head.method(), shown(head.path()));
    let known = http1::is_registered_method(method) || plan.table.names(method);
    let fault = match known {
        true => Fault::new(
            Kind::MethodNotAllowed,
            format!("{} {shown_path}, which takes {allow}", shown(method)),
        ),
        false => Fault::new(
            Kind::NotImplemented,
            format!("method {}, which no route names", shown(method)),
        ),
    };
    Some((fault.with_header("Allow", allow), route))
}

/// What may be asked of a path that takes no `OPTIONS`, as a list of methods.
pub(crate) fn options(plan: &Plan, listener: &Listener, head: &RequestHead) -> Option<String> {
    let path = path::resolve(head.path(), listener.paths).ok()?.path;
    plan.table.options(&listener.name, head, &path)
}

/// The client as the trusted proxies name it: from the right of `X-Forwarded-For`, the first that is no proxy of ours.
fn client(listener: &Listener, headers: &Headers) -> Option<IpAddr> {
    let lines: Vec<&[u8]> = headers.get_all("x-forwarded-for").collect();
    let named = lines.iter().rev().flat_map(|line| line.rsplit(|b| *b == b','));
    let mut client = None;
    for name in named {
        let ip = address(std::str::from_utf8(name).ok()?.trim())?;
        client = Some(ip);
        if !listener.trusts(ip) {
            break;
        }
    }
    client
}

/// An address, which some proxies write with the port behind it.
fn address(name: &str) -> Option<IpAddr> {
    let bracketed = || name.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port = || name.parse::<SocketAddr>().ok().map(|address| address.ip());
    name.parse().ok().or_else(with_port).or_else(bracketed)
}

fn refused(why: Refused, head: &RequestHead) -> Fault {
    let path = shown(head.path());
    match why.key() {
        None => Fault::new(Kind::PathEscapes, format!("path {path} leaves its root or hides dots")),
        Some(key) => {
            let cause = format!("path {path} is refused by the listener's `paths.{key}`");
            Fault::with_detail(Kind::PathAmbiguous, cause, why.why())
        }
    }
}

fn no_route(head: &RequestHead) -> Fault {
    let (method, host, path) = (shown(head.method()), shown(head.host()), shown(head.path()));
    Fault::new(Kind::NoRoute, format!("{method} {path} on host {host}"))
}

/// Bytes of a peer, harmless in a log line and bounded.
fn shown(bytes: &[u8]) -> String {
    bytes.iter().take(256).flat_map(|b| b.escape_ascii()).map(char::from).collect()
}

impl Arrived {
    /// Gives the request the path that the upstream is to see.
    pub(crate) fn set_path(
        &self,
        path: &PathSent,
        ex: &Exchange,
        head: &mut RequestHead,
    ) -> Result<(), Fault> {
        let sent = ex.notes.as_ref().and_then(|notes| notes.path_sent.as_deref());
        let made = match path {
            PathSent::AsItCame => sent.map(<[u8]>::to_vec),
            PathSent::Without(prefix) => {
                let matched = head.path();
                let left = sent.and_then(|sent| sent.strip_prefix(&**prefix));
                let left = left.or_else(|| matched.strip_prefix(&**prefix));
                Some(rooted(left.unwrap_or(sent.unwrap_or(matched))))
            }
            PathSent::Made(pieces) => {
                let rest = head.path().get(self.rest..).unwrap_or_default();
                let Some(made) = made(pieces, &ex.parameters, rest) else {
                    let cause = "rewritten to a path with an escape of parts of two".to_owned();
                    return Err(Fault::new(Kind::PathEscapes, cause));
                };
                let made = rooted(&made);
                // Put together, parts of segments may be dots where none were.
                match path::resolve(&made, AS_IT_IS) {
                    Ok(resolved) if !resolved.moved => {}
                    Ok(_) | Err(_) => {
                        let cause = format!("rewritten to {}, which has dots", shown(&made));
                        return Err(Fault::new(Kind::PathEscapes, cause));
                    }
                }
                Some(made)
            }
        };
        if let Some(made) = made {
            head.set_path(&made);
        }
        Ok(())
    }
}

/// What was let pass by the listener's rules passes again.
const AS_IT_IS: PathRules = PathRules {
    escaped_slash: EscapedSlash::Keep,
    empty_segments: EmptySegments::Keep,
    parameters: PathParameters::Keep,
};

/// None where a piece ends within an escape: what comes behind would make another one of it, which no rule has seen.
fn made(pieces: &[Piece], parameters: &Parameters, rest: &[u8]) -> Option<Vec<u8>> {
    pieces.iter().try_fold(Vec::new(), |mut path, piece| {
        path.extend_from_slice(match piece {
            Piece::Text(text) => text,
            Piece::Parameter(at) => parameters.get(*at).map(|p| &**p).unwrap_or_default(),
            Piece::Rest => rest,
        });
        (!matches!(*path, [.., b'%'] | [.., b'%', _])).then_some(path)
    })
}

fn rooted(path: &[u8]) -> Vec<u8> {
    match path.first() {
        Some(b'/') => path.to_vec(),
        _ => [b"/", path].concat(),
    }
}
