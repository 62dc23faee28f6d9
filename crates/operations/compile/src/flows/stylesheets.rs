//! Compiles the steps `xslt` and `validate`, with their stylesheets and schemas.

use std::path::Path;
use std::sync::Arc;

use ::flows::{Action, Schemas, Validate, Xslt};
use config::{
    Decode as _, DefinitionAt, FilePath, Map, MessageSide, Report, Route, RouteHost, Spanned,
    ValidateStep, XsltStep,
};
use mediation::json_schema::Schema;
use plan::Slots;
use xsd::{Directory, Limits, SchemaSet};

use super::steps::{StepKind, StepPlace};
use super::{Compiler, Namespaces, labels};
use crate::files;
use crate::policies::xslt;
use crate::policy::RouteScope;

/// The bound on the total size of the schema documents of one set.
const SCHEMA_BYTES_MAX: u64 = 16 << 20;

impl StepKind for XsltStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.xslt(self, place.namespaces)?))
    }

    fn subject(&self) -> String {
        labels::file(&self.stylesheet.value.to_string())
    }
}

impl StepKind for ValidateStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.validate(self, place)?))
    }

    fn subject(&self) -> String {
        let schema = self.schema.iter().chain(&self.json_schema).next();
        let path = schema.map(|schema| schema.value.as_path().to_string_lossy());
        path.map_or_else(String::new, |path| labels::file(&path))
    }
}

impl<'a> Compiler<'a, '_> {
    fn validate(&mut self, keys: &'a ValidateStep, place: &StepPlace<'a, '_>) -> Option<Validate> {
        let StepPlace { step, namespaces, depth } = *place;
        let schema = match (&keys.schema, &keys.json_schema) {
            (Some(file), None) => self.xml_schema(file),
            (None, Some(file)) => self.json_schema(file),
            (None, None) | (Some(_), Some(_)) => {
                let what = "`validate` needs exactly one schema";
                self.report.error(step.at, what, "write `schema: FILE.xsd` or `json_schema: FILE`");
                None
            }
        };
        let of = match &keys.of {
            Some(of) => self.finder(of, namespaces).map(Some),
            None => Some(None),
        };
        let otherwise = match &keys.otherwise {
            Some(steps) => self.inner("else", steps, namespaces, depth).map(Some),
            None => Some(None),
        };
        Some(Validate { schema: schema?, of: of?, otherwise: otherwise? })
    }

    fn xslt(&mut self, keys: &'a XsltStep, namespaces: &Namespaces) -> Option<Xslt> {
        let of = match &keys.of {
            Some(of) => Some(self.expression(of, namespaces)?),
            None => None,
        };
        let mut fixed = Map::default();
        let mut parameters = Vec::new();
        for (name, text) in keys.parameters.iter() {
            let expression = self.expression(text, namespaces)?;
            match expression.literal() {
                Some(literal) => drop(fixed.add(name.clone(), literal.to_owned())),
                None => parameters.push((name.value.as_str().into(), expression)),
            }
        }
        let keys = config::Xslt {
            side: Spanned::unwritten(MessageSide::Request),
            stylesheet: keys.stylesheet.clone(),
            fetch: None,
            engine: keys.engine,
            parameters: fixed.clone(),
            output: None,
            strip_empty_namespaces: false,
            bad_definitions: None,
            verbose: false,
            body_bytes_max: config::Size(16 << 20),
        };
        if let DefinitionAt::Url(_) = keys.stylesheet.value {
            let help = "name a file";
            self.report.error(keys.stylesheet.at, "a flow cannot fetch stylesheets", help);
            return None;
        }
        let transformation =
            self.in_scope(|place, report| xslt::transformation(&keys, place, report))?;
        if !parameters.is_empty() && !xslt::is_native(&transformation) {
            let what = "parameters of a stylesheet for Saxon must be fixed texts";
            self.report.error(keys.stylesheet.at, what, "write a text, or use `engine: native`");
            return None;
        }
        if !parameters.is_empty() {
            // Fixed parameters become expressions, too, so that all parameters are passed in one way.
            for (name, text) in fixed.iter() {
                let text = config::ExpressionText {
                    language: config::ExpressionLanguage::Text,
                    text: Spanned::unwritten(text.clone()),
                    required: false,
                };
                parameters.push((name.value.as_str().into(), self.expression(&text, namespaces)?));
            }
        }
        Some(Xslt { transformation, parameters, of })
    }

    /// Calls `work` with the scope of a policy on a route that has only default settings.
    fn in_scope<T>(
        &mut self,
        work: impl FnOnce(&mut RouteScope<'_, '_>, &mut Report) -> T,
    ) -> Option<T> {
        let route = plain_route()?;
        let (mut diversions, mut operations, mut slots) =
            (Vec::new(), Vec::new(), Slots::default());
        let mut place = RouteScope {
            route: "",
            config: self.config,
            of: &route,
            builder: self.builder,
            diversions: &mut diversions,
            operations: &mut operations,
            slots: &mut slots,
            at: 0,
        };
        Some(work(&mut place, self.report))
    }

    /// Compiles an XML schema. Its imports are read from the folder of its file.
    fn xml_schema(&mut self, file: &Spanned<FilePath>) -> Option<Schemas> {
        let bytes = files::read_document(file, self.report)?;
        let path = file.value.as_path();
        let folder = path.parent().unwrap_or(Path::new("."));
        let resolver = Directory::new(folder, SCHEMA_BYTES_MAX);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut set = SchemaSet::new(&resolver, Limits::default());
        // Harmless: a file that was read has a name.
        set.add_bytes(&bytes, &name.unwrap_or_default());
        match set.compile() {
            Ok(schema) => Some(Schemas::Xml(Arc::new(schema))),
            Err(complaints) => {
                for complaint in complaints {
                    self.report.error(file.at, complaint.to_string(), "correct the schema");
                }
                None
            }
        }
    }

    /// Compiles a JSON Schema, which must be self-contained.
    fn json_schema(&mut self, file: &Spanned<FilePath>) -> Option<Schemas> {
        files::json_schema(file, Schema::self_contained, self.report).map(Schemas::Json)
    }
}

/// Returns a route with only default settings.
fn plain_route() -> Option<Route> {
    Some(Route {
        matches: Spanned::unwritten(config::Match::absent()?),
        strip_prefix: None,
        rewrite: None,
        host: Spanned::unwritten(RouteHost::Preserve),
        limits: config::RouteLimits::absent()?,
        streams: config::RouteStreams::absent()?,
        policies: Vec::new(),
        defaults: false,
        errors: config::Errors::Problem,
        upstream: None,
        flow: None,
        hub: None,
        services: config::RouteServices::absent()?,
        mirror: None,
        respond: None,
    })
}
