//! The SOAP/XML plugins: their steps as `xslt`, `soap` and `xpath_route`, with the faults of the plugins.

use serde_json::{Map, Value as Json, json};

use super::super::converter::Converter;
use super::super::fields::Verdict;
use super::super::tree::Item;
use super::RouteEffect;

/// The side of a plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Response,
}

/// The prefixes that both the plugin and `xpath_route` know without a declaration.
const KNOWN_PREFIXES: [(&str, &str); 2] = [
    ("soap", "http://schemas.xmlsoap.org/soap/envelope/"),
    ("soap12", "http://www.w3.org/2003/05/soap-envelope"),
];

impl Side {
    fn word(self) -> &'static str {
        match self {
            Side::Request => "request",
            Side::Response => "response",
        }
    }
}

/// The kind of definition in a text of the plugin.
enum Definition {
    /// Nothing but a comment: switched off.
    Off,
    /// A file, or a URL.
    At(String),
}

impl Converter<'_> {
    pub(super) fn soap(
        &mut self,
        config: &Item,
        side: Side,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let before = self.stylesheet(config, "xsltTransformBefore", side, verdict);
        let after = self.stylesheet(config, "xsltTransformAfter", side, verdict);
        let soap = self.schemas(config, side, verdict);
        let mut steps: Vec<Json> = before.into_iter().collect();
        steps.push(json!({ "soap": soap }));
        steps.extend(after);
        if side == Side::Request {
            steps.extend(self.by_xpath(config, verdict));
        } else {
            // Replies pass through the policies from the last to the first.
            steps.reverse();
        }
        made.policies = steps;
        made.route.insert("errors".to_owned(), json!("kong"));
    }

    /// The file of a text: the text itself, a URL, or a path.
    fn definition(&mut self, config: &Item, text: &str, ending: &str) -> Definition {
        let bare = text.trim();
        let is_comment = bare.starts_with("<!--")
            && bare.strip_suffix("-->").is_some_and(|front| !front.contains("-->"));
        if is_comment {
            return Definition::Off;
        }
        let is_content = text.contains(char::is_whitespace) || bare.starts_with('<');
        if is_content {
            return Definition::At(self.out.file("definition", ending, text.as_bytes().to_vec()));
        }
        let is_whole = text.starts_with('/') || text.starts_with("http");
        Definition::At(match config.text("filePathPrefix") {
            Some(prefix) if !is_whole => format!("{}/{text}", prefix.trim_end_matches('/')),
            Some(_) | None => text.to_owned(),
        })
    }

    fn stylesheet(
        &mut self,
        config: &Item,
        key: &str,
        side: Side,
        verdict: &mut Verdict,
    ) -> Option<Json> {
        let text = config.text(key)?;
        let Definition::At(file) = self.definition(config, text, "xsl") else {
            verdict.nearly(format!("`{key}` is empty"));
            return None;
        };
        let mut keys = Map::new();
        keys.insert("on".to_owned(), json!(side.word()));
        keys.insert("stylesheet".to_owned(), json!(file));
        let engine = if config.text("xsltLibrary") == Some("saxon") { "saxon" } else { "native" };
        keys.insert("engine".to_owned(), json!(engine));
        let mut parameters = Map::new();
        for (name, item) in config.map("xsltParams") {
            match item.scalar() {
                Some(text) => drop(parameters.insert(name.clone(), json!(text))),
                None => self.mistakes.add(item.at, format!("`{name}` must be a text")),
            }
        }
        if config.get("xsltParams").is_some() {
            keys.insert("parameters".to_owned(), Json::Object(parameters));
        }
        if !config.is_true("xsltRemoveEmptyNameSpace", true) {
            keys.insert("strip_empty_namespaces".to_owned(), json!(false));
        }
        if file.starts_with("http") {
            keys.insert("fetch".to_owned(), fetch(config));
        }
        keys.extend(verbose(config, side));
        Some(json!({ "xslt": keys }))
    }

    /// The schemas of envelopes. True if one of them is downloaded.
    fn envelopes(
        &mut self,
        config: &Item,
        keys: &mut Map<String, Json>,
        verdict: &mut Verdict,
    ) -> bool {
        let mut fetches = false;
        let mut envelope = Map::new();
        let mut is_off = false;
        for (key, version) in [("xsdSoapSchema", "1.1"), ("xsdSoap12Schema", "1.2")] {
            let Some(text) = config.text(key) else { continue };
            match self.definition(config, text, "xsd") {
                Definition::At(file) => {
                    fetches |= file.starts_with("http");
                    envelope.insert(version.to_owned(), json!(file));
                }
                Definition::Off => is_off |= version == "1.1",
            }
        }
        match (is_off, envelope.is_empty()) {
            (true, true) => drop(keys.insert("envelope".to_owned(), json!("off"))),
            (true, false) => {
                verdict.refuse("Tidegate does not validate envelopes of SOAP 1.2 only")
            }
            (false, true) => {}
            (false, false) => drop(keys.insert("envelope".to_owned(), Json::Object(envelope))),
        }
        fetches
    }

    fn schemas(&mut self, config: &Item, side: Side, verdict: &mut Verdict) -> Json {
        let mut keys = Map::new();
        let mut fetches = self.envelopes(config, &mut keys, verdict);
        let mut imports = Map::new();
        for key in ["xsdApiSchemaInclude", "xsdSoapSchemaInclude", "xsdSoap12SchemaInclude"] {
            for (location, item) in config.map(key) {
                let Some(text) = item.scalar() else {
                    self.mistakes.add(item.at, format!("`{location}` must be a text"));
                    continue;
                };
                if let Definition::At(file) = self.definition(config, text, "xsd") {
                    imports.insert(location.clone(), json!(file));
                }
            }
        }
        if let Some(text) = config.text("xsdApiSchema") {
            let ending = if text.contains("XMLSchema")
                && !text.contains("definitions")
                && !text.contains("description")
            {
                "xsd"
            } else {
                "wsdl"
            };
            if let Definition::At(file) = self.definition(config, text, ending) {
                let locations =
                    text.contains("schemaLocation") || !text.contains(char::is_whitespace);
                let downloads =
                    config.is_true("ExternalEntityLoader_Async", false) || imports.is_empty();
                fetches |=
                    file.starts_with("http") || (locations && downloads && text.contains("http"));
                keys.insert("schema".to_owned(), json!(file));
            }
            if !config.is_true("wsdlApiRecursiveWsdlImport", false) {
                keys.insert("wsdl_imports".to_owned(), json!(false));
            }
        }
        if !imports.is_empty() {
            keys.insert("imports".to_owned(), Json::Object(imports));
        }
        if config.is_true("wsdlApiSchemaForceSchemaLocation", false) {
            keys.insert("imports_by_namespace".to_owned(), json!(true));
        }
        if fetches {
            keys.insert("fetch".to_owned(), fetch(config));
        }
        keys.insert("validate".to_owned(), json!([side.word()]));
        match config.text("SOAPAction_Header") {
            Some("yes") => drop(keys.insert("action".to_owned(), json!("required"))),
            Some("yes_null_allowed") => drop(keys.insert("action".to_owned(), json!("optional"))),
            Some(_) | None => {}
        }
        if side == Side::Response && config.is_true("ignoreProcessIfServiceHttpError", false) {
            keys.insert("upstream_errors".to_owned(), json!("fault"));
        }
        keys.extend(verbose(config, side));
        Json::Object(keys)
    }

    fn by_xpath(&mut self, config: &Item, verdict: &mut Verdict) -> Option<Json> {
        let targets = config.list("RouteXPathTargets");
        if targets.is_empty() {
            return None;
        }
        let mut namespaces = Map::new();
        for entry in config.texts("RouteXPathRegisterNs") {
            match entry.split_once(',') {
                Some((prefix, uri)) if !KNOWN_PREFIXES.contains(&(prefix, uri)) => {
                    namespaces.insert(prefix.to_owned(), json!(uri));
                }
                Some(_) => {}
                None => verdict.refuse(format!("`{entry}` is not a prefix with its namespace")),
            }
        }
        let mut cases = Vec::new();
        for target in targets {
            match (target.text("URL"), target.text("XPath"), target.text("XPathCondition")) {
                (Some(url), Some(xpath), Some(equals)) => {
                    self.named_pools.push(host_of(url));
                    cases.push(json!({ "xpath": xpath, "equals": equals, "url": url }));
                }
                _ => self
                    .mistakes
                    .add(target.at, "a target needs `URL`, `XPath` and `XPathCondition`"),
            }
        }
        let mut keys = Map::new();
        if !namespaces.is_empty() {
            keys.insert("namespaces".to_owned(), Json::Object(namespaces));
        }
        keys.insert("cases".to_owned(), json!(cases));
        keys.extend(verbose(config, Side::Request));
        Some(json!({ "xpath_route": keys }))
    }
}

/// The host of a URL. It may be the name of an upstream of Kong's.
fn host_of(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    host.split(['/', ':', '?']).next().unwrap_or_default().to_owned()
}

fn verbose(config: &Item, side: Side) -> Option<(String, Json)> {
    let key = match side {
        Side::Request => "VerboseRequest",
        Side::Response => "VerboseResponse",
    };
    config.is_true(key, false).then(|| ("verbose".to_owned(), json!(true)))
}

/// The settings for downloading definitions.
fn fetch(config: &Item) -> Json {
    let seconds = |key: &str, absent: u64| format!("{}s", config.whole(key, absent).max(1));
    json!({
        "timeout": seconds("ExternalEntityLoader_Timeout", 1),
        "ttl": seconds("ExternalEntityLoader_CacheTTL", 3_600),
        "background": config.is_true("ExternalEntityLoader_Async", false),
    })
}
