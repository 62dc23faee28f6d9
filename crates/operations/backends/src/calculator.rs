//! A calculator that speaks SOAP 1.1 and 1.2: Add, Subtract, Multiply, Divide and Power of two whole numbers.
//!
//! It is the service that load tests of SOAP gateways expect: document/literal, `http://tempuri.org/`, with its description at `?wsdl`. If
//! an operand is repeated, the last one counts. If a result cannot be computed, the answer is a fault of the client's SOAP version, never a
//! wrong number.

use std::io::{self, Write as _};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use hyper::body::Incoming;
use xml::{Document, Kind, NodeId, Options};

use super::body::{Reply, WholeReply, full, gather, whole_refusal, whole_reply};

const BODY_BYTES_MAX: usize = 1 << 20;

const NAMESPACE: &str = "http://tempuri.org/";

/// The description, with the service address used by the load tests.
const WSDL: &str = include_str!("../../../../examples/soap/calculator/calculator.wsdl");

/// A version of SOAP.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Soap {
    V11,
    V12,
}

/// The reason why a calculation failed. It is the text of the fault.
type Why = &'static str;

/// An envelope to send.
struct Answer {
    status: StatusCode,
    version: Soap,
    text: String,
}

/// Answers one request. `region` identifies this service in `X-SOAP-Region`.
pub(super) async fn answer(request: Request<Incoming>, region: &HeaderValue) -> Reply {
    let (head, body) = request.into_parts();
    match gather(body, BODY_BYTES_MAX).await {
        Ok(body) => answer_whole(&Request::from_parts(head, body), region).map(full),
        Err(refusal) => refusal,
    }
}

/// Answers a request that has arrived whole.
pub(super) fn answer_whole(request: &Request<Bytes>, region: &HeaderValue) -> WholeReply {
    let query = request.uri().query();
    if request.method() == Method::GET && query.is_some_and(|q| q.eq_ignore_ascii_case("wsdl")) {
        return whole_reply(StatusCode::OK, Soap::V11.content_type(), WSDL);
    }
    if request.method() != Method::POST {
        return whole_refusal(StatusCode::METHOD_NOT_ALLOWED, "POST an envelope, or GET ?wsdl");
    }
    let Answer { status, version, text } = calculated(request.body());
    let packed = if accepts_gzip(request.headers()) { gzip(&text) } else { None };
    let coding = packed.is_some().then_some(HeaderValue::from_static("gzip"));
    let body = packed.unwrap_or(text.into_bytes());
    let mut reply = whole_reply(status, version.content_type(), body);
    reply.headers_mut().extend(coding.map(|coding| (header::CONTENT_ENCODING, coding)));
    reply.headers_mut().insert(HeaderName::from_static("x-soap-region"), region.clone());
    reply
}

/// Returns the name of this service, by the environment variable `X_SOAP_REGION`, which distinguishes several calculators.
pub(super) fn region() -> io::Result<HeaderValue> {
    let region = std::env::var("X_SOAP_REGION").unwrap_or_else(|_| "soap1".to_owned());
    HeaderValue::from_str(&region).map_err(io::Error::other)
}

fn calculated(body: &[u8]) -> Answer {
    let Ok(document) = Document::parse(body, &Options::default()) else {
        return fault(Soap::V11, "the body is not XML");
    };
    let Some((version, operation)) = operation(&document) else {
        return fault(Soap::V11, "there is no SOAP envelope with an operation");
    };
    let name = document.name(operation).local;
    match result(&document, operation, name) {
        Ok(result) => {
            let content = format!(
                r#"<{name}Response xmlns="{NAMESPACE}"><{name}Result>{result}</{name}Result></{name}Response>"#
            );
            envelope(version, StatusCode::OK, &content)
        }
        Err(why) => fault(version, why),
    }
}

/// Returns the version of the envelope and the first element in its body.
fn operation(document: &Document) -> Option<(Soap, NodeId)> {
    let root = document.root_element()?;
    let namespace = document.name(root).namespace.uri;
    let version = [Soap::V11, Soap::V12].into_iter().find(|v| v.namespace() == namespace)?;
    let elements =
        |of: NodeId| document.children(of).filter(|n| document.kind(*n) == Kind::Element);
    let body = elements(root).find(|node| {
        let name = document.name(*node);
        name.local == "Body" && name.namespace.uri == namespace
    })?;
    Some((version, elements(body).next()?))
}

fn result(document: &Document, operation: NodeId, name: &str) -> Result<i32, Why> {
    let a = operand(document, operation, "intA")?;
    let b = operand(document, operation, "intB")?;
    let result = match name {
        "Add" => a.checked_add(b),
        "Subtract" => a.checked_sub(b),
        "Multiply" => a.checked_mul(b),
        "Divide" if b == 0 => return Err("division by zero"),
        "Divide" => a.checked_div(b),
        // Harmless: a negative exponent is refused like a result that is too large.
        "Power" => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        _ => return Err("there is no such operation"),
    };
    result.ok_or("the result does not fit 32 bits")
}

/// Returns the value of the last child with this name in the service's namespace.
fn operand(document: &Document, operation: NodeId, name: &str) -> Result<i32, Why> {
    let children = document.children(operation).filter(|node| {
        let written = document.name(*node);
        written.local == name && written.namespace.uri == NAMESPACE
    });
    let last = children.last().ok_or("an operand is missing")?;
    document.string_value(last).trim().parse().map_err(|_| "an operand is not a whole number")
}

impl Soap {
    fn namespace(self) -> &'static str {
        match self {
            Soap::V11 => "http://schemas.xmlsoap.org/soap/envelope/",
            Soap::V12 => "http://www.w3.org/2003/05/soap-envelope",
        }
    }

    /// Returns the content type, without a space, because clients of the load tests compare it as text.
    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Soap::V11 => "text/xml;charset=utf-8",
            Soap::V12 => "application/soap+xml;charset=utf-8",
        })
    }
}

fn envelope(version: Soap, status: StatusCode, content: &str) -> Answer {
    let namespace = version.namespace();
    let text = format!(
        r#"<?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:soap="{namespace}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema"><soap:Body>{content}</soap:Body></soap:Envelope>"#
    );
    Answer { status, version, text }
}

fn fault(version: Soap, why: Why) -> Answer {
    let content = match version {
        Soap::V11 => format!(
            "<soap:Fault><faultcode>soap:Client</faultcode><faultstring>{why}</faultstring></soap:Fault>"
        ),
        Soap::V12 => format!(
            r#"<soap:Fault><soap:Code><soap:Value>soap:Sender</soap:Value></soap:Code><soap:Reason><soap:Text xml:lang="en">{why}</soap:Text></soap:Reason></soap:Fault>"#
        ),
    };
    envelope(version, StatusCode::INTERNAL_SERVER_ERROR, &content)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists =
        // Harmless: a header that is not text accepts nothing.
        headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight.trim().trim_start_matches("q=").parse::<f32>().is_ok_and(|q| q == 0.0);
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

fn gzip(text: &str) -> Option<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Writing to memory cannot fail. Harmless: without a compressed reply, the plain one is sent.
    encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(namespace: &str, content: &str) -> String {
        let text =
            format!(r#"<s:Envelope xmlns:s="{namespace}"><s:Body>{content}</s:Body></s:Envelope>"#);
        let answer = calculated(text.as_bytes());
        format!("{} {}", answer.status.as_u16(), answer.text)
    }

    #[test]
    fn it_computes_in_the_version_it_is_asked_in() {
        let add = r#"<Add xmlns="http://tempuri.org/"><intA>5</intA><intB>7</intB></Add>"#;
        for version in [Soap::V11, Soap::V12] {
            let answer = asked(version.namespace(), add);
            assert!(
                answer.starts_with("200 ") && answer.contains("<AddResult>12</AddResult>"),
                "{answer}"
            );
            assert!(answer.contains(version.namespace()));
        }
    }

    #[test]
    fn the_last_operand_counts_and_foreign_ones_do_not() {
        let body = r#"<Add xmlns="http://tempuri.org/"><intA>5</intA><intB>1</intB><intB>13</intB><intB xmlns="">1</intB></Add>"#;
        assert!(asked(Soap::V11.namespace(), body).contains("<AddResult>18</AddResult>"));
    }

    #[test]
    fn what_cannot_be_computed_is_a_fault() {
        for (operation, a, b) in [
            ("Divide", "1", "0"),
            ("Multiply", "2147483647", "2"),
            ("Divide", "-2147483648", "-1"),
            ("Power", "2", "-1"),
            ("Root", "4", "2"),
            ("Add", "x", "1"),
        ] {
            let body = format!(
                r#"<{operation} xmlns="{NAMESPACE}"><intA>{a}</intA><intB>{b}</intB></{operation}>"#
            );
            let answer = asked(Soap::V12.namespace(), &body);
            assert!(answer.starts_with("500 ") && answer.contains("soap:Fault"), "{answer}");
        }
        assert!(calculated(b"not xml").text.contains("the body is not XML"));
    }
}
