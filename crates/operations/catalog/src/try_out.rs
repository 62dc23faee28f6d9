//! Sends test requests to an API for the catalog's web pages.
//!
//! The catalog, not the browser, sends them to the gateway's own listener. So a page can try an API that does not allow the page's origin.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Catalog;
use crate::definition::METHODS;
use crate::http::{Answer, CatalogRequest, Refusal, ok};
use crate::objects::{Api, text};

/// The longest wait for the connection, for a write, and for each piece of the reply. If a reply has begun and then pauses for longer, the
/// part received so far is shown.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The total time limit, for replies that arrive in many pieces.
const TIME_MAX: Duration = Duration::from_secs(15);

/// Reading ends once a reply has this size.
const REPLY_BYTES_MAX: usize = 256 * 1024;

/// The limit of headers in a request.
const HEADERS_MAX: usize = 50;

/// The limit of the size of a request's head.
const HEAD_BYTES_MAX: usize = 32 * 1024;

const SCOPES: [&str; 5] =
    ["apim:subscribe", "apim:app_manage", "apim:api_view", "apim:api_create", "apim:admin"];

/// Headers that a page cannot set, because this code determines the framing and the connection.
const OWN: [&str; 6] =
    ["host", "connection", "content-length", "transfer-encoding", "upgrade", "te"];

/// `POST /try`: `{apiId, method, path, headers: [[NAME, VALUE]], body}`
pub(crate) async fn answer(catalog: &Catalog, asked: &CatalogRequest) -> Answer {
    catalog.visitor(asked, &SCOPES).await?;
    let wish = asked.json()?;
    let api = catalog.objects.get::<Api>(text(&wish, "apiId"));
    let api = api.ok_or_else(|| Refusal::missing("API"))?.object;
    let settings = catalog.settings()?;
    let (address, tls) = catalog.gateway_address(settings.gateway.as_deref())?;
    let request = written(&wish, &api.context(), address)?;
    // Harmless: the request is text, and the result is only displayed.
    let shown = String::from_utf8_lossy(&request).into_owned();
    let sent = kit::task::run_blocking(move || send(address, tls, &request));
    let reply = sent.await.ok_or_else(|| Refusal::internal("trying a request has failed"))?;
    let reply =
        reply.map_err(|why| Refusal::later(&format!("The gateway does not answer: {why}")))?;
    let mut told = parsed(&reply)?;
    crate::objects::set(&mut told, "request", json!(shown));
    ok(&told)
}

/// Encodes the request, in HTTP/1.0 so that the reply ends with its connection.
fn written(wish: &Value, context: &str, address: SocketAddr) -> Result<Vec<u8>, Refusal> {
    let (method, path) = (text(wish, "method"), text(wish, "path"));
    if !METHODS.contains(&method) {
        return Err(Refusal::bad(format!("the method {method:?} is unknown")));
    }
    let below = path.strip_prefix(context);
    let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    if !is_below || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refusal::bad(format!("the path must begin with {context} and have no spaces")));
    }
    let mut head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n");
    let headers = crate::objects::items(wish.get("headers"));
    if headers.len() > HEADERS_MAX {
        return Err(Refusal::bad(format!("there are more than {HEADERS_MAX} headers")));
    }
    for pair in headers {
        // Harmless: an absent name is refused below.
        let part = |at: usize| pair.get(at).and_then(Value::as_str).unwrap_or_default();
        let (name, value) = (part(0), part(1));
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_name = !name.is_empty() && name.bytes().all(is_token);
        if !is_name || value.chars().any(char::is_control) {
            return Err(Refusal::bad(format!("the header {name:?} cannot be sent")));
        }
        if OWN.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(Refusal::bad(format!("the header {name} cannot be set here")));
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let body = text(wish, "body");
    if !body.is_empty() || ["POST", "PUT", "PATCH"].contains(&method) {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    if head.len() > HEAD_BYTES_MAX {
        return Err(Refusal::bad("the headers are too large"));
    }
    Ok(format!("{head}\r\n{body}").into_bytes())
}

/// Sends a request, and reads as much of the reply as arrives in time.
fn send(address: SocketAddr, tls: Option<tls::Client>, request: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let socket = TcpStream::connect_timeout(&address, WAIT_MAX).map_err(failed)?;
    socket.set_read_timeout(Some(WAIT_MAX)).map_err(failed)?;
    socket.set_write_timeout(Some(WAIT_MAX)).map_err(failed)?;
    match tls {
        None => converse(socket, request),
        Some(client) => {
            let host = address.ip().to_string();
            converse(client.wrap(&host, socket).map_err(|error| error.to_string())?, request)
        }
    }
}

fn converse(mut stream: impl Read + Write, request: &[u8]) -> Result<Vec<u8>, String> {
    stream.write_all(request).map_err(|error| error.to_string())?;
    stream.flush().map_err(|error| error.to_string())?;
    let begin = kit::clock::now();
    let (mut reply, mut piece) = (Vec::new(), [0; 16 * 1024]);
    while reply.len() < REPLY_BYTES_MAX
        && kit::clock::now().saturating_duration_since(begin) < TIME_MAX
    {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => reply.extend_from_slice(piece.get(..read).unwrap_or_default()),
            Err(error) if reply.is_empty() => return Err(error.to_string()),
            // The data received so far is shown.
            Err(_) => break,
        }
    }
    Ok(reply)
}

fn parsed(reply: &[u8]) -> Result<Value, Refusal> {
    let broken = || Refusal::later("The gateway does not answer in HTTP");
    let end = reply.windows(4).position(|window| window == b"\r\n\r\n").ok_or_else(broken)?;
    let (head, body) = reply.split_at_checked(end).ok_or_else(broken)?;
    // Harmless: the head is only displayed.
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    // Harmless: a reply without a status is refused below.
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse::<u16>().ok());
    let headers: Vec<(String, String)> = lines
        // Harmless: a line of a reply has a colon, and these are only shown.
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let body = body.get(4..).unwrap_or_default();
    Ok(json!({
        "status": status.ok_or_else(broken)?,
        "headers": headers,
        // Harmless: the body is only displayed.
        "body": String::from_utf8_lossy(body),
    }))
}

impl Catalog {
    /// The address of the gateway on this machine, and the TLS settings for it.
    fn gateway_address(
        &self,
        listener: Option<&str>,
    ) -> Result<(SocketAddr, Option<tls::Client>), Refusal> {
        let plan = self.control.plan();
        let is_it = |name: &str| listener.is_none_or(|wanted| wanted == name);
        let bound = (self.addresses)();
        let found = bound.into_iter().find(|(name, _)| is_it(name));
        let (name, mut address) =
            found.ok_or_else(|| Refusal::later("The gateway has no listener"))?;
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        let has_tls = plan.listeners.iter().any(|one| one.name == name && one.tls.is_some());
        if !has_tls {
            return Ok((address, None));
        }
        // The certificate is not verified: the gateway connects to itself, by an address that is not in its certificate.
        let spec = tls::ClientSpec { ca: None, pair: None, verify: false, server_name: None };
        let client = tls::Client::new(&spec);
        let client = client.map_err(|error| Refusal::internal(&error.to_string()))?;
        Ok((address, Some(client)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_only_for_its_api_and_is_only_one_request() {
        let address = ([127, 0, 0, 1], 8080).into();
        let wish = |path: &str, name: &str, value: &str| json!({ "method": "GET", "path": path, "headers": [[name, value]], "body": "" });
        let made = written(&wish("/a/1?x=y", "x-a", "b"), "/a/1", address).map_err(|_| ()).unwrap();
        let text = String::from_utf8(made).unwrap();
        assert_eq!(text, "GET /a/1?x=y HTTP/1.0\r\nHost: 127.0.0.1:8080\r\nx-a: b\r\n\r\n");
        for (path, name, value) in [
            ("/b", "x", ""),
            ("/a/12", "x", ""),
            ("/a/1 HTTP/1.1\r\nx: y", "x", ""),
            ("/a/1", "x: y", ""),
            ("/a/1", "", "y"),
            ("/a/1", "x", "a\r\nb: c"),
            ("/a/1", "Host", "other"),
            ("/a/1", "content-length", "7"),
        ] {
            assert!(written(&wish(path, name, value), "/a/1", address).is_err(), "{path} {name}");
        }
    }
}
