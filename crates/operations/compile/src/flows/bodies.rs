//! Compiles the steps that build a body: `payload` and `respond`.

use bytes::Bytes;
use config::{
    EnvelopeUse, ExpressionText, JsonTemplate, NamedStep, PayloadStep, QueryTemplate, RespondStep,
    Spanned, StatusTemplate,
};
use expression::Kind;
use flows::{Action, Payload, PayloadSource, Respond, Status};

use super::steps::{StepKind, StepPlace};
use super::{Compiler, Namespaces};
use crate::files;

impl StepKind for RespondStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.respond(self, place.step, place.namespaces)?))
    }

    fn ends_flow(&self) -> bool {
        true
    }
}

impl StepKind for PayloadStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.payload(self, place.step, place.namespaces)?))
    }

    fn subject(&self) -> String {
        let made = match self {
            PayloadStep { xml: Some(_), .. } => "xml",
            PayloadStep { json: Some(_), .. } => "json",
            PayloadStep { text: Some(_), .. } => "text",
            PayloadStep { form: Some(_), .. } => "form",
            PayloadStep { from: Some(_), .. } => "from",
            PayloadStep { .. } => "file",
        };
        made.to_owned()
    }
}

/// The keys that can give the content of a body. At most one of them may be written.
#[derive(Clone, Copy)]
struct BodyKeys<'a> {
    xml: &'a Option<Spanned<String>>,
    json: &'a Option<Spanned<JsonTemplate>>,
    text: &'a Option<Spanned<String>>,
    form: &'a Option<QueryTemplate>,
    from: &'a Option<ExpressionText>,
}

impl Compiler<'_, '_> {
    /// Warns of placeholders in a `text` that is sent as a form, because their values are not encoded.
    fn warn_of_unescaped(&mut self, text: &Spanned<String>, content_type: Option<&str>) {
        let media_type = message::media_type(content_type.unwrap_or("").as_bytes());
        if media_type.eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
            && text.value.contains("{{")
        {
            let what =
                "values in a `text` are not encoded, so a value could add fields to the form";
            self.report.warn(text.at, what, "write `form` in place of `text`");
        }
    }

    /// Compiles the content of a body. Returns `Some(None)` if no key gives it, and `None` after a complaint.
    fn payload_source(
        &mut self,
        written: BodyKeys<'_>,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
    ) -> Option<Option<PayloadSource>> {
        let BodyKeys { xml, json, text, form, from } = written;
        let several =
            [xml.is_some(), json.is_some(), text.is_some(), form.is_some(), from.is_some()];
        if several.iter().filter(|there| **there).count() > 1 {
            let what = "a body can have only one source";
            self.report.error(
                step.at,
                what,
                "keep one of `xml`, `json`, `text`, `form` and `from`",
            );
            return None;
        }
        let made = match written {
            BodyKeys { xml: Some(xml), .. } => {
                PayloadSource::Xml(self.template(xml, Kind::Xml, namespaces)?)
            }
            BodyKeys { json: Some(json), .. } => {
                let json =
                    Spanned { value: json.value.0.clone(), at: json.at, intact: json.intact };
                PayloadSource::Json(self.template(&json, Kind::Json, namespaces)?)
            }
            BodyKeys { text: Some(text), .. } => {
                PayloadSource::Text(self.template(text, Kind::Text, namespaces)?)
            }
            BodyKeys { form: Some(form), .. } => PayloadSource::Form(self.query(form, namespaces)?),
            BodyKeys { from: Some(from), .. } => {
                PayloadSource::From(self.expression(from, namespaces)?)
            }
            BodyKeys { xml: None, json: None, text: None, form: None, from: None } => {
                return Some(None);
            }
        };
        Some(Some(made))
    }

    fn respond(
        &mut self,
        keys: &RespondStep,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
    ) -> Option<Respond> {
        let RespondStep { xml, json, text, form, from, .. } = keys;
        let written = BodyKeys { xml, json, text, form, from };
        if let Some(text) = text {
            let is_type = |name: &Spanned<String>| name.value.eq_ignore_ascii_case("content-type");
            let mut lines = keys.headers.iter();
            let content_type =
                lines.find_map(|(name, value)| is_type(name).then_some(&value.value));
            self.warn_of_unescaped(text, content_type.map(String::as_str));
        }
        let made = self.payload_source(written, step, namespaces);
        let headers = self.lines(&keys.headers, namespaces);
        let status = match &keys.status {
            None => Some(None),
            Some(StatusTemplate::Status(status)) => Some(Some(Status::Fixed(status.get_u16()))),
            Some(StatusTemplate::Template(text)) => {
                let made = self.template(text, Kind::Text, namespaces);
                made.map(|template| Some(Status::Made(template)))
            }
        };
        Some(Respond { status: status?, headers: headers?, made: made? })
    }

    fn payload(
        &mut self,
        keys: &PayloadStep,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
    ) -> Option<Payload> {
        let PayloadStep { xml, json, text, form, from, .. } = keys;
        let written = BodyKeys { xml, json, text, form, from };
        let made = self.payload_source(written, step, namespaces)?;
        let file = match &keys.file {
            Some(file) => {
                // Harmless: a file without an ending has no type.
                let ending = file.value.as_path().extension().unwrap_or_default();
                let bytes = Bytes::from(files::read_document(file, self.report)?);
                Some(PayloadSource::file(bytes, &ending.to_string_lossy()))
            }
            None => None,
        };
        if let Some(content_type) = &keys.content_type {
            crate::names::media_type(content_type, self.report)?;
            if let Some(text) = text {
                self.warn_of_unescaped(text, Some(&content_type.value));
            }
        }
        let made = match (made, file) {
            (Some(made), None) => made,
            (None, Some(file)) => file,
            (Some(_), Some(_)) | (None, None) => {
                let help = "write one of `xml`, `json`, `text`, `form`, `from` and `file`";
                self.report.error(step.at, "a payload needs exactly one source", help);
                return None;
            }
        };
        Some(Payload {
            made,
            content_type: keys.content_type.as_ref().map(|text| text.value.as_str().into()),
            envelope: keys.envelope == EnvelopeUse::Keep,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_label_of_a_payload_names_its_source() {
        for (source, value) in [
            ("xml", json!("<a/>")),
            ("json", json!({})),
            ("text", json!("a")),
            ("form", json!({ "a": "b" })),
            ("from", json!("$body")),
            ("file", json!("a.xml")),
        ] {
            let mut report = config::Report::default();
            let keys = json!({ source: value });
            let step = config::decode::<PayloadStep>(&keys, config::At::NOWHERE, &mut report);
            assert_eq!(step.map(|step| step.subject()).as_deref(), Some(source), "{report}");
        }
    }
}
