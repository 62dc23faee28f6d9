//! Compiles stylesheets for Saxon: starts the JVM for the first one, and collects the modules of each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::saxon::{Complaint, Engine, EngineSettings, Unavailable};
use config::{At, DefinitionAt, Report, Saxon, Spanned};
use plan::telemetry::EngineReading;
use xml::{Doctype, Document};

use super::{BySaxon, DefinitionDocuments, StylesheetError, XSLT, error_text};
use crate::listeners::{bytes, count};
use crate::policies::soap::load;
use crate::policy::RouteScope;

/// The maximum number of modules of one stylesheet. The largest known have some hundreds.
const MODULES_MAX: usize = 1000;

/// The base URI of modules inside the JVM. A stylesheet can read its own URI, and must not see the folders of this host. The URI has
/// several segments, because each `../` in a module's reference removes one.
const ROOT: &str = "sheet:/-/-/-/-/-/-/-/-/";

/// A stylesheet or one of its imports.
pub(super) struct Module {
    uri: String,
    path: PathBuf,
    bytes: Vec<u8>,
}

/// Returns the engine, and starts its JVM if it is not running. The result is kept until the plan is complete.
pub(super) fn engine(
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Result<Arc<Engine>, Unavailable> {
    if let Some(known) = &place.builder.saxon {
        return known.clone();
    }
    let written = &place.config.saxon;
    let settings = settings(written);
    let engine = Engine::get(&settings);
    // Harmless: the error is returned to the caller.
    if let Ok(engine) = &engine {
        warn_of_kept_settings(engine, &settings, written, report);
        let counted = engine.clone();
        place.builder.telemetry.set_engine(Box::new(move || reading(&counted)));
    }
    place.builder.saxon = Some(engine.clone());
    engine
}

fn settings(written: &Saxon) -> EngineSettings {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(256);
    let path = |path: &config::Spanned<config::FilePath>| path.value.as_path().to_owned();
    EngineSettings {
        java_home: written.java_home.as_ref().map(path),
        home: written.home.as_ref().map(path),
        heap_bytes_max: u64::try_from(bytes(written.heap_bytes_max.value)).unwrap_or(u64::MAX),
        threads: written.threads.map_or_else(cores, |threads| count(threads.value.get())),
        pending_max: count(written.pending.get()),
    }
}

/// Warns that changed settings have no effect: Java can be started only once in a process.
fn warn_of_kept_settings(
    engine: &Engine,
    asked: &EngineSettings,
    written: &Saxon,
    report: &mut Report,
) {
    if engine.settings() == asked {
        return;
    }
    let places = [
        written.java_home.as_ref().map(|written| written.at),
        written.home.as_ref().map(|written| written.at),
        written.threads.map(|written| written.at),
        Some(written.heap_bytes_max.at).filter(|at| *at != At::NOWHERE),
    ];
    // Harmless: the complaint needs only one place, that of the first key written.
    let at = places.into_iter().flatten().next().unwrap_or(At::file(0));
    let what = "the JVM keeps its settings until the gateway is restarted";
    report.warn(at, what, "restart it, or restore the value in use");
}

fn reading(engine: &Engine) -> EngineReading {
    let reading = engine.stats();
    EngineReading {
        threads: reading.threads,
        pending: reading.pending,
        heap_used_bytes: reading.heap_used_bytes,
        heap_max_bytes: reading.heap_max_bytes,
        done: reading.done,
        failed: reading.failed,
        on_workers: reading.on_workers,
        refused: reading.refused,
        stopped: reading.stopped,
        busy_micros: reading.busy_micros,
    }
}

/// Compiles a stylesheet. The error text has a line for each mistake.
pub(super) fn compiled(
    parts: &BySaxon,
    found: &DefinitionDocuments<'_>,
) -> Result<::saxon::Stylesheet, StylesheetError> {
    let location = &found.documents.location;
    let texts: Vec<(String, Vec<u8>)> = if parts.modules.is_empty() {
        // The stylesheet itself is the first module. It refers to the others by URL.
        let others = found.fetched.iter().filter(|(uri, _)| *uri != location);
        let others = others.map(|(uri, bytes)| (uri.clone(), bytes.clone()));
        [(location.clone(), found.first().to_vec())].into_iter().chain(others).collect()
    } else {
        let modules = parts.modules.iter();
        modules.map(|module| (module.uri.clone(), module.bytes.clone())).collect()
    };
    let made = parts.engine.compile(&texts, &parts.parameters);
    made.map_err(|complaints| StylesheetError {
        client_text: error_text::by_saxon(&complaints, ROOT),
        complaints: listed(&complaints, &parts.modules, location),
    })
}

fn listed(complaints: &[Complaint], modules: &[Module], name: &str) -> String {
    let one = |complaint: &Complaint| {
        let module = modules.iter().find(|module| module.uri == complaint.module);
        let file = module.map_or(name.into(), |module| module.path.to_string_lossy());
        let (line, column) = (complaint.line.unwrap_or(1), complaint.column.unwrap_or(1));
        format!("{file}:{line}:{column}: {}", complaint.what)
    };
    let lines: Vec<String> = complaints.iter().map(one).collect();
    lines.join("\n")
}

/// Reads a stylesheet file with everything that it imports and includes. A module that cannot be read is left out, so that the compiler
/// reports it at its place.
pub(super) fn modules(
    stylesheet: &Spanned<DefinitionAt>,
    bytes: &[u8],
    report: &mut Report,
) -> Vec<Module> {
    let DefinitionAt::File(file) = &stylesheet.value else { return Vec::new() };
    let path = file.as_path();
    // Harmless: a file that was read has a name.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let uri = format!("{ROOT}{}", kit::percent::encoded(name.as_bytes(), b""));
    let mut modules = vec![Module { uri, path: path.to_owned(), bytes: bytes.to_vec() }];
    let mut at = 0;
    while let Some(module) = modules.get(at) {
        at += 1;
        let folder = module.path.parent().unwrap_or(Path::new("")).to_owned();
        let base = module.uri.clone();
        for href in named(&module.bytes) {
            let uri = joined(&base, &href);
            let known = modules.iter().any(|module| module.uri == uri);
            if known || modules.len() >= MODULES_MAX || href.starts_with('/') || href.contains(':')
            {
                continue;
            }
            let path = folder.join(&href);
            report.depends_on(path.clone());
            // Harmless: the compiler reports a missing module at its place.
            if let Ok(bytes) = load::read(&path) {
                modules.push(Module { uri, path, bytes });
            }
        }
    }
    modules
}

/// Returns the modules that a module imports and includes.
fn named(module: &[u8]) -> Vec<String> {
    let options = xml::Options { doctype: Doctype::Internal, ..xml::Options::default() };
    let Ok(document) = Document::parse(module, &options) else { return Vec::new() };
    let Some(root) = document.root_element() else { return Vec::new() };
    let names_another = |node: &xml::NodeId| {
        let name = document.name(*node);
        name.namespace.uri == XSLT && matches!(name.local, "import" | "include")
    };
    // Harmless: the compiler reports an import without `href`.
    let hrefs = document
        .children(root)
        .filter(names_another)
        .filter_map(|node| document.attribute(node, "", "href"));
    hrefs.map(|href| href.trim().to_owned()).collect()
}

/// Resolves a relative reference in the same way as Java.
fn joined(base: &str, href: &str) -> String {
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut segments: Vec<&str> = folder.split('/').collect();
    for segment in href.split('/') {
        match segment {
            "." => {}
            ".." if segments.len() > 1 => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_joined_as_java_does() {
        for (base, href, uri) in [
            ("sheet:/-/-/a.xsl", "b.xsl", "sheet:/-/-/b.xsl"),
            ("sheet:/-/-/a.xsl", "./c/b.xsl", "sheet:/-/-/c/b.xsl"),
            ("sheet:/-/-/c/b.xsl", "../d.xsl", "sheet:/-/-/d.xsl"),
        ] {
            assert_eq!(joined(base, href), uri, "{base} {href}");
        }
    }

    #[test]
    fn imported_and_included_modules_are_found() {
        let text = br#"<x:stylesheet xmlns:x="http://www.w3.org/1999/XSL/Transform" version="3.0">
            <x:import href=" a.xsl "/><x:include href="b/c.xsl"/><include href="d.xsl"/></x:stylesheet>"#;
        assert_eq!(named(text), ["a.xsl", "b/c.xsl"]);
        assert!(named(b"<a").is_empty());
    }
}
