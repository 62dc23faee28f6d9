//! Compiles `correlation`.

use ::policies::correlation::{self, Generator};
use config::{Correlation, CorrelationGenerator, Report};

use super::{PolicyKind, PolicyPlace, or_nothing};
use crate::names;
use crate::policy::RouteScope;

impl PolicyKind for Correlation {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        or_nothing(build(self, place, report))
    }
}

fn build(
    keys: &Correlation,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<plan::Policy> {
    let header = names::changeable_header(&keys.header.value, keys.header.at, report)?;
    let generator = match keys.generator {
        CorrelationGenerator::Uuid => Generator::Uuid,
        CorrelationGenerator::Counter => Generator::Counter,
        CorrelationGenerator::Tracker => Generator::Tracker,
    };
    Some(correlation::policy(&header, generator, keys.echo, place.slots))
}
