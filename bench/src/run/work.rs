//! Converts the work of a scenario for other gateways, with the addresses and files of this run.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::servers::Ground;
use crate::peers::{ForwardedPath, Issuer, PeerKind, Route, SoapStep, Task, Work};
use crate::scenarios::Scenario;
use crate::scenarios::file::{self, PeerRoute, PeerTask};

/// Returns the work. If it has no routes, other gateways do not do it.
///
/// # Errors
///
/// If a backend that it names does not exist.
pub(super) fn work(
    scenario: &Scenario,
    addresses: &BTreeMap<String, SocketAddr>,
    ground: &Ground,
) -> io::Result<Work> {
    let backend = |name: &str| {
        let missing = || io::Error::other(format!("there is no backend `{name}`"));
        addresses.get(name).copied().ok_or_else(missing)
    };
    let file = |name: &str| ground.scenario_file(scenario, name);
    Places { backend: &backend, file: &file, jwks: ground.jwks() }.work(scenario)
}

/// Returns true if a peer can do the work of a scenario. Nothing is started.
#[must_use]
pub fn can_do(peer: PeerKind, scenario: &Scenario) -> bool {
    let backend = |_: &str| Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let file = |name: &str| PathBuf::from(name);
    let work = Places { backend: &backend, file: &file, jwks: PathBuf::new() }.work(scenario);
    work.is_ok_and(|work| !work.routes.is_empty() && peer.cannot(&work).is_none())
}

/// Where the things are that a scenario names.
struct Places<'a> {
    backend: &'a dyn Fn(&str) -> io::Result<SocketAddr>,
    file: &'a dyn Fn(&str) -> PathBuf,
    /// The keys of the test issuer.
    jwks: PathBuf,
}

impl Places<'_> {
    fn work(&self, scenario: &Scenario) -> io::Result<Work> {
        let routes = scenario.own.peers.iter().map(|route| self.route(route));
        Ok(Work { routes: routes.collect::<io::Result<_>>()? })
    }

    fn route(&self, route: &PeerRoute) -> io::Result<Route> {
        let path = match route.forwarded.as_str() {
            "same" => ForwardedPath::Same,
            "stripped" => ForwardedPath::Stripped,
            path => ForwardedPath::Fixed(path.to_owned()),
        };
        let steps = |steps: &[file::SoapStep]| steps.iter().map(|step| self.step(step)).collect();
        let task = match route.task {
            PeerTask::Forward => Task::Forward,
            PeerTask::Stream => Task::Stream,
            PeerTask::Calls => Task::Calls,
            PeerTask::Intercept => Task::Intercept { service: (self.backend)(&route.name)? },
            PeerTask::Soap => {
                let request: io::Result<_> = steps(&route.request);
                let response: io::Result<_> = steps(&route.response);
                Task::Soap { request: request?, response: response? }
            }
            PeerTask::Flow => Task::Flow(route.name.clone()),
            PeerTask::Ours => Task::Ours(route.name.clone()),
        };
        let issuer = Issuer { name: "https://bench.test".to_owned(), jwks: self.jwks.clone() };
        Ok(Route {
            prefix: route.prefix.clone(),
            path,
            backend: (self.backend)(&route.backend.value)?,
            issuer: route.jwt.then_some(issuer),
            task,
        })
    }

    fn step(&self, step: &file::SoapStep) -> io::Result<SoapStep> {
        let file::SoapStep { validate, action, transform, transform_later, route } = step;
        Ok(match (validate, action, transform, transform_later, route) {
            (Some(file), ..) => SoapStep::Validate((!file.is_empty()).then(|| (self.file)(file))),
            (_, Some(file), ..) => SoapStep::Action((self.file)(file)),
            (_, _, Some(file), ..) => SoapStep::Transform((self.file)(file)),
            (_, _, _, Some(file), _) => SoapStep::TransformLater((self.file)(file)),
            (.., Some(route)) => SoapStep::Route {
                namespaces: route
                    .namespaces
                    .iter()
                    .map(|(name, uri)| (name.value.clone(), uri.clone()))
                    .collect(),
                xpath: route.xpath.clone(),
                equals: route.equals.clone(),
                backend: (self.backend)(&route.backend.value)?,
            },
            _ => return Err(io::Error::other("a step of `soap` must have one key")),
        })
    }
}
