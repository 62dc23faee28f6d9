//! Faults as SOAP faults of the client's version, and in the format of Kong's SOAP/XML plugins.
//!
//! Owns the layouts. The client's message format was recorded when the request arrived; a step that read the message may
//! have corrected it.

use fault::{Fault, Kind, Side};
use message::RequestHead;
use plan::Errors;
use policy::{Exchange, MessageFormat};

use json::push_escaped;

/// Records the client's message format, on routes whose faults depend on it.
pub(crate) fn note_message_format(errors: Errors, ex: &mut Exchange, head: &RequestHead) {
    match errors {
        Errors::Soap { .. } | Errors::Kong { .. } => {
            ex.notes().message_format = Some(MessageFormat::of(head.headers.get("content-type")));
        }
        Errors::Flow => ex.notes().message_format = super::flow::message_format(head),
        Errors::Problem | Errors::Wso2 | Errors::Apim => {}
    }
}

/// The texts of a fault.
struct FaultTexts {
    reason: String,
    message: String,
    server: bool,
    backend: Option<u16>,
    /// A WS-Security code.
    code: Option<&'static str>,
}

const WSSE: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd";

/// The fault as a SOAP fault in which all text is escaped, or `None` if the client uses JSON.
pub(super) fn reply(
    ex: &Exchange,
    own: u16,
    fault: &Fault,
    verbose: bool,
) -> Option<(u16, &'static str, String)> {
    let message_format = message_format(ex);
    let mut said = said(own, fault, verbose, fault.kind.title());
    if let Some(plain) = processing(fault).filter(|of| of.verbose).and_then(|of| of.plain.as_ref())
    {
        said.message = plain.to_string();
    }
    for text in [&mut said.reason, &mut said.message] {
        *text = escaped(text);
    }
    match message_format {
        MessageFormat::Soap11 | MessageFormat::Soap12 => {
            Some(envelope(message_format, status(own, fault), &said))
        }
        MessageFormat::Json => None,
    }
}

/// The fault in the format of Kong's plugins.
pub(super) fn kong(
    ex: &Exchange,
    own: u16,
    fault: &Fault,
    verbose: bool,
) -> (u16, &'static str, String) {
    let processing = processing(fault);
    let message_format = message_format(ex);
    let of_request = |p: &fault::ProcessingFault| !p.server && p.backend_status.is_none();
    let status = match (message_format, processing) {
        (MessageFormat::Soap11 | MessageFormat::Soap12, _) => status(own, fault),
        (MessageFormat::Json, Some(p)) if of_request(p) && fault.side() == Side::Client => 400,
        (MessageFormat::Json, Some(_)) => 500,
        (MessageFormat::Json, None) => own,
    };
    let mut said = said(status, fault, verbose, standard(own));
    match message_format {
        MessageFormat::Soap11 | MessageFormat::Soap12 => {
            for text in [&mut said.reason, &mut said.message] {
                *text = replaced(text);
            }
            envelope(message_format, status, &said)
        }
        MessageFormat::Json => {
            let verbose = processing.map_or(verbose, |p| p.verbose);
            (status, "application/json", object(&said, verbose))
        }
    }
}

fn message_format(ex: &Exchange) -> MessageFormat {
    ex.notes.as_ref().and_then(|notes| notes.message_format).unwrap_or(MessageFormat::Soap11)
}

/// True if a SOAP fault made from this fault has the server's code, not the client's.
pub(crate) fn blames_server(fault: &Fault) -> bool {
    processing(fault).map_or(fault.kind.status() >= 500, |of| of.server)
}

fn processing(fault: &Fault) -> Option<&fault::ProcessingFault> {
    fault.more.as_ref().and_then(|more| more.processing.as_ref())
}

/// The status of the fault. A message that a policy over XML refused gets 500, even if the client is to blame, as SOAP 1.1 requires. A
/// message that a flow refused gets 500, too, unless the flow chose a status. The gateway's own errors keep their status.
fn status(own: u16, fault: &Fault) -> u16 {
    let chosen = fault.more.as_ref().is_some_and(|more| more.status.is_some());
    let by_flow = matches!(fault.kind, Kind::FlowRefused | Kind::Missing) && !chosen;
    if processing(fault).is_some() || by_flow { 500 } else { own }
}

/// The message for clients that may not see details.
const HIDDEN_DETAILS: &str = "SOAP/XML process failure";

fn said(status: u16, fault: &Fault, verbose: bool, standard: &str) -> FaultTexts {
    let (kind, server) = (fault.kind, blames_server(fault));
    match processing(fault) {
        Some(of) => FaultTexts {
            reason: of.step.to_owned(),
            message: told(of.verbose, || (*of.text).to_owned()),
            server,
            backend: of.backend_status.filter(|_| of.verbose),
            code: None,
        },
        None => {
            let unasked = matches!(kind, Kind::NoTarget | Kind::Unresolved | Kind::TargetSuspended);
            let of_upstream = kind.side() == Side::Upstream && !unasked;
            let (reason, message) = written(fault);
            FaultTexts {
                reason: reason.unwrap_or(standard).to_owned(),
                message: match message {
                    Some(message) => message.to_owned(),
                    None => told(verbose, || format!("HTTP Error code is {status}")),
                },
                server,
                backend: (of_upstream && verbose).then_some(status),
                code: fault.more.as_ref().and_then(|more| more.soap_code),
            }
        }
    }
}

/// The reason and the detail that the operator wrote in a step `fault` of a flow, or in the configured text of a limit.
fn written(fault: &Fault) -> (Option<&str>, Option<&str>) {
    if !matches!(fault.kind, Kind::FlowRefused | Kind::FlowFault | Kind::RateLimited) {
        return (None, None);
    }
    let detail = fault.more.as_ref().and_then(|more| more.errors.first());
    (fault.detail.as_deref(), detail.map(|text| &**text))
}

fn told(verbose: bool, text: impl FnOnce() -> String) -> String {
    if verbose { text() } else { HIDDEN_DETAILS.to_owned() }
}

fn envelope(
    message_format: MessageFormat,
    status: u16,
    said: &FaultTexts,
) -> (u16, &'static str, String) {
    match message_format {
        MessageFormat::Soap12 => (status, "application/soap+xml; charset=utf-8", envelope_12(said)),
        MessageFormat::Soap11 | MessageFormat::Json => {
            (status, "text/xml; charset=utf-8", envelope_11(said))
        }
    }
}

fn envelope_11(said: &FaultTexts) -> String {
    let FaultTexts { reason, message, server, backend, code } = said;
    let code = match code {
        Some(code) => format!("<faultcode xmlns:wsse=\"{WSSE}\">wsse:{code}</faultcode>"),
        None if *server => "<faultcode>soap:Server</faultcode>".to_owned(),
        None => "<faultcode>soap:Client</faultcode>".to_owned(),
    };
    let backend = backend.map_or_else(String::new, |status| {
        format!("\n        <backendHttpCode>{status}</backendHttpCode>")
    });
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">
  <soap:Body>
    <soap:Fault>
      {code}
      <faultstring>{reason}</faultstring>
      <detail>
        <errorMessage>{message}</errorMessage>{backend}
      </detail>
    </soap:Fault>
  </soap:Body>
</soap:Envelope>"#
    )
}

fn envelope_12(said: &FaultTexts) -> String {
    let FaultTexts { reason, message, server, backend, code } = said;
    let subcode = code.map_or_else(String::new, |code| {
        format!(
            "\n        <env:Subcode>\n          <env:Value xmlns:wsse=\"{WSSE}\">wsse:{code}</env:Value>\n        </env:Subcode>"
        )
    });
    let code = if *server { "Receiver" } else { "Sender" };
    let backend = backend.map_or_else(String::new, |status| {
        format!("\n          <f:backendHttpCode>{status}</f:backendHttpCode>")
    });
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<env:Envelope xmlns:env="http://www.w3.org/2003/05/soap-envelope" xmlns:f="http://www.example.org/faults" xmlns:xml="http://www.w3.org/XML/1998/namespace">
  <env:Body>
    <env:Fault>
      <env:Code>
        <env:Value>env:{code}</env:Value>{subcode}
      </env:Code>
      <env:Reason>
        <env:Text xml:lang="en">{reason}</env:Text>
      </env:Reason>
      <env:Detail>
        <f:errorDetails>
          <f:errorMessage>{message}</f:errorMessage>{backend}
        </f:errorDetails>
      </env:Detail>
    </env:Fault>
  </env:Body>
</env:Envelope>"#
    )
}

/// The JSON body: `message`, and the other members if the client may see them.
fn object(said: &FaultTexts, verbose: bool) -> String {
    let mut text = "{\n    \"message\": \"".to_owned();
    push_escaped(&mut text, &said.reason);
    text.push('"');
    if verbose {
        text.push_str(",\n    \"message_verbose\": \"");
        push_escaped(&mut text, &said.message);
        text.push('"');
        if let Some(status) = said.backend {
            text.push_str(&format!(",\n    \"backend_http_code\": {status}"));
        }
    }
    text.push_str("\n}");
    text
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    xml::escape_text(&text.replace(is_forbidden_in_xml, "\u{fffd}"), &mut out);
    out
}

/// Characters that cannot be written in XML 1.0.
fn is_forbidden_in_xml(c: char) -> bool {
    c < ' ' && !matches!(c, '\t' | '\n' | '\r') || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Kong replaces markup characters with words, except the ampersand. An unescaped ampersand would make the fault unreadable, so
/// it is escaped here.
fn replaced(text: &str) -> String {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push('\''),
            '<' => out.push_str("Less Than"),
            '>' => out.push_str("Greater Than"),
            '&' => out.push_str("&amp;"),
            c if is_forbidden_in_xml(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Kong's text for a status.
fn standard(status: u16) -> &'static str {
    match status {
        400 => "Bad request",
        401 => "Unauthorized",
        403 => "You cannot consume this service",
        404 => "Not found",
        405 => "Method not allowed",
        408 => "Request timeout",
        413 => "Payload too large",
        414 => "URI too long",
        415 => "Unsupported media type",
        417 => "Expectation failed",
        429 => "API rate limit exceeded",
        431 => "Request header or cookie too large",
        500 => "An unexpected error occurred",
        502 => "An invalid response was received from the upstream server",
        503 => "The upstream server is currently unavailable",
        504 => "The upstream server is timing out",
        _ => http1::standard_reason(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_characters_are_replaced_by_words() {
        assert_eq!(replaced("a \"<b>\" & c\n"), "a 'Less ThanbGreater Than' &amp; c");
    }

    #[test]
    fn the_status_of_a_gateway_error_is_shown_only_if_verbose() {
        let fault = Fault::new(Kind::ConnectFailure, "10.0.0.1:80 refused");
        let verbose = said(502, &fault, true, "x");
        assert_eq!(
            (verbose.message.as_str(), verbose.backend),
            ("HTTP Error code is 502", Some(502))
        );
        let quiet = said(502, &fault, false, "x");
        assert_eq!((quiet.message.as_str(), quiet.backend), (HIDDEN_DETAILS, None));
    }
}
