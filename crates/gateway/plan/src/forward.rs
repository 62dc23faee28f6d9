//! Forwards requests to an upstream: changes the request and sends it.

use std::sync::Arc;

use fault::{Fault, Kind};
use kit::clock;
use message::{Body, GatheredBody, Reply, Request, RequestHead};
use policy::{Answer, Exchange, Explanation, OpenSpan, Parameters};
use serde_json::{Value, json};
use upstream::{HostSent, Mirror, Protocol, Upstream, forward};

use crate::path::{self, shown};
use crate::{EmptySegments, EscapedSlash, PathParameters, PathRules};

/// An upstream, and the changes to a request on the way to it.
#[derive(Clone)]
pub struct Forward {
    pub upstream: Arc<Upstream>,
    /// The mirror that gets copies of requests, if there is one.
    pub mirror: Option<Arc<Mirror>>,
    pub path: PathSent,
    pub host: HostSent,
    /// The index of the path parameter by which the upstream balances, if it balances by one.
    pub captured: Option<usize>,
    /// The label of the `call` step, if the destination is a flow with only this step. Content is then sent only with methods that define a
    /// meaning for it.
    pub call: Option<Arc<str>>,
}

/// The path that is sent to the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathSent {
    Unchanged,
    /// The path of the request without this prefix. A slash is added if the rest does not begin with one.
    Without(Box<[u8]>),
    /// A path assembled from pieces. The query is kept.
    Made(Box<[PathPiece]>),
}

/// A piece of a rewritten path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathPiece {
    Text(Box<[u8]>),
    /// The path parameter at this index.
    Parameter(usize),
    /// The part that `**` matched, or what follows a prefix, without its leading slash.
    Rest,
    /// The whole path. If it is only `/`, it adds nothing to the pieces before it.
    Whole,
}

impl Forward {
    pub(crate) async fn answer(
        &self,
        ex: &mut Exchange,
        request: &mut Request,
    ) -> Result<Reply, Fault> {
        // gRPC needs trailers, and browsers do not announce that they accept them.
        let takes_trailers =
            self.passes_te() && (ex.grpc.is_some() || forward::takes_trailers(&request.head));
        // This is read before the request is sent, because the last attempt drops the header lines.
        let protocol = forward::request(ex, &mut request.head)?;
        forward::check_handshake(protocol.as_deref(), !request.body.is_empty())?;
        match ex.notes.as_ref().and_then(|notes| notes.target.as_deref()) {
            Some(target) => request.head.set_target(&[target]),
            None => self.path.set(ex, &mut request.head)?,
        }
        let instead = ex.notes.as_mut().and_then(|notes| notes.instead.take());
        if let Some(instead) = instead.filter(|_| protocol.is_none()) {
            return match instead.answer(ex, request) {
                Answer::Ready(answered) => answered,
                Answer::Wait(answering) => answering.await,
            };
        }
        if self.call.is_some() && message::ignores_content(request.head.method()) {
            request.body = Body::Empty;
            request.head.headers.remove_content_lines();
        }
        request.body.forget_view();
        if let Some(mirror) = &self.mirror
            && protocol.is_none()
        {
            mirror.copy(ex, request);
        }
        if request.body.is_empty() && self.passes_te() && calls(ex, &request.head) {
            // A gRPC request must end with a DATA frame, even without a message: gRPC servers do not recognize an end of stream on the
            // HEADERS frame.
            request.body = Body::Stream(Box::new(GatheredBody::default()));
        }
        if takes_trailers {
            request.head.headers.add_known("TE", b"trailers");
        }
        let captured = self.captured.and_then(|at| ex.parameters.get(at));
        // The value of a regex group that took no part in the match is empty.
        let captured = captured.filter(|value| !value.is_empty());
        let captured = captured.map(|value| upstream::hash_of_capture(value));
        let span = self.step_span(ex);
        let mut call = ex.call();
        call.captured = captured;
        let reply = match span {
            None => self.upstream.send(&mut call, request, &self.host).await?,
            Some(span) => {
                if let Some(trace) = &mut call.trace {
                    trace.parent = Some(span.id());
                }
                let sent = Box::pin(self.upstream.send(&mut call, request, &self.host)).await;
                span.end(sent.as_ref().err().map(|fault| &*fault.cause));
                sent?
            }
        };
        forward::upgraded(protocol.as_deref(), &reply)?;
        Ok(reply)
    }

    /// Begins the span of the flow step that this stands for, if the exchange is sampled.
    fn step_span(&self, ex: &Exchange) -> Option<OpenSpan> {
        let (name, trace) = (self.call.as_ref()?, ex.trace.as_ref()?);
        OpenSpan::begin(trace, name, clock::now(), None).filter(|_| trace.has_steps())
    }

    /// Returns true if `TE` is passed on. HTTP/2 allows this one connection header (RFC 9113, 8.2.2), and gRPC servers require it.
    fn passes_te(&self) -> bool {
        self.upstream.settings().protocol != Protocol::Http1
    }

    pub(crate) fn explained(&self, parameters: &[&str]) -> Explanation {
        let settings = self.upstream.settings();
        let targets = settings.targets.shown();
        let protocol = match settings.protocol {
            Protocol::Http1 => "",
            Protocol::Http2 => " over HTTP/2",
            Protocol::Auto => " over HTTP/2 or HTTP/1.1",
        };
        let what = format!("upstream `{}` ({}){protocol}", settings.name, targets.join(", "));
        let host = match &self.host {
            HostSent::Unchanged => "the client's Host".to_owned(),
            HostSent::Target => "the target's Host".to_owned(),
            HostSent::Named(name) => format!("Host {name}"),
        };
        let mut how = vec![self.path.explained(parameters), host];
        if let Some(mirror) = &self.mirror {
            let name = &mirror.upstream.settings().name;
            how.push(format!("{} % of them copied to upstream `{name}`", mirror.percent()));
        }
        Explanation { what, how }
    }

    pub(crate) fn view(&self) -> Value {
        json!({
            "upstream": self.upstream.settings().name,
            "mirror": self.mirror.as_ref().map(|mirror| json!({
                "upstream": mirror.upstream.settings().name,
                "percent": mirror.percent(),
                "body_bytes_max": mirror.body_bytes_max,
            })),
            "path": self.path.view(),
            "host": match &self.host {
                HostSent::Unchanged => "preserve",
                HostSent::Target => "target",
                HostSent::Named(name) => name,
            },
        })
    }
}

impl PathSent {
    /// Sets the path that is sent to the upstream.
    pub(crate) fn set(&self, ex: &Exchange, head: &mut RequestHead) -> Result<(), Fault> {
        let sent = ex.notes.as_ref().and_then(|notes| notes.path_sent.as_deref());
        let made = match self {
            PathSent::Unchanged => sent.map(<[u8]>::to_vec),
            PathSent::Without(prefix) => {
                let matched = head.path();
                let left = sent.and_then(|sent| sent.strip_prefix(&**prefix));
                let left = left.or_else(|| matched.strip_prefix(&**prefix));
                Some(rooted(left.unwrap_or(sent.unwrap_or(matched))))
            }
            PathSent::Made(pieces) => {
                let rest = head.path().get(ex.rest..).unwrap_or_default();
                let Some(mut made) = made(pieces, &ex.parameters, head.path(), rest) else {
                    let cause =
                        "rewritten to a path in which a piece ends within an escape".to_owned();
                    return Err(Fault::new(Kind::PathEscapes, cause));
                };
                let ends_before_rest = rest.is_empty() && !head.path().ends_with(b"/");
                if ends_before_rest && pieces.ends_with(&[PathPiece::Rest]) && made.ends_with(b"/")
                {
                    // Without a rest, the slash before it is dropped, too.
                    made.pop();
                }
                if pieces.ends_with(&[PathPiece::Whole]) && head.path() == b"/" && made != b"/" {
                    made.pop();
                }
                let made = rooted(&made);
                // Joined parts of segments may become dot segments.
                match path::resolve(&made, AS_IT_IS) {
                    Ok(resolved) if !resolved.moved => {}
                    Ok(_) | Err(_) => {
                        let cause =
                            format!("rewritten to {}, which has dot segments", shown(&made));
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

    pub(crate) fn explained(&self, parameters: &[&str]) -> String {
        match self {
            PathSent::Unchanged => "the path unchanged".to_owned(),
            PathSent::Without(prefix) => {
                // Harmless: the text is only displayed.
                format!("the path without {}", String::from_utf8_lossy(prefix))
            }
            PathSent::Made(pieces) => {
                let name =
                    // Harmless: the text is only displayed.
                    |index| format!("{{{}}}", parameters.get(index).copied().unwrap_or_default());
                format!("the path {}", template(pieces, name))
            }
        }
    }

    pub(crate) fn view(&self) -> Value {
        match self {
            PathSent::Unchanged => json!("preserve"),
            // Harmless: the text is only displayed.
            PathSent::Without(prefix) => json!({ "strip_prefix": String::from_utf8_lossy(prefix) }),
            PathSent::Made(pieces) => {
                json!({ "rewrite": template(pieces, |index| format!("{{{index}}}")) })
            }
        }
    }
}

/// Returns true for a call of gRPC: the client's own, or one that a policy made of its request.
fn calls(ex: &Exchange, head: &RequestHead) -> bool {
    let is_made = || head.headers.get("content-type") == Some(b"application/grpc");
    ex.grpc.is_some() || is_made()
}

/// Rules that accept every path that the listener's own rules have already accepted.
const AS_IT_IS: PathRules = PathRules {
    escaped_slash: EscapedSlash::Keep,
    empty_segments: EmptySegments::Keep,
    parameters: PathParameters::Keep,
};

/// Assembles the path. Returns `None` if a piece before the last one ends within a percent escape: together with the next piece, it could
/// form an escape that no rule has checked.
fn made(
    pieces: &[PathPiece],
    parameters: &Parameters,
    whole: &[u8],
    rest: &[u8],
) -> Option<Vec<u8>> {
    pieces.iter().try_fold(Vec::new(), |mut path, piece| {
        let next = match piece {
            PathPiece::Text(text) => text,
            // Harmless: each piece refers to an existing parameter of the route.
            PathPiece::Parameter(at) => parameters.get(*at).map(|p| &**p).unwrap_or_default(),
            PathPiece::Rest => rest,
            PathPiece::Whole => whole,
        };
        let is_within_escape = matches!(*path, [.., b'%'] | [.., b'%', _]);
        path.extend_from_slice(next);
        (next.is_empty() || !is_within_escape).then_some(path)
    })
}

fn rooted(path: &[u8]) -> Vec<u8> {
    match path.first() {
        Some(b'/') => path.to_vec(),
        _ => [b"/", path].concat(),
    }
}

/// Returns the pieces as written, with `name` for each parameter.
fn template(pieces: &[PathPiece], name: impl Fn(usize) -> String) -> String {
    let piece = |piece: &PathPiece| match piece {
        // Harmless: the text is only displayed.
        PathPiece::Text(text) => String::from_utf8_lossy(text).into_owned(),
        PathPiece::Parameter(index) => name(*index),
        PathPiece::Rest => "{**}".to_owned(),
        PathPiece::Whole => "{path}".to_owned(),
    };
    pieces.iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_pieces_together_could_form_an_escape() {
        let text = |text: &str| PathPiece::Text(text.as_bytes().into());
        let made = |pieces: &[PathPiece]| {
            let whole: &[u8] = b"/100%";
            let path = super::made(pieces, &Parameters::default(), whole, b"2e%2")?;
            Some(String::from_utf8(path).unwrap())
        };
        for (pieces, expected) in [
            (vec![PathPiece::Whole], Some("/100%")),
            (vec![text("/a"), PathPiece::Whole], Some("/a/100%")),
            (vec![text("/a/"), PathPiece::Rest], Some("/a/2e%2")),
            (vec![PathPiece::Whole, text("")], Some("/100%")),
            (vec![PathPiece::Whole, PathPiece::Rest], None),
            (vec![PathPiece::Whole, text(""), PathPiece::Rest], None),
            (vec![text("/"), PathPiece::Rest, text("e")], None),
            (vec![text("/%2"), text("e")], None),
        ] {
            assert_eq!(made(&pieces).as_deref(), expected, "{pieces:?}");
        }
    }
}
