//! Compiles `grpc_json`: reads the descriptors, and finds the paths of the offered methods.

use std::sync::Arc;

use ::policies::grpc_json::{self, GROWTH_MAX, GrpcJsonSettings, StreamForm};
use config::{FieldNames, GrpcJson, GrpcStream, Report};
use protobuf::{Bindings, JsonStyle, Schema, Service, Transcoder};

use super::{Facts, PolicyKind, PolicyPlace, grpc_web, or_nothing};
use crate::listeners::bytes;
use crate::policy::RouteScope;
use crate::{files, names, paths};

impl PolicyKind for GrpcJson {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        grpc_web::check_upstreams(written, place, report);
        or_nothing(build(self, place, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts { tells_operations: true, ..Facts::NONE }
    }
}

fn build(
    keys: &GrpcJson,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<plan::Policy> {
    let prefix = prefix(keys, report);
    let schema = schema(keys, place, report)?;
    let services = services(keys, &schema, report)?;
    let bindings = match Bindings::new(&schema, &services) {
        Ok(bindings) => bindings,
        Err(errors) => {
            let help = "correct the definition, and compile it again with `protoc`";
            for error in errors {
                report.error(keys.descriptors.at, error, help);
            }
            return None;
        }
    };
    let targets = bindings.all().iter().map(|binding| binding.target.trim_start_matches('/'));
    let counted = targets.map(|name| place.operation(name)).collect();
    let body_bytes_max = bytes(keys.body_bytes_max);
    let transcoder = Transcoder {
        schema,
        bindings,
        style: JsonStyle {
            proto_names: keys.field_names == FieldNames::Proto,
            defaults: keys.defaults,
        },
        ignored: keys.ignore_query.iter().map(|name| name.value.as_str().into()).collect(),
        bytes_max: body_bytes_max.saturating_mul(GROWTH_MAX),
    };
    let settings = GrpcJsonSettings {
        transcoder: Arc::new(transcoder),
        prefix: prefix.into(),
        counted,
        stream: match keys.stream {
            GrpcStream::Array => StreamForm::Array,
            GrpcStream::Ndjson => StreamForm::Lines,
            GrpcStream::Events => StreamForm::Events,
        },
        body_bytes_max,
    };
    Some(grpc_json::policy(settings, place.slots))
}

/// Reads the descriptors. They are taken over from another route or from the previous plan if the file has not changed.
fn schema(
    keys: &GrpcJson,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<Arc<Schema>> {
    let file = &keys.descriptors;
    let set = files::read_document(file, report)?;
    let content = kit::hash::fixed(&set);
    let key = format!("grpc_json {content:x} {}", set.len());
    match place.builder.try_reuse_or_build(&key, || Schema::read(&set).map(Arc::new)) {
        Ok(schema) => Some(schema),
        Err(errors) => {
            let help = "write it with `protoc --include_imports --descriptor_set_out=FILE`";
            for error in errors {
                let path = file.value.as_path().display();
                report.error(file.at, format!("`{path}`: {error}"), help);
            }
            None
        }
    }
}

/// Returns the names of the offered services. Complains about unknown ones, and if there is none.
fn services<'k>(
    keys: &'k GrpcJson,
    schema: &'k Schema,
    report: &mut Report,
) -> Option<Vec<&'k str>> {
    let known = || schema.services().iter().map(|service: &Service| &*service.name);
    if keys.services.is_empty() {
        let all: Vec<&str> = known().collect();
        if all.is_empty() {
            let help = "name the file that has the services";
            report.error(keys.descriptors.at, "the descriptors have no service", help);
            return None;
        }
        return Some(all);
    }
    let mut wanted = Vec::new();
    for name in &keys.services {
        if known().any(|known| known == name.value) {
            wanted.push(name.value.as_str());
        } else {
            let meant = report.suggest(&name.value, known());
            let what = names::unknown("service in the descriptors", &name.value, meant);
            report.error(name.at, what, "write it with its package, such as `shop.v1.Orders`");
        }
    }
    Some(wanted)
}

/// Returns the prefix of every path, without a slash at its end.
fn prefix(keys: &GrpcJson, report: &mut Report) -> String {
    let Some(written) = &keys.prefix else { return String::new() };
    if !paths::is_target(&written.value) || written.value.contains(['?', '{', '*']) {
        let what = format!("`{}` is not a path", written.value.escape_debug());
        report.error(written.at, what, "write it as it is sent, such as `/api`");
    }
    paths::as_matched(written.value.trim_end_matches('/'))
}
