//! The number of parses of a message: one for all policies that read the same bytes, none if none needs a tape or a tree.

use crate::harness::{Gateway, Origin, until};
use crate::soap_rest::TYPES;
use crate::telemetry::metric;

/// Nothing is asked of a body but that it is JSON.
const DOCUMENT: &str = r#"
openapi: 3.0.3
info: { title: any, version: "1" }
paths:
  /api/Order:
    post:
      requestBody: { content: { application/json: {} } }
      responses:
        "200": { description: any, content: { application/json: { schema: { type: object } } } }
"#;

const TREE: &str = r#"
<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform">
  <x:template match="/"><n><x:value-of select="count(//a[. = preceding::a])"/></n></x:template>
</x:stylesheet>
"#;

const STREAM: &str = r#"
<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform">
  <x:template match="@*|node()"><x:copy><x:apply-templates select="@*|node()"/></x:copy></x:template>
</x:stylesheet>
"#;

const READS: &str = "{ openapi: { document: any.yaml, paths: false } }";
const READS_REPLIES: &str =
    "{ openapi: { document: any.yaml, request: false, response: true, paths: false } }";
const EDITS: &str = "{ transform: { request: { json: { set: { /seen: true } } } } }";
const EDITS_NOTHING: &str = "{ transform: { request: { json: { remove: [/none] } } } }";
const EDITS_NO_REPLY: &str = "{ transform: { response: { json: { remove: [/none] } } } }";
const FINDS: &str =
    "{ xpath_route: { cases: [{ xpath: \"//a\", equals: none, upstream: origin }] } }";
const FINDS_ON_THE_WAY: &str =
    "{ xpath_route: { cases: [{ xpath: \"/r/a\", equals: none, upstream: origin }] } }";
const TRANSFORMS: &str = "{ xslt: { on: request, stylesheet: tree.xsl } }";
const STREAMS: &str = "{ xslt: { on: request, stylesheet: stream.xsl } }";
const TRANSLATES: &str = "{ soap_rest: { wsdl: service.wsdl } }";

/// A gateway with one route, and additional configuration.
fn serving(origin: &Origin, route: &str, more: &str) -> Gateway {
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/api/**" }}, {route} }} }}
{more}
"#,
        origin.url()
    );
    let files = [
        ("any.yaml", DOCUMENT),
        ("tree.xsl", TREE),
        ("stream.xsl", STREAM),
        ("service.wsdl", TYPES),
    ];
    Gateway::start_beside(yaml, &files)
}

fn with_policies(origin: &Origin, policies: &[&str]) -> Gateway {
    serving(origin, &format!("upstream: origin, policies: [{}]", policies.join(", ")), "")
}

fn with_flow(origin: &Origin, steps: &str) -> Gateway {
    serving(origin, "flow: main", &format!("flows: {{ main: [{steps}] }}"))
}

/// A request with a body in XML.
fn xml_request(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /api/Order HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// The number of messages parsed as JSON and as XML, after this many requests.
fn parses(gateway: &Gateway, requests: f64) -> (f64, f64) {
    until("the requests are recorded", || {
        metric(gateway, r#"tidegate_worker_requests_total{worker="0"}"#) == Some(requests)
    });
    let of = |format| {
        metric(gateway, &format!("tidegate_message_parses_total{{format=\"{format}\"}}")).unwrap()
    };
    (of("json"), of("xml"))
}

#[test]
fn policies_that_read_the_same_bytes_share_what_was_read() {
    let json = ("application/json", r#"{"number":1}"#);
    let xml = ("text/xml", "<r><a>1</a><a>1</a></r>");
    for (policies, (content_type, body), expected) in [
        (&[][..], json, (0.0, 0.0)),
        (&[][..], xml, (0.0, 0.0)),
        (&["{ headers: { request: { set: { X-A: a } } } }"], json, (0.0, 0.0)),
        (&[READS], json, (1.0, 0.0)),
        (&[READS, READS], json, (1.0, 0.0)),
        (&[READS, EDITS], json, (1.0, 0.0)),
        (&[READS, "{ headers: { request: { set: { X-A: a } } } }", EDITS], json, (1.0, 0.0)),
        (&[READS, EDITS_NOTHING, READS], json, (1.0, 0.0)),
        // The bytes are others.
        (&[READS, EDITS, READS], json, (2.0, 0.0)),
        (&[EDITS, READS], json, (2.0, 0.0)),
        (&[READS, TRANSLATES], json, (1.0, 0.0)),
        (&[EDITS_NOTHING, READS, TRANSLATES], json, (1.0, 0.0)),
        (&[READS_REPLIES, EDITS_NO_REPLY], json, (1.0, 0.0)),
        // A body that is not JSON for one policy is not for the other either.
        (&[READS, EDITS], xml, (0.0, 0.0)),
        (&[FINDS], xml, (0.0, 1.0)),
        (&[FINDS, FINDS], xml, (0.0, 1.0)),
        (&[FINDS, TRANSFORMS], xml, (0.0, 1.0)),
        (&[FINDS, TRANSFORMS, FINDS], xml, (0.0, 2.0)),
        (&[TRANSFORMS], xml, (0.0, 1.0)),
        (&[STREAMS], xml, (0.0, 0.0)),
        (&[FINDS, STREAMS], xml, (0.0, 1.0)),
        (&[FINDS_ON_THE_WAY, STREAMS], xml, (0.0, 0.0)),
    ] {
        let origin = Origin::start(|peer| {
            while let Some(request) = peer.request() {
                let content_type = request.get("content-type").unwrap_or_default().to_owned();
                let body = request.text();
                let length = body.len();
                peer.try_send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
                ));
            }
        });
        let gateway = with_policies(&origin, policies);
        let mut wire = gateway.wire();
        let length = body.len();
        for count in [1.0, 2.0] {
            let status = wire
                .ask(format!(
                    "POST /api/Order HTTP/1.1\r\nHost: a.test\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
                ))
                .status();
            let is_other = policies.contains(&READS) && content_type == "text/xml";
            assert_eq!(status, if is_other { 415 } else { 200 }, "{policies:?}");
            let (json, xml) = parses(&gateway, count);
            assert_eq!((json / count, xml / count), expected, "{policies:?} {body}");
        }
    }
}

/// The text for a later policy has to match the bytes, in the encoding that the head specifies.
#[test]
fn a_tree_of_another_encoding_is_not_shared() {
    let origin = Origin::echo();
    let gateway = with_policies(&origin, &[FINDS, TRANSFORMS]);
    let body = b"<r><a>\xe9</a></r>";
    let mut request = format!(
        "POST /api/Order HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/xml; charset=iso-8859-1\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    assert_eq!(gateway.wire().ask(request).status(), 200);
    assert_eq!(parses(&gateway, 1.0), (0.0, 2.0));
}

/// Issue 21: a step `xslt` parsed each message into a tree, also where its stylesheet needs none.
#[test]
fn a_stylesheet_of_a_flow_has_a_tree_only_where_it_needs_one() {
    let (streams, transforms) =
        ("{ xslt: { stylesheet: stream.xsl } }", "{ xslt: { stylesheet: tree.xsl } }");
    let (calls, looks) = ("{ call: origin }", "{ set: { a: //a } }");
    let body = "<r><a>1</a></r>";
    for (steps, expected) in [
        (&[streams, calls, streams][..], 0.0),
        (&[transforms, calls], 1.0),
        (&[transforms, calls, transforms], 2.0),
        // A message that another step has parsed is not parsed again.
        (&[looks, transforms, calls], 1.0),
        (&[looks, streams, calls], 1.0),
        (&[streams, looks, calls, streams], 1.0),
    ] {
        let origin = Origin::echo();
        let gateway = with_flow(&origin, &steps.join(", "));
        let reply = gateway.wire().ask(xml_request(body));
        assert_eq!(reply.status(), 200, "{steps:?}");
        assert_eq!(parses(&gateway, 1.0), (0.0, expected), "{steps:?}");
    }
}

/// A gather parses each result once, and neither the message for its branches nor its own result.
#[test]
fn a_gather_reads_each_result_once() {
    let soap = |content: &str| {
        format!(
            r#"<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>{content}</s:Body></s:Envelope>"#
        )
    };
    let body = soap("<r><a>1</a><a>2</a><a>3</a></r>");
    let scatter = |branches: usize, gather: &str| {
        let branches = vec!["{ call: origin }"; branches].join(", ");
        format!("{{ scatter: {{ branches: [{branches}], gather: {{ {gather} }} }} }}")
    };
    let one = "<r><a>1</a><a>2</a><a>3</a></r>";
    let all = "into: '<all/>'";
    for (steps, parts, expected) in [
        (scatter(2, &format!("take: '$body/*[1]', {all}")), one.repeat(2), 2.0),
        (scatter(4, &format!("take: '$body/*[1]', {all}")), one.repeat(4), 4.0),
        (scatter(2, &format!("take: '$body/r/a[2]', {all}")), "<a>2</a><a>2</a>".into(), 2.0),
        // One that needs a whole tree, and one that takes all.
        (scatter(2, &format!("take: '$body//a[. = 3]', {all}")), "<a>3</a><a>3</a>".into(), 2.0),
        (scatter(2, all), one.repeat(2), 2.0),
        // Split into parts, each is a message whose result is read, and so is the whole.
        (
            format!(
                "{{ split: {{ over: '$body/r/a', steps: [{{ call: origin }}], gather: {{ take: '$body/a', {all} }} }} }}"
            ),
            "<a>1</a><a>2</a><a>3</a>".into(),
            4.0,
        ),
    ] {
        let origin = Origin::echo();
        let gateway = with_flow(&origin, &format!("{steps}, {{ respond: {{}} }}"));
        let reply = gateway.wire().ask(xml_request(&body));
        let made = soap(&format!("<all>{parts}</all>"));
        assert_eq!((reply.status(), reply.text()), (200, made), "{steps}");
        assert_eq!(parses(&gateway, 1.0), (0.0, expected), "{steps}");
    }
}

/// A policy with a smaller depth limit than the one before it still applies the limit.
#[test]
fn what_was_read_deeper_is_read_again() {
    let origin = Origin::echo();
    let gateway = with_policies(&origin, &[READS, TRANSLATES]);
    let (open, close) = (r#"{"name":"a","item":["#.repeat(55), "]}".repeat(55));
    let body = format!(r#"{{"number":1,"item":[{open}{close}]}}"#);
    let reply = gateway.wire().ask(format!(
        "POST /api/Order HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(reply.status(), 400);
    assert!(reply.text().contains("fewer objects and arrays"), "{}", reply.text());
    assert_eq!(parses(&gateway, 1.0), (2.0, 0.0));
}
