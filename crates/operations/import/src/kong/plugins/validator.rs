//! `request-validator`: its schemas as files of `json_schema`.

use serde_json::{Map, Value as Json, json};

use super::super::converter::Converter;
use super::super::fields::Verdict;
use super::super::tree::Item;
use super::RouteEffect;

/// The drafts of JSON Schema that the plugin knows, by its words for them.
const DRAFTS: [(&str, &str); 5] = [
    ("draft4", "http://json-schema.org/draft-04/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft201909", "https://json-schema.org/draft/2019-09/schema"),
    ("draft202012", "https://json-schema.org/draft/2020-12/schema"),
];

impl Converter<'_> {
    pub(super) fn request_validator(
        &mut self,
        config: &Item,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let mut keys = Map::new();
        if let Some(text) = config.text("body_schema") {
            let version = config.text("version").unwrap_or("kong");
            let draft = DRAFTS.iter().find(|(word, _)| *word == version);
            match draft {
                Some((_, draft)) => {
                    let file = self.schema_file(config, "body_schema", text, draft);
                    keys.insert("body".to_owned(), json!(file));
                }
                None => verdict.refuse(
                    "`body_schema` must be JSON Schema, with `version: draft7`, and not Kong's own form",
                ),
            }
        }
        let types = config.texts("allowed_content_types");
        let bare = |kind: &&str| kind.split(';').next().unwrap_or_default().trim().to_owned();
        if !types.is_empty() {
            let types: Vec<String> = types.iter().map(bare).collect();
            keys.insert("types".to_owned(), json!(types));
        }
        let mut parameters = Vec::new();
        for item in config.list("parameter_schema") {
            parameters.extend(self.parameter(item, verdict));
        }
        if !parameters.is_empty() {
            keys.insert("parameters".to_owned(), json!(parameters));
        }
        if config.is_true("verbose_response", false) {
            keys.insert("verbose".to_owned(), json!(true));
        }
        if keys.get("body").is_none() && parameters.is_empty() && !verdict.is_refused() {
            self.mistakes
                .add(config.at, "a request-validator needs `body_schema` or `parameter_schema`");
        }
        verdict.nearly(
            "another content type is 415, and a request without a body passes unless its method is POST, PUT or PATCH",
        );
        made.policies.push(json!({ "json_schema": keys }));
    }

    fn parameter(&mut self, item: &Item, verdict: &mut Verdict) -> Option<Json> {
        let (Some(name), Some(place)) = (item.text("name"), item.text("in")) else {
            self.mistakes.add(item.at, "a parameter needs `name` and `in`");
            return None;
        };
        if !["query", "header", "path"].contains(&place) {
            self.mistakes.add(item.place_of("in"), "`in` must be query, header or path");
            return None;
        }
        let mut keys = Map::new();
        keys.insert("name".to_owned(), json!(name));
        keys.insert("place".to_owned(), json!(place));
        if item.is_true("required", false) {
            keys.insert("required".to_owned(), json!(true));
        }
        if let Some(text) = item.text("schema") {
            // Harmless: a schema that is not JSON has no type, and `check` reports it.
            let read: Option<Json> = serde_json::from_str(text).ok();
            let kind = read.as_ref().and_then(|schema| schema.get("type")).and_then(Json::as_str);
            if matches!(kind, Some("array" | "object")) {
                verdict.refuse(format!("the parameter `{name}` is a list or an object"));
            }
            let [(_, draft), ..] = DRAFTS;
            let file = self.schema_file(item, "schema", text, draft);
            keys.insert("schema".to_owned(), json!(file));
        }
        Some(Json::Object(keys))
    }

    /// Adds a schema as a file of the configuration. If it has no draft, one is added.
    fn schema_file(&mut self, item: &Item, key: &str, text: &str, draft: &str) -> String {
        let mut schema: Json = match serde_json::from_str(text) {
            Ok(schema) => schema,
            Err(error) => {
                let what = format!("`{key}` must be JSON: {error}");
                self.mistakes.add(item.place_of(key), what);
                Json::Null
            }
        };
        if let Some(keys) = schema.as_object_mut().filter(|keys| !keys.contains_key("$schema")) {
            keys.insert("$schema".to_owned(), json!(draft));
        }
        self.out.file("schema", "json", schema.to_string().into_bytes())
    }
}
