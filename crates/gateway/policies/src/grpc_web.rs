//! `grpc_web`: translates gRPC-Web calls of browsers for gRPC services.
//!
//! A browser does not expose trailers to a page, and some browser APIs cannot handle binary streams. Therefore gRPC-Web writes the trailers
//! after the messages in the body, and encodes the body in Base64 if the page asks for it. The messages themselves are the same, and are
//! not read here.

use fault::{Fault, Kind};
use grpc::Dialect;
use grpc::web::{self, TextDecoder, TextEncoder};
use message::{Fill, Headers, ReplyHead, RequestHead, Trailers};
use policy::{BodyTransform, Exchange, OnStreamed, Policy, Step};

/// Returns the policy.
pub fn policy() -> Policy {
    Policy {
        name: "grpc_web",
        request: Some(Step::Streamed(Box::new(ToGrpc))),
        response: Some(Step::Streamed(Box::new(FromGrpc))),
    }
}

struct ToGrpc;

struct FromGrpc;

/// Returns the dialect of a gRPC-Web client, or `None` for other requests.
fn dialect(ex: &Exchange) -> Option<Dialect> {
    ex.grpc.as_ref().map(|call| call.dialect).filter(|dialect| *dialect != Dialect::Grpc)
}

/// Replaces the content type with the concatenated pieces.
fn retype(headers: &mut Headers, pieces: &[&[u8]]) {
    headers.remove("content-type");
    headers.add_known("Content-Type", &pieces.concat());
}

impl OnStreamed<RequestHead> for ToGrpc {
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut RequestHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        let Some(dialect) = dialect(ex) else { return Ok(None) };
        let written = head.headers.get("content-type").unwrap_or(b"");
        let rest = Dialect::of(written).map_or(&b""[..], |(_, rest)| rest).to_vec();
        retype(&mut head.headers, &[Dialect::Grpc.name().as_bytes(), &rest]);
        match dialect {
            Dialect::WebText => Ok(Some(Box::new(FromText(TextDecoder::default())))),
            Dialect::Grpc | Dialect::Web => Ok(None),
        }
    }
}

/// Decodes a request's body from Base64.
struct FromText(TextDecoder);

impl BodyTransform for FromText {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        self.0.decode(bytes, out).map_err(|_| not_base64())?;
        Ok(Fill::More)
    }

    fn on_end(&mut self, _out: &mut Vec<u8>) -> Result<(), Fault> {
        self.0.end().map_err(|_| not_base64())
    }
}

fn not_base64() -> Fault {
    let detail = "The body is not Base64.";
    Fault::with_detail(Kind::RequestInvalid, "grpc_web: the body is not Base64", detail)
}

impl OnStreamed<ReplyHead> for FromGrpc {
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        let Some(dialect) = dialect(ex) else { return Ok(None) };
        let written = head.headers.get("content-type").unwrap_or(b"");
        // A reply that is not gRPC passes unchanged, and so does a reply of the gateway itself, which already has the client's dialect.
        let Some((Dialect::Grpc, rest)) = Dialect::of(written) else { return Ok(None) };
        // Clients expect a message format, which services may omit.
        let format: &[u8] = if rest.first() == Some(&b'+') { b"" } else { b"+proto" };
        let rest = rest.to_vec();
        retype(&mut head.headers, &[dialect.name().as_bytes(), format, &rest]);
        // Clients accept a trailers-only reply, in which the head contains the status.
        if head.headers.contains("grpc-status") {
            return Ok(None);
        }
        let text = (dialect == Dialect::WebText).then(TextEncoder::default);
        Ok(Some(Box::new(WithTrailers { text, trailers: Trailers::new() })))
    }
}

/// Appends the trailers to a reply's body.
struct WithTrailers {
    /// The Base64 encoder, if the client asked for Base64.
    text: Option<TextEncoder>,
    trailers: Trailers,
}

impl BodyTransform for WithTrailers {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        match &mut self.text {
            Some(encoder) => encoder.encode(bytes, out),
            None => out.extend_from_slice(bytes),
        }
        Ok(Fill::More)
    }

    fn on_trailers(&mut self, trailers: &mut Trailers) {
        self.trailers = std::mem::take(trailers);
    }

    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Some(encoder) = &mut self.text {
            encoder.end(out);
        }
        if self.trailers.is_empty() {
            return Ok(());
        }
        let mut frame = Vec::new();
        web::trailers_frame(&self.trailers, &mut frame);
        self.on_bytes(&frame, out).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::{Protocol, RequestHead};
    use policy::{Caller, GrpcCall, Scheme};

    fn exchange(dialect: Dialect) -> Exchange {
        let peer = "192.0.2.1:1".parse().unwrap();
        let caller = Caller::new(peer, peer, Scheme::Http, 0);
        let mut ex = Exchange::new(caller.into(), Default::default());
        let end = Default::default();
        ex.grpc = Some(Box::new(GrpcCall { dialect, deadline: None, end, open: None }));
        ex
    }

    fn through(step: &mut dyn BodyTransform, pieces: &[&[u8]], trailers: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in pieces {
            step.on_bytes(piece, &mut out).unwrap();
        }
        let mut trailers = trailers.to_vec();
        step.on_trailers(&mut trailers);
        assert!(trailers.is_empty(), "trailers must move to the body");
        step.on_end(&mut out).unwrap();
        out
    }

    #[test]
    fn requests_are_translated_to_grpc() {
        for (asked, sent, is_text) in [
            ("application/grpc-web", "application/grpc", false),
            ("application/grpc-web+proto", "application/grpc+proto", false),
            ("application/grpc-web-text+json; a=b", "application/grpc+json; a=b", true),
            ("application/grpc+proto", "application/grpc+proto", false),
        ] {
            let mut head = RequestHead::new(Protocol::Http11, b"POST", b"/a.B/C");
            head.headers.add("content-type", asked.as_bytes()).unwrap();
            let mut ex = exchange(Dialect::of(asked.as_bytes()).unwrap().0);
            let step = ToGrpc.on_streamed(&mut ex, &mut head).unwrap();
            assert_eq!(head.headers.get("content-type"), Some(sent.as_bytes()), "{asked}");
            assert_eq!(step.is_some(), is_text, "{asked}");
            if let Some(mut step) = step {
                let mut out = Vec::new();
                step.on_bytes(b"AAAAA", &mut out).unwrap();
                step.on_bytes(b"AA=", &mut out).unwrap();
                step.on_end(&mut out).unwrap();
                assert_eq!(out, [0; 5]);
                let mut cut = ToGrpc.on_streamed(&mut ex, &mut head).unwrap().unwrap();
                cut.on_bytes(b"AAAAA", &mut out).unwrap();
                assert_eq!(cut.on_end(&mut out).unwrap_err().kind, Kind::RequestInvalid);
            }
        }
    }

    #[test]
    fn replies_end_in_a_frame_of_trailers() {
        let trailers = b"grpc-status: 0\r\n";
        let frame = b"\x80\0\0\0\x0fgrpc-status:0\r\n";
        for (dialect, came, sent) in [
            (Dialect::Web, "application/grpc", "application/grpc-web+proto"),
            (Dialect::Web, "application/grpc+json", "application/grpc-web+json"),
            (Dialect::WebText, "application/grpc+proto", "application/grpc-web-text+proto"),
        ] {
            let mut head = ReplyHead::new(200);
            head.headers.add("content-type", came.as_bytes()).unwrap();
            let mut ex = exchange(dialect);
            let mut step = FromGrpc.on_streamed(&mut ex, &mut head).unwrap().unwrap();
            assert_eq!(head.headers.get("content-type"), Some(sent.as_bytes()));
            let out = through(&mut *step, &[b"\0\0\0\0\x01", b"x"], trailers);
            let expected = [&b"\0\0\0\0\x01x"[..], frame].concat();
            match dialect {
                Dialect::WebText => {
                    let mut read = Vec::new();
                    TextDecoder::default().decode(&out, &mut read).unwrap();
                    assert_eq!(read, expected);
                }
                Dialect::Grpc | Dialect::Web => assert_eq!(out, expected),
            }
        }
    }

    #[test]
    fn bodies_of_other_replies_and_of_trailers_only_replies_pass_unchanged() {
        for (came, status, sent) in [
            ("text/html", None, "text/html"),
            ("application/grpc-web+proto", Some("14"), "application/grpc-web+proto"),
            ("application/grpc", Some("5"), "application/grpc-web+proto"),
        ] {
            let mut head = ReplyHead::new(200);
            head.headers.add("content-type", came.as_bytes()).unwrap();
            if let Some(status) = status {
                head.headers.add("grpc-status", str::as_bytes(status)).unwrap();
            }
            let mut ex = exchange(Dialect::Web);
            assert!(FromGrpc.on_streamed(&mut ex, &mut head).unwrap().is_none(), "{came}");
            assert_eq!(head.headers.get("content-type"), Some(sent.as_bytes()));
        }
    }
}
