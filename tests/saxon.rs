//! `xslt` by Saxon: XSLT 3.0 on a real Java machine, which `scripts/setup.sh tests` installs and `scripts/saxon.sh` equips.

mod contained;
mod locked;
mod on_worker;
mod scenarios;
mod settings;
mod written;

use crate::harness::{Gateway, Message, Origin};

const SOAP_11: &str = "http://schemas.xmlsoap.org/soap/envelope/";

/// A stylesheet of XSLT 3.0 with this content. `f` and `xs` are the usual prefixes.
fn sheet(content: &str) -> String {
    format!(
        "<xsl:stylesheet version=\"3.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\" \
         xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" xmlns:f=\"http://www.w3.org/2005/xpath-functions\" \
         exclude-result-prefixes=\"#all\">\n{content}\n</xsl:stylesheet>"
    )
}

/// One that answers with the value of an expression.
fn value(expression: &str) -> String {
    sheet(&format!(
        "<xsl:output method=\"text\"/><xsl:template match=\"/\"><xsl:value-of select=\"{expression}\"/></xsl:template>"
    ))
}

/// A gateway with a route for each stylesheet, whose path is its name, that transforms requests. `more` are additional
/// keys.
#[track_caller]
fn transforming(origin: &Origin, more: &str, sheets: &[(&str, &str)]) -> Gateway {
    let route = |(name, _): &(&str, &str)| {
        format!(
            "  {name}: {{ match: {{ path: /{name} }}, upstream: origin, policies: [{{ xslt: {{ on: request, stylesheet: {name}.xsl, verbose: true, body_bytes_max: 1MiB }} }}] }}\n"
        )
    };
    let routes: String = sheets.iter().map(route).collect();
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\n{more}\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes:\n{routes}",
        origin.url()
    );
    let files: Vec<(String, &str)> =
        sheets.iter().map(|(name, text)| (format!("{name}.xsl"), *text)).collect();
    let files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    Gateway::start_beside(yaml, &files)
}

fn post(gateway: &Gateway, path: &str, content_type: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// Posts XML to the route of that name.
fn transform(gateway: &Gateway, name: &str, body: &str) -> Message {
    post(gateway, &format!("/{name}"), "text/xml", body)
}

/// The value of a metric, by its name with its labels.
#[track_caller]
fn metric(gateway: &Gateway, name: &str) -> Option<f64> {
    let text = gateway.admin_get("/metrics").text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned))?;
    line.trim().parse().ok()
}
