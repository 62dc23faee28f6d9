//! Endpoints that are made of templates: the template's endpoint with the parameters put in.
//!
//! Owns the parameters and their insertion into the endpoint. Each result is a separate document, whose elements have the place
//! where the template is used.

use std::collections::HashMap;

use xml::Document;

use super::element::{Element, File, options};
use crate::table::ArtifactPosition;

/// The result for one use of a template: the endpoint, or the reason why there is none.
pub(super) type TemplateResult = Result<File, String>;

/// The limit of template uses, each of which is a separate document. A large project has some dozen. Further ones are refused.
const USES_MAX: usize = 1_000;

/// Fills the templates that endpoints in these files name.
pub(super) fn fill(files: &[File]) -> HashMap<ArtifactPosition, TemplateResult> {
    // Harmless: a document has a root.
    let all: Vec<Element<'_>> =
        files.iter().filter_map(Element::root).flat_map(|root| root.descendants()).collect();
    let mut templates: HashMap<&str, Element<'_>> = HashMap::new();
    let is_template = |element: &&Element<'_>| {
        element.name() == "template" && element.child("endpoint").is_some()
    };
    for element in all.iter().filter(is_template) {
        // If several have the same name, the first is used, as the table states.
        templates.entry(element.attribute("name").unwrap_or("")).or_insert(*element);
    }
    let uses = all.iter().filter(|element| element.name() == "endpoint");
    // Harmless: other endpoints are made of no template.
    let uses = uses.filter_map(|used| Some((used, used.attribute("template")?)));
    let make = |(number, (used, name)): (usize, (&Element<'_>, &str))| {
        let template = templates.get(name);
        let made = match template.and_then(|template| Some((template, template.child("endpoint")?)))
        {
            Some(_) if number >= USES_MAX => {
                Err(format!("more than {USES_MAX} endpoints are made of templates"))
            }
            Some((template, endpoint)) => filled(used, template, &endpoint),
            None => Err(format!("the template `{name}` of an endpoint is not among the artifacts")),
        };
        (used.place(), made)
    };
    uses.enumerate().map(make).collect()
}

fn filled(used: &Element<'_>, template: &Element<'_>, endpoint: &Element<'_>) -> TemplateResult {
    if endpoint.descendants().iter().any(|part| part.attribute("template").is_some()) {
        return Err("a template of an endpoint that is made of a template is not filled".to_owned());
    }
    let given = |name: &str| match name {
        "name" | "uri" => used.attribute(name),
        _ => used
            .all("parameter")
            .into_iter()
            .find(|parameter| parameter.attribute("name") == Some(name))
            .and_then(|parameter| parameter.attribute("value")),
    };
    let mut values: Vec<(String, String)> = Vec::new();
    let parameters = template.all("parameter");
    // Harmless: a parameter without a name has no effect.
    let declared = parameters.iter().filter_map(|parameter| parameter.attribute("name"));
    for name in ["name", "uri"].into_iter().chain(declared) {
        if values.iter().any(|(known, _)| known == name) {
            continue;
        }
        match given(name) {
            Some(value) => {
                let mut escaped = String::new();
                xml::escape_attribute(value, &mut escaped);
                values.push((name.to_owned(), escaped));
            }
            // These two need not be declared.
            None if matches!(name, "name" | "uri") => {}
            None => return Err(format!("the parameter `{name}` of the template is not given")),
        }
    }
    // The longest matching name counts: `$hostname` is not `$host`.
    values.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let text = replaced(&endpoint.document(), &values);
    let document = Document::parse(text.as_bytes(), &options())
        .map_err(|error| format!("the filled template cannot be read: {}", error.kind))?;
    let ArtifactPosition { file, .. } = used.place();
    Ok(File { name: file, document, at: Some(used.place()) })
}

/// A text with the values in place of `$NAME`.
fn replaced(text: &str, values: &[(String, String)]) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((front, behind)) = rest.split_once('$') {
        out.push_str(front);
        let found = values.iter().find_map(|(name, value)| {
            let rest = behind.strip_prefix(name.as_str())?;
            let ends = !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            ends.then_some((value, rest))
        });
        rest = match found {
            Some((value, rest)) => {
                out.push_str(value);
                rest
            }
            None => {
                out.push('$');
                behind
            }
        };
    }
    out.push_str(rest);
    out
}
