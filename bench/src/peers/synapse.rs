//! Apache Synapse, the engine under Micro Integrator: the flows of document 004.

use std::io;

use super::{Place, Plan, Route, Task, Work, jars};

/// The flows in bench/synapse/conf/synapse.xml, by the reference's names.
const FLOWS: &[&str] = &[
    "DirectProxy",
    "DirectAPI",
    "XSLTProxy",
    "MessageBuildingProxy",
    "CloneAndAggregateWithTwoBackendProxy",
    "CloneAndAggregateWithFourBackendProxy",
    "CloneAndAggregateWithEightBackendProxy",
    "EnrichBackAndForthProxy",
    "CBRProxy",
    "CBRSOAPHeaderProxy",
    "CBRTransportHeaderProxy",
    "IterateAndAggregateProxy",
    "XSLTTransformProxy",
    "PayloadFactoryWith20ElementsProxy",
    "PayloadFactoryWith50ElementsProxy",
    "PayloadFactoryWith100ElementsProxy",
];

/// A path without a proxy, which Synapse answers with 202. A flow that fails answers nothing, and without a message most flows fail.
pub(super) const READY_PATH: &str = "/ready";

const AXIS2: &str = include_str!("../../synapse/conf/axis2.xml");
const LOG4J: &str = include_str!("../../synapse/conf/log4j.properties");
const PASSTHROUGH: &str = include_str!("../../synapse/conf/passthru-http.properties");
const SYNAPSE: &str = include_str!("../../synapse/conf/synapse.xml");

pub(super) fn cannot(route: &Route) -> Option<&'static str> {
    if route.issuer.is_some() {
        return Some("Synapse checks no tokens");
    }
    match &route.task {
        Task::Flow(name) if FLOWS.contains(&name.as_str()) => None,
        Task::Flow(_) => Some("no such flow is written for Synapse"),
        Task::Forward
        | Task::Stream
        | Task::Calls
        | Task::Intercept { .. }
        | Task::Soap { .. }
        | Task::Ours(_) => Some("Synapse runs flows"),
    }
}

pub(super) fn version() -> Option<String> {
    jars("peers/synapse", "synapse-core-").map(|(_, version)| version)
}

/// The proxies have the reference's paths, so the prefixes of the work are ignored.
pub(super) fn plan(work: &Work, place: &Place<'_>) -> io::Result<Plan> {
    if place.ground.tls.is_some() {
        return Err(io::Error::other("Synapse is measured without TLS, as in document 004"));
    }
    let backend = work.routes.first().map_or(0, |route| route.backend.port());
    let axis2 = AXIS2.replace("8280", &place.port.to_string());
    place.write("conf/axis2.xml", &axis2.replace("127.0.0.1", &place.ground.host.to_string()))?;
    place.write("conf/log4j.properties", LOG4J)?;
    place.write("conf/passthru-http.properties", PASSTHROUGH)?;
    place.write("conf/synapse.xml", &SYNAPSE.replace("@BE@", &backend.to_string()))?;
    place.write("repository/.keep", "")?;
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let (jars, _) = jars("peers/synapse", "synapse-core-").ok_or_else(missing)?;
    let (mut command, gc_log) = place.java(&format!("conf:{jars}"));
    command.args(["org.apache.synapse.SynapseServer", "repository", "conf/axis2.xml", "."]);
    command.arg("conf/synapse.xml");
    Ok(Plan { command, gc_log: Some(gc_log), helpers: Vec::new() })
}
