//! `xslt` to its policy: the stylesheet compiled for the engine it is for, and shared by all routes that name the same.

mod saxon;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::path::Path;
use std::sync::{Arc, Mutex};

use ::policies::xslt::{self as transforms, On, Settings, Sheet};
use config::{At, MessageSide, Policy, Report, Spanned, XsltEngine};
use xslt::{Argument, Parameter, Resolver, Resource, Stylesheet};

use super::soap;
use super::soap::load;
use crate::policy::Place;

const XSLT: &str = "http://www.w3.org/1999/XSL/Transform";

/// The newest version that our own engine runs; 1.1 is 1.0 with what was dropped again.
const NATIVE_VERSION_MAX: f64 = 1.1;

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
    let sheet = match load::read_or_complain(&keys.stylesheet, report) {
        Some(bytes) => sheet(&bytes, keys, place, report),
        // Complained about.
        None => Arc::new(Err(String::new())),
    };
    let parameters = keys.parameters.iter().map(|(name, value)| Parameter {
        uri: "".into(),
        local: name.value.as_str().into(),
        value: Argument::Text(value.as_str().into()),
    });
    let settings = Settings {
        sheet,
        parameters: parameters.collect(),
        strip_empty_namespaces: keys.strip_empty_namespaces,
        before: is_before(keys.on.value, at, place),
        verbose: keys.verbose,
        codings: soap::codings(at, keys.body_bytes_max, place),
        timeout: place.config.saxon.timeout.0,
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

/// The stylesheet for its engine, or what is wrong with it, which is complained about.
fn sheet(
    bytes: &[u8],
    keys: &config::Xslt,
    place: &mut Place<'_, '_>,
    report: &mut Report,
) -> Arc<Result<Sheet, String>> {
    let path = keys.stylesheet.value.as_path();
    let later = version(bytes).is_some_and(|(_, version)| version > NATIVE_VERSION_MAX);
    let by_saxon = match keys.engine {
        XsltEngine::Native => false,
        XsltEngine::Saxon => true,
        XsltEngine::Auto => later,
    };
    let mut help = "correct the stylesheet";
    let sheet = match by_saxon {
        false => compiled(bytes, path, place),
        true => match saxon::engine(place, report) {
            Ok(engine) => {
                let parameters = keys.parameters.iter();
                let parameters: Vec<_> =
                    parameters.map(|(name, value)| (name.value.clone(), value.clone())).collect();
                saxon::compiled(bytes, path, &parameters, &engine, place, report)
            }
            Err(unavailable) => {
                help = unavailable.instead;
                Arc::new(Err(format!("it needs Saxon: {}", unavailable.what)))
            }
        },
    };
    if let Err(what) = &*sheet {
        complain(what, help, keys, place, report);
    }
    sheet
}

/// One complaint a line.
fn complain(
    what: &str,
    help: &'static str,
    keys: &config::Xslt,
    place: &Place<'_, '_>,
    report: &mut Report,
) {
    let at = keys.stylesheet.at;
    for line in what.lines() {
        match soap::faulty_pass(keys.bad_definitions, place) {
            true => report.warn(at, line, format!("{help}: until then every message is refused")),
            false => report.error(at, line, help),
        }
    }
}

/// Compiles a stylesheet for our own engine, unless the plan before has it of the same bytes.
fn compiled(bytes: &[u8], path: &Path, place: &mut Place<'_, '_>) -> Arc<Result<Sheet, String>> {
    let name = path.to_string_lossy();
    let known = place.making.stylesheets.get(&*name).cloned();
    if let Some(known) = known {
        return known;
    }
    let files = Files::default();
    let made = refused_version(bytes, &name).map_or_else(
        || Stylesheet::compile(bytes, &name, &files).map_err(|error| error.to_string()),
        Err,
    );
    let mut read: Vec<(String, Vec<u8>)> = files.into_read();
    read.push((name.clone().into_owned(), bytes.to_vec()));
    read.sort_unstable();
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&read);
    let kept = place.making.kept_or(&format!("stylesheet {name} {hash:x}"), || {
        Arc::new(made.map(|made| Sheet::Native(Box::new(made))))
    });
    place.making.stylesheets.insert(name.into_owned(), kept.clone());
    kept
}

/// What is said of a stylesheet of a later version.
fn refused_version(bytes: &[u8], name: &str) -> Option<String> {
    let (place, version) = version(bytes).filter(|(_, version)| *version > NATIVE_VERSION_MAX)?;
    let shown = if version.fract() == 0.0 { format!("{version:.1}") } else { version.to_string() };
    Some(format!(
        "{name}:{place}: the stylesheet is of XSLT {shown}, and only 1.1 features are supported"
    ))
}

/// The version a stylesheet says it is of, and where.
fn version(bytes: &[u8]) -> Option<(xml::Position, f64)> {
    let options = xml::Options { doctype: xml::Doctype::Internal, ..xml::Options::default() };
    let document = xml::Document::parse(bytes, &options).ok()?;
    let root = document.root_element()?;
    let uri = if document.name(root).namespace.uri == XSLT { "" } else { XSLT };
    let version = document.attribute(root, uri, "version")?.trim().parse().ok()?;
    Some((document.position(root), version))
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
