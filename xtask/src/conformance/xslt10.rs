//! The `xslt10` suite: stylesheets with a source, and assertions about the result.
//!
//! Owns the parsing of its cases and the meaning of each kind of assertion. Runs in process, on a thread with the stack size of
//! a worker.

mod assertion;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use xml::{Doctype, Document, Options as XmlOptions};
use xslt::{Argument, Parameter, Resolver, Resource, Run, Stylesheet};

use super::known::{Judged, close};
use super::pack::Pack;
use super::{Options, Outcome};
use crate::Failure;
use assertion::Got;

/// The stack size of a worker thread of the gateway.
const STACK_BYTES: usize = 2 << 20;

/// Runs all cases of the pack.
pub(crate) fn run(options: &Options) -> Result<Outcome, Failure> {
    let pack = Pack::open(&options.pack)?;
    let judge_all = || {
        let chosen = pack.cases.iter().filter(|case| id(case).contains(&options.only));
        chosen.map(|case| judge(case, &pack)).collect::<Vec<_>>()
    };
    let judged = std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
        let worker = worker.spawn_scoped(scope, judge_all);
        worker.ok().and_then(|worker| worker.join().ok())
    });
    let judged = judged.ok_or_else(|| Failure::Broken("the suite's thread ended".to_owned()))?;
    let streamed = judged.iter().filter(|(_, streams)| *streams).count();
    let judged: Vec<Judged> = judged.into_iter().map(|(judged, _)| judged).collect();
    close("xslt10", &judged, format!("{streamed} stylesheets ran without a tree\n"))
}

fn text<'v>(case: &'v Value, key: &str) -> &'v str {
    case.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn id(case: &Value) -> String {
    format!("{}/{}", text(case, "set"), text(case, "id"))
}

/// The verdict on a case, and whether it ran without a tree of its source.
fn judge(case: &Value, pack: &Pack) -> (Judged, bool) {
    let mut streams = false;
    let got = transform_or(case, pack, &mut streams).unwrap_or_else(Got::Failed);
    let files = Files { files: &pack.files };
    let judged = case.get("assert").map(|assert| {
        assertion::holds(assert, &got, text(case, "compare") == "ignore-blank-text", &files)
    });
    let (passed, complaint) = match judged {
        Some(Ok(())) => (true, String::new()),
        Some(Err(complaint)) => (false, complaint),
        None => (false, "no assertion".to_owned()),
    };
    let complaint = format!("{}\n  {complaint}", got.show());
    (Judged { id: id(case), passed, complaint }, streams)
}

fn transform_or(case: &Value, pack: &Pack, streams: &mut bool) -> Result<Got, String> {
    let files = Files { files: &pack.files };
    let (stylesheet, source) = (text(case, "stylesheet"), text(case, "source"));
    let show = |error: &dyn std::fmt::Display| error.to_string();
    let compiled = Stylesheet::compile(files.get(stylesheet)?, stylesheet, &files)
        .map_err(|error| show(&error))?;
    let options = XmlOptions { doctype: Doctype::Internal, ..XmlOptions::default() };
    let bytes = files.get(source)?;
    let document =
        Document::parse(bytes, &options).map_err(|error| format!("{source}: {error}"))?;
    let document = Arc::new(document);
    let parameters = parameters(case);
    let run = Run {
        parameters: &parameters,
        resolver: &files,
        base: source,
        as_xml: text(case, "output_method") == "xml-tree",
        ..Run::default()
    };
    *streams = compiled.streams();
    let output = compiled.transform_bytes(bytes, &options, &run).map_err(|error| show(&error))?;
    let (tree, _) = compiled.transform_to_tree(&document, &run).map_err(|error| show(&error))?;
    Ok(Got::Result { bytes: output.bytes, tree: Arc::new(tree) })
}

fn parameters(case: &Value) -> Vec<Parameter> {
    let list = case.get("params").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let parameter = |value: &Value| Parameter {
        uri: "".into(),
        local: text(value, "name").into(),
        value: Argument::Expression(text(value, "select").into()),
    };
    list.iter().map(parameter).collect()
}

/// The pack's files, as documents for stylesheets.
pub(super) struct Files<'p> {
    files: &'p BTreeMap<String, Vec<u8>>,
}

impl Files<'_> {
    pub(super) fn get(&self, path: &str) -> Result<&[u8], String> {
        let found = self.files.get(path).map(Vec::as_slice);
        found.ok_or_else(|| format!("the pack has no file `{path}`"))
    }
}

impl Resolver for Files<'_> {
    fn resolve(&self, href: &str, base: &str) -> Result<Resource, String> {
        let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in href.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let uri = parts.join("/");
        let bytes = self.get(&uri)?.to_vec();
        Ok(Resource { uri, bytes })
    }
}
