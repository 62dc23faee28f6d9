//! Converts the work of a scenario for other gateways, with the addresses and files of this run.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::servers::Ground;
use crate::peers::{ForwardedPath, Issuer, Route, SoapStep, Task, Work};
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
    let at = Places { scenario, addresses, ground };
    let routes = scenario.own.peers.iter().map(|route| at.route(route));
    Ok(Work { routes: routes.collect::<io::Result<_>>()? })
}

struct Places<'a> {
    scenario: &'a Scenario,
    addresses: &'a BTreeMap<String, SocketAddr>,
    ground: &'a Ground,
}

impl Places<'_> {
    fn backend(&self, name: &str) -> io::Result<SocketAddr> {
        let missing = || io::Error::other(format!("there is no backend `{name}`"));
        self.addresses.get(name).copied().ok_or_else(missing)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.ground.scenario_file(self.scenario, name)
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
            PeerTask::Intercept => Task::Intercept { service: self.backend(&route.name)? },
            PeerTask::Soap => {
                let request: io::Result<_> = steps(&route.request);
                let response: io::Result<_> = steps(&route.response);
                Task::Soap { request: request?, response: response? }
            }
            PeerTask::Flow => Task::Flow(route.name.clone()),
            PeerTask::Ours => Task::Ours(route.name.clone()),
        };
        let issuer = Issuer { name: "https://bench.test".to_owned(), jwks: self.ground.jwks() };
        Ok(Route {
            prefix: route.prefix.clone(),
            path,
            backend: self.backend(&route.backend.value)?,
            issuer: route.jwt.then_some(issuer),
            task,
        })
    }

    fn step(&self, step: &file::SoapStep) -> io::Result<SoapStep> {
        let file::SoapStep { validate, action, transform, transform_later, route } = step;
        Ok(match (validate, action, transform, transform_later, route) {
            (Some(file), ..) => SoapStep::Validate((!file.is_empty()).then(|| self.file(file))),
            (_, Some(file), ..) => SoapStep::Action(self.file(file)),
            (_, _, Some(file), ..) => SoapStep::Transform(self.file(file)),
            (_, _, _, Some(file), _) => SoapStep::TransformLater(self.file(file)),
            (.., Some(route)) => SoapStep::Route {
                namespaces: route
                    .namespaces
                    .iter()
                    .map(|(name, uri)| (name.value.clone(), uri.clone()))
                    .collect(),
                xpath: route.xpath.clone(),
                equals: route.equals.clone(),
                backend: self.backend(&route.backend.value)?,
            },
            _ => return Err(io::Error::other("a step of `soap` must have one key")),
        })
    }
}
