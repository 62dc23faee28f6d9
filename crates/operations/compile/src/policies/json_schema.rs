//! Compiles `json_schema`.

use config::{FilePath, JsonSchema, Report, SchemaParameter, SchemaPlace, Spanned};
use mediation::json_schema::{Schema, Schemas};
use policies::json_schema::{self, JsonSchemaSettings, ParameterPlace, ParameterRule};

use super::{Access, Facts, PolicyKind, PolicyPlace};
use crate::listeners::bytes;
use crate::policy::RouteScope;
use crate::{files, names, templates};

impl PolicyKind for JsonSchema {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        if written.intact && self.body.is_none() && self.parameters.is_empty() {
            let help = "write `body: FILE` or `parameters`, or remove it";
            report.error(written.at, "the policy validates nothing", help);
        }
        let of_path = templates::parameters(&place.of.matches.value);
        let rules = self.parameters.iter().filter(|written| written.intact);
        // Harmless: a parameter that cannot be found has a complaint.
        let parameters = rules.filter_map(|written| rule(&written.value, &of_path, report));
        let parameters = parameters.collect();
        json_schema::policy(JsonSchemaSettings {
            body: self.body.as_ref().and_then(|file| schema(file, report)),
            types: self.types.0.iter().map(|kind| kind.to_ascii_lowercase()).collect(),
            parameters,
            verbose: self.verbose,
            body_bytes_max: bytes(self.body_bytes_max),
        })
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts { access: Access::Guards, ..Facts::NONE }
    }
}

fn rule(
    written: &SchemaParameter,
    of_path: &[String],
    report: &mut Report,
) -> Option<ParameterRule> {
    let name = &written.name;
    let place = match written.place {
        SchemaPlace::Query => ParameterPlace::Query,
        SchemaPlace::Header => {
            names::header(&name.value, name.at, report)?;
            ParameterPlace::Header
        }
        SchemaPlace::Path => match of_path.iter().position(|known| *known == name.value) {
            Some(at) => ParameterPlace::Path(at),
            None => {
                let what = format!("the path has no parameter `{}`", name.value.escape_debug());
                report.error(name.at, what, "name it in `match.path`, such as `/orders/{id}`");
                return None;
            }
        },
    };
    Some(ParameterRule {
        name: name.value.clone(),
        place,
        required: written.required,
        schema: written.schema.as_ref().and_then(|file| schema(file, report)),
    })
}

fn schema(file: &Spanned<FilePath>, report: &mut Report) -> Option<Schema> {
    files::json_schema(file, |schema| Schemas::new([], true)?.compile(schema), report)
}
