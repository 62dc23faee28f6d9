//! The description (WSDL) of a service, published for its clients. The address of the service in it is the URL of the request, and the
//! documents that it imports have URLs below that.

use fault::{Fault, Kind};
use message::{Body, Reply, Request, RequestHead};
use policy::{Answer, Answerer, Exchange, Explanation};
use serde_json::{Value, json};

/// The documents of a description.
pub struct PublishedDescription {
    /// Descriptions: `?wsdl` returns the first, and `?wsdl=N` the one with index N.
    pub descriptions: Vec<PublishedDocument>,
    /// Schemas: `?xsd=N` returns the Nth, counted from 1.
    pub schemas: Vec<PublishedDocument>,
}

/// A document as a list of texts with URLs between them.
pub type PublishedDocument = Vec<Part>;

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(Box<str>),
    /// The address of the service.
    Address,
    /// The URL of another description, by its index.
    Description(usize),
    /// The URL of a schema, by its index.
    Schema(usize),
}

impl Answerer for PublishedDescription {
    fn answer<'a>(&'a self, ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a> {
        Answer::Ready(self.reply(ex, &request.head))
    }

    fn explained(&self, _parameters: &[&str]) -> Explanation {
        let (descriptions, schemas) = (self.descriptions.len(), self.schemas.len());
        Explanation {
            what: "the description of the service".to_owned(),
            how: vec![format!("{descriptions} descriptions, {schemas} schemas")],
        }
    }

    fn view(&self) -> Value {
        let (descriptions, schemas) = (self.descriptions.len(), self.schemas.len());
        json!({ "description": { "descriptions": descriptions, "schemas": schemas } })
    }
}

impl PublishedDescription {
    fn reply(&self, ex: &Exchange, head: &RequestHead) -> Result<Reply, Fault> {
        // Harmless: an empty query names no document, and the request is refused.
        let document = self.named(head.query().unwrap_or_default()).ok_or_else(|| {
            let detail = "The description has no such document.";
            Fault::with_detail(Kind::PathUnknown, "no such document of a description", detail)
        })?;
        let body = match head.method() {
            b"HEAD" => Body::Empty,
            _ => Body::whole(filled(document, &address(ex, head)).into()),
        };
        let mut reply = Reply::new(200, body);
        reply.head.headers.add_known("Content-Type", b"text/xml; charset=utf-8");
        Ok(reply)
    }

    /// Returns the document that a query asks for.
    fn named(&self, query: &[u8]) -> Option<&PublishedDocument> {
        kit::percent::raw_pairs(query).find_map(|(name, value)| {
            let is = |wanted: &[u8]| name.eq_ignore_ascii_case(wanted);
            // Harmless: a value that is not a number names no document.
            let number = || kit::digits::whole::<usize>(std::str::from_utf8(value).ok()?);
            if is(b"wsdl") {
                if value.is_empty() {
                    self.descriptions.first()
                } else {
                    self.descriptions.get(number()?)
                }
            } else if is(b"xsd") && !value.is_empty() {
                self.schemas.get(number()?.checked_sub(1)?)
            } else {
                None
            }
        })
    }
}

/// Returns the URL of the request without its query, escaped for an XML attribute in single or double quotes.
fn address(ex: &Exchange, head: &RequestHead) -> String {
    let (scheme, host) = ex.public_origin(head);
    // Harmless: host and path are ASCII, since requests with other bytes in them have been refused.
    let (host, path) = (String::from_utf8_lossy(host), String::from_utf8_lossy(head.path()));
    let address = format!("{scheme}://{host}{path}");
    let mut out = String::with_capacity(address.len());
    for c in address.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            other => out.push(other),
        }
    }
    out
}

fn filled(document: &PublishedDocument, address: &str) -> String {
    let mut out = String::new();
    for part in document {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Address => out.push_str(address),
            Part::Description(at) => out.push_str(&format!("{address}?wsdl={at}")),
            Part::Schema(at) => out.push_str(&format!("{address}?xsd={}", at + 1)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_document() {
        let text = |text: &str| vec![Part::Text(text.into())];
        let published = PublishedDescription {
            descriptions: vec![text("main"), text("second")],
            schemas: vec![text("schema")],
        };
        for (query, found) in [
            ("wsdl", Some("main")),
            ("WSDL=", Some("main")),
            ("wsdl=0", Some("main")),
            ("a=b&wsdl=1", Some("second")),
            ("wsdl=2", None),
            ("wsdl=x", None),
            ("xsd=1", Some("schema")),
            ("xsd=0", None),
            ("xsd", None),
            ("xsd=2", None),
            ("", None),
        ] {
            let named = published.named(query.as_bytes());
            assert_eq!(named.map(|document| filled(document, "")).as_deref(), found, "{query}");
        }
        let links = [Part::Address, Part::Description(1), Part::Schema(0)].to_vec();
        assert_eq!(filled(&links, "http://a/b"), "http://a/bhttp://a/b?wsdl=1http://a/b?xsd=1");
    }
}
