//! The rules for a request's head that HTTP/1 and HTTP/2 share, and the faults of heads that break them.

use fault::{Fault, Kind};
use http1::{TargetForm, Version};
use message::{Headers, Protocol, RequestHead};
use plan::Listener;

/// The limits of a head at this listener.
pub(crate) fn limits(listener: &Listener) -> http1::Limits {
    let limits = &listener.limits;
    http1::Limits {
        head_bytes_max: limits.head_bytes_max,
        target_bytes_max: limits.target_bytes_max,
        headers_max: limits.headers_max,
    }
}

/// Refuses methods that a gateway must not serve.
pub(crate) fn refused_method(method: &[u8]) -> Result<(), Fault> {
    if http1::is_refused_method(method) {
        // Harmless: a method is a token.
        Err(Fault::new(Kind::MethodRefused, String::from_utf8_lossy(method)))
    } else {
        Ok(())
    }
}

/// The fault for bytes that are not a valid request.
pub(crate) fn refusal(error: &http1::Error) -> Fault {
    let kind = match error.status() {
        414 => Kind::TargetTooLong,
        417 => Kind::ExpectationFailed,
        431 => Kind::HeadTooLarge,
        501 => Kind::NotImplemented,
        505 => Kind::VersionUnsupported,
        _ => Kind::Malformed,
    };
    let detail = error.to_string();
    Fault::with_detail(kind, detail.as_str(), &detail)
}

/// True if the first line names HTTP, even if it is invalid.
pub(crate) fn names_http(input: &[u8]) -> bool {
    let line = input.split(|b| *b == b'\n').next().unwrap_or_default();
    line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"))
}

/// Converts the head to origin form. The authority of an absolute target becomes the host (RFC 9112, 3.2.2), even if an HTTP/1.0 client
/// sent no `Host`.
pub(crate) fn request_head(
    parsed: &http1::RequestHead,
    headers: Headers,
    host: &[u8],
) -> RequestHead {
    let protocol = match parsed.version {
        Version::Http10 => Protocol::Http10,
        Version::Http11 => Protocol::Http11,
    };
    let target = if parsed.form == TargetForm::Absolute { parsed.path } else { parsed.target };
    let mut head = RequestHead::parsed(headers, protocol, parsed.method, target);
    if parsed.form == TargetForm::Absolute && head.path().is_empty() {
        head.set_path(b"/");
    }
    if parsed.form == TargetForm::Absolute && head.headers.get("host") != Some(host) {
        head.headers.remove("host");
        head.headers.add_known("Host", host);
    }
    head
}

#[cfg(test)]
mod tests {
    use http1::Error;

    use super::*;

    #[test]
    fn each_refusal_has_the_kind_of_its_status() {
        for (error, kind) in [
            (Error::TargetTooLong, Kind::TargetTooLong),
            (Error::HeadTooLarge, Kind::HeadTooLarge),
            (Error::TooManyHeaders, Kind::HeadTooLarge),
            (Error::Expectation, Kind::ExpectationFailed),
            (Error::TransferCoding, Kind::NotImplemented),
            (Error::Version, Kind::VersionUnsupported),
            (Error::LineEnd, Kind::Malformed),
            (Error::HostMismatch, Kind::Malformed),
            (Error::LengthAndCoding, Kind::Malformed),
        ] {
            let fault = refusal(&error);
            assert_eq!((fault.kind, fault.kind.status()), (kind, error.status()), "{error:?}");
        }
    }

    #[test]
    fn input_that_names_http_in_its_first_line_is_a_bad_request_and_not_another_protocol() {
        for (input, expected) in [
            (&b"GET / HTTP/1.1\r\n"[..], true),
            (b"get http/9", true),
            (b"GET /", false),
            (b"GET /\r\nHost: HTTP/1.1", false),
            (b"\x16\x03\x01\x02", false),
            (b"HTTP", false),
            (b"", false),
        ] {
            assert_eq!(names_http(input), expected, "{}", input.escape_ascii());
        }
    }

    #[test]
    fn methods_that_open_tunnels_or_echo_credentials_are_refused() {
        for (method, expected) in [("GET", true), ("PURGE", true), ("TRACE", false)] {
            let refused = refused_method(method.as_bytes()).map_err(|fault| fault.kind);
            assert_eq!(refused, if expected { Ok(()) } else { Err(Kind::MethodRefused) });
        }
    }

    /// The authority of an absolute target wins over `Host`, which a proxy before the gateway may not have replaced.
    #[test]
    fn an_absolute_target_becomes_a_path_and_its_authority_the_host() {
        let limits =
            http1::Limits { head_bytes_max: 1000, target_bytes_max: 1000, headers_max: 10 };
        let parse = |input: &str| {
            message::with_lines(|lines| {
                let parsed = http1::parse_request(input.as_bytes(), &limits, lines);
                let parsed = parsed.unwrap().unwrap();
                let host = parsed.host.map_or(&b""[..], |host| host.of(input.as_bytes()));
                request_head(&parsed, Headers::copied(input.as_bytes(), lines), host)
            })
        };
        for (line, host, target, expected) in [
            ("GET /a?b HTTP/1.1", Some("x"), "/a?b", Some("x")),
            ("GET http://x/a?b HTTP/1.1", Some("x"), "/a?b", Some("x")),
            ("GET http://x HTTP/1.1", Some("x"), "/", Some("x")),
            ("GET http://x?b HTTP/1.1", Some("x"), "/?b", Some("x")),
            ("GET http://x:81/ HTTP/1.0", None, "/", Some("x:81")),
            ("GET / HTTP/1.0", None, "/", None),
            ("OPTIONS * HTTP/1.1", Some("x"), "*", Some("x")),
        ] {
            let host = host.map_or_else(String::new, |host| format!("Host: {host}\r\n"));
            let head = parse(&format!("{line}\r\n{host}\r\n"));
            assert_eq!(head.target(), target.as_bytes(), "{line}");
            let hosts: Vec<&[u8]> = head.headers.get_all("host").collect();
            assert_eq!(hosts, Vec::from_iter(expected.map(str::as_bytes)), "{line}");
            let is_old = head.protocol == Protocol::Http10;
            assert_eq!(is_old, line.ends_with("1.0"), "{line}");
        }
    }
}
