//! Request targets and hosts: the four forms of RFC 9112 section 3.2, and the grammar of Host.

use std::net::Ipv6Addr;

use crate::{Error, Span, kinds};

/// The four forms of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`.
    Origin,
    /// `http://host/path?query`.
    Absolute,
    /// `host:port`, for CONNECT.
    Authority,
    /// `*`, for OPTIONS.
    Asterisk,
}

/// A parsed target, as offsets into the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) form: TargetForm,
    /// `host[:port]` in the absolute and the authority form.
    pub(crate) authority: Option<Span>,
    /// Path and query; empty if there is none.
    pub(crate) path: Span,
    /// The default port of the scheme. Empty for forms without a scheme.
    pub(crate) port: &'static str,
}

/// The maximum length of a host name: 253 bytes for a DNS name, and one for the dot of the root.
const NAME_BYTES_MAX: usize = 254;

/// Parses a target. The caller has checked that it has no white space and no control characters.
pub(crate) fn read(method: &[u8], target: &[u8]) -> Result<Target, Error> {
    let nothing = Span::new(target.len(), target.len());
    if method == b"CONNECT" {
        // The port is required: a tunnel has no scheme to take it from.
        let whole = Span::new(0, target.len());
        if !is_host(target) || port_of(target).is_none() {
            return Err(Error::Target);
        }
        return Ok(Target {
            form: TargetForm::Authority,
            authority: Some(whole),
            path: nothing,
            port: "",
        });
    }
    if target.first() == Some(&b'/') {
        check_path(target)?;
        let path = Span::new(0, target.len());
        return Ok(Target { form: TargetForm::Origin, authority: None, path, port: "" });
    }
    if target == b"*" && method == b"OPTIONS" {
        return Ok(Target { form: TargetForm::Asterisk, authority: None, path: nothing, port: "" });
    }
    absolute(target)
}

/// Returns true if this is a path with or without a query, or the `*` of OPTIONS.
pub fn is_target(method: &[u8], target: &[u8]) -> bool {
    read(method, target)
        .is_ok_and(|read| matches!(read.form, TargetForm::Origin | TargetForm::Asterisk))
}

/// Returns true if this is a `host` or `host:port` as in a Host header: a DNS-like name, an IPv4 address or an IPv6 address in brackets.
/// This is narrower than RFC 3986, which allows commas, quotes and escapes that no resolver accepts and that servers interpret differently.
pub fn is_host(bytes: &[u8]) -> bool {
    if bytes.first() == Some(&b'[') {
        return is_bracketed(bytes);
    }
    // Only the last label, that of the root, may be empty.
    let (mut length, mut before) = (0, b'.');
    for &byte in bytes {
        if !is_name_byte(byte) {
            break;
        }
        if byte == b'.' && before == b'.' {
            return false;
        }
        before = byte;
        length += 1;
    }
    let is_name = length > 0 && length <= NAME_BYTES_MAX;
    match bytes.get(length..) {
        Some([]) => is_name,
        Some([b':', port @ ..]) => is_name && is_port(port),
        _ => false,
    }
}

/// Returns true for `[address]` or `[address]:port`.
fn is_bracketed(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|&byte| byte == b']').unwrap_or(0);
    let address = bytes.get(1..end).map(std::str::from_utf8);
    let is_address = address
        .is_some_and(|address| address.is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok()));
    match bytes.get(end..) {
        Some([b']']) => is_address,
        Some([b']', b':', port @ ..]) => is_address && is_port(port),
        _ => false,
    }
}

/// Returns true if two hosts are the same, ignoring case and the scheme's default port.
pub(crate) fn same_host(left: &[u8], right: &[u8], port: &str) -> bool {
    without_port(left, port).eq_ignore_ascii_case(without_port(right, port))
}

fn absolute(target: &[u8]) -> Result<Target, Error> {
    let (start, port) = if starts_with(target, b"http://") {
        (7, "80")
    } else if starts_with(target, b"https://") {
        (8, "443")
    } else {
        return Err(Error::Target);
    };
    let rest = target.get(start..).unwrap_or_default();
    let length = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(length).ok_or(Error::Target)?;
    if !is_host(authority) {
        return Err(Error::Target);
    }
    check_path(path)?;
    Ok(Target {
        form: TargetForm::Absolute,
        authority: Some(Span::new(start, start + length)),
        path: Span::new(start + length, target.len()),
        port,
    })
}

/// Checks the path. Servers interpret some characters in a path differently: some treat a backslash as a slash, for others an escaped NUL
/// ends the path, escaped line ends can split logs and replies, and invalid escapes are handled in many ways.
fn check_path(path: &[u8]) -> Result<(), Error> {
    let mut rest = path;
    while let Some(at) = rest.iter().position(|&byte| !is_path_byte(byte)) {
        let (&byte, after) = rest.get(at..).and_then(<[u8]>::split_first).ok_or(Error::Target)?;
        rest = after;
        match byte {
            b'?' => return check_query(after),
            b'%' => match after {
                [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    if matches!([*high, *low | 0x20], [b'0', b'0' | b'a' | b'd']) {
                        return Err(Error::Target);
                    }
                }
                _ => return Err(Error::Target),
            },
            _ => return Err(Error::Target),
        }
    }
    Ok(())
}

/// Checks the query. It may contain characters that clients send unescaped (`{`, `|`, `"`), but no fragment, and only ASCII.
fn check_query(query: &[u8]) -> Result<(), Error> {
    // There is no early exit, so that this compiles to vector instructions.
    let good = query
        .iter()
        .fold(true, |good, &byte| good & (byte > b' ') & (byte < 0x7f) & (byte != b'#'));
    if good { Ok(()) } else { Err(Error::Target) }
}

/// Returns true for bytes of a path that need no further check.
fn is_path_byte(byte: u8) -> bool {
    kinds::of(byte) & kinds::IN_PATHS != 0
}

/// Returns true for bytes of a DNS-like name, including dots.
fn is_name_byte(byte: u8) -> bool {
    kinds::of(byte) & kinds::IN_HOSTS != 0
}

/// Returns the text after the last colon. Returns `None` if there is no colon, or if the last one is inside the brackets of an IPv6
/// address.
fn port_of(host: &[u8]) -> Option<&[u8]> {
    let at = host.iter().rposition(|&byte| byte == b':')?;
    let port = host.get(at + 1..)?;
    (!port.contains(&b']')).then_some(port)
}

fn is_port(port: &[u8]) -> bool {
    let mut number = 0;
    for digit in port {
        if !digit.is_ascii_digit() || port.len() > 5 {
            return false;
        }
        number = number * 10 + u32::from(digit - b'0');
    }
    !port.is_empty() && number <= 65535
}

fn without_port<'h>(host: &'h [u8], port: &str) -> &'h [u8] {
    host.strip_suffix(port.as_bytes()).and_then(|rest| rest.strip_suffix(b":")).unwrap_or(host)
}

fn starts_with(bytes: &[u8], start: &[u8]) -> bool {
    bytes.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_checked_strictly() {
        for good in [
            "a",
            "localhost:8080",
            "api.example.com",
            "a.b.",
            "my_service:80",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:8080",
            "x:65535",
            "[::ffff:1.2.3.4]:80",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "", ":", ":80", "a:", "a:b", "a:65536", "a:123456", "a:+1", "a,b", "a b", "u@a", "a/b",
            "a?b", "a#b", "a\\b", "[::1", "::1", "[]", "[::1]x", "[a]:80", "a%00", "é", "a:80:80",
            "http://a", "a;b", "\"a\"", "[::1]:", ".", ".a", "a..b", "a..", "..",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
        assert!(!is_host(&[b'a'; 255]));
    }

    #[track_caller]
    fn check(method: &str, target: &str, expected: Option<(TargetForm, &str, &str)>) {
        let found = read(method.as_bytes(), target.as_bytes()).ok();
        let text = |span: Span| std::str::from_utf8(span.of(target.as_bytes())).unwrap();
        let found = found.map(|t| (t.form, t.authority.map_or("", text), text(t.path)));
        assert_eq!(found, expected, "{method} {target}");
    }

    #[test]
    fn targets_have_four_forms() {
        use TargetForm::*;
        check("GET", "/", Some((Origin, "", "/")));
        check("GET", "/a%20b?c={\"d\":1}|\\", Some((Origin, "", "/a%20b?c={\"d\":1}|\\")));
        check("GET", "/a?b%00%0a%zz", Some((Origin, "", "/a?b%00%0a%zz")));
        check("GET", "//a//b", Some((Origin, "", "//a//b")));
        check("GET", "http://a:80/b?c", Some((Absolute, "a:80", "/b?c")));
        check("GET", "HTTPS://a", Some((Absolute, "a", "")));
        check("GET", "http://[::1]:1?x", Some((Absolute, "[::1]:1", "?x")));
        check("OPTIONS", "*", Some((Asterisk, "", "")));
        check("CONNECT", "a:443", Some((Authority, "a:443", "")));
    }

    #[test]
    fn ambiguous_targets_are_refused() {
        for target in [
            "*",
            "a",
            "a:80",
            "/a#b",
            "/a?b#c",
            "/a\\b",
            "/a%00",
            "/a%0A",
            "/a%0d",
            "/a%",
            "/a%2",
            "/a%zz",
            "/é",
            "/a?é",
            "ftp://a/",
            "http://",
            "http:///a",
            "http://u@a/",
            "http:/a/b",
            "http://a:b/",
            "http://a/\\",
            "https:a",
            "",
        ] {
            check("GET", target, None);
        }
        for target in ["/", "a", "http://a/", "*", ":443", "a:443/", "u@a:443", "a:"] {
            check("CONNECT", target, None);
        }
        check("OPTIONS", "**", None);
        check("options", "*", None);
    }

    #[test]
    fn hosts_are_compared_without_case_and_default_port() {
        for (left, right) in [("a", "A"), ("a:80", "a"), ("a", "a:80"), ("a:8080", "a:8080")] {
            assert!(same_host(left.as_bytes(), right.as_bytes(), "80"), "{left} {right}");
        }
        for (left, right) in [("a", "b"), ("a:8080", "a"), ("a:443", "a"), ("a80", "a")] {
            assert!(!same_host(left.as_bytes(), right.as_bytes(), "80"), "{left} {right}");
        }
    }
}
