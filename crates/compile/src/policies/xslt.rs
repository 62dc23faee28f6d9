//! `xslt` to its policy: the stylesheet compiled, and shared by all routes that name the same.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::path::Path;
use std::sync::{Arc, Mutex};

use ::policies::xslt::{self as transforms, On, Settings};
use config::{At, MessageSide, Policy, Report, Spanned};
use xslt::{Argument, Parameter, Resolver, Resource, Stylesheet};

use super::soap;
use super::soap::load;
use crate::policy::Place;

const XSLT: &str = "http://www.w3.org/1999/XSL/Transform";

/// Builds the policy; what is wrong with the stylesheet is complained about with its file, line and column.
pub(crate) fn build(
    keys: &config::Xslt,
    at: At,
    place: &mut Place<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    let on = match keys.on.value {
        MessageSide::Request => On::Request,
        MessageSide::Response => On::Response,
    };
    let file = &keys.stylesheet;
    let stylesheet = match load::read_or_complain(file, report) {
        Some(bytes) => compiled(&bytes, file.value.as_path(), place),
        None => Arc::new(Err(String::new())),
    };
    if let Err(what) = &*stylesheet
        && !what.is_empty()
    {
        match soap::faulty_pass(keys.bad_definitions, place) {
            true => report.warn(
                file.at,
                what.as_str(),
                "correct it: until then every message is refused",
            ),
            false => report.error(file.at, what.as_str(), "correct the stylesheet"),
        }
    }
    let parameters = keys.parameters.iter().map(|(name, value)| Parameter {
        uri: "".into(),
        local: name.value.as_str().into(),
        value: Argument::Text(value.as_str().into()),
    });
    let settings = Settings {
        stylesheet,
        parameters: parameters.collect(),
        strip_empty_namespaces: keys.strip_empty_namespaces,
        before: is_before(keys.on.value, at, place),
        verbose: keys.verbose,
        codings: soap::codings(at, keys.body_bytes_max, place),
    };
    transforms::policy(on, settings)
}

/// Whether the validation of this side comes after: below on requests, above on replies.
fn is_before(on: MessageSide, at: At, place: &Place<'_, '_>) -> bool {
    let validates = |policy: &Spanned<Policy>| matches!(&policy.value, Policy::Soap(keys) if keys.validate.value.contains(&on));
    let mut above = place.of.policies.iter().take_while(|policy| policy.at != at);
    let mut below = place.of.policies.iter().skip_while(|policy| policy.at != at);
    match on {
        MessageSide::Request => below.any(validates),
        MessageSide::Response => above.any(validates),
    }
}

/// Compiles a stylesheet, unless the plan before has it of the same bytes.
fn compiled(
    bytes: &[u8],
    path: &Path,
    place: &mut Place<'_, '_>,
) -> Arc<Result<Stylesheet, String>> {
    let known = place.making.stylesheets.get(path).cloned();
    if let Some(known) = known {
        return known;
    }
    let files = Files::default();
    let name = path.to_string_lossy();
    let made = refused_version(bytes, &name).map_or_else(
        || Stylesheet::compile(bytes, &name, &files).map_err(|error| error.to_string()),
        Err,
    );
    let mut read: Vec<(String, Vec<u8>)> = files.into_read();
    read.push((name.clone().into_owned(), bytes.to_vec()));
    read.sort_unstable();
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&read);
    let kept = place.making.kept_or(&format!("stylesheet {name} {hash:x}"), || Arc::new(made));
    place.making.stylesheets.insert(path.to_owned(), kept.clone());
    kept
}

/// What is said of a stylesheet of a later version.
fn refused_version(bytes: &[u8], name: &str) -> Option<String> {
    let document = xml::Document::parse(bytes, &xml::Options::default()).ok()?;
    let root = document.root_element()?;
    let uri = if document.name(root).namespace.uri == XSLT { "" } else { XSLT };
    let version = document.attribute(root, uri, "version")?.trim();
    let later = version.parse::<f64>().is_ok_and(|version| version > 1.1);
    later.then(|| {
        let place = document.position(root);
        format!("{name}:{place}: the stylesheet is of XSLT {version}, and only 1.1 features are supported")
    })
}

/// Modules beside the stylesheet that names them.
#[derive(Default)]
struct Files {
    read: Mutex<HashMap<String, Vec<u8>>>,
}

impl Files {
    fn into_read(self) -> Vec<(String, Vec<u8>)> {
        self.read.into_inner().unwrap_or_default().into_iter().collect()
    }
}

impl Resolver for Files {
    fn resolve(&self, href: &str, base: &str) -> Result<Resource, String> {
        let uri = xsd::join(base, href);
        if uri.contains("://") {
            return Err("only files beside the stylesheet are read".to_owned());
        }
        let bytes = load::read(Path::new(&uri))?;
        if let Ok(mut read) = self.read.lock() {
            read.insert(uri.clone(), bytes.clone());
        }
        Ok(Resource { uri, bytes })
    }
}
