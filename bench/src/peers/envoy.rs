//! Envoy: forwarding, streams, tokens by `jwt_authn`, and interceptors by Lua, `ext_authz` or `ext_proc`.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process::Process;

use super::{ForwardedPath, PeerKind, Place, Plan, Route, Task, Work, said};

const PROCESSOR_READY_MAX: Duration = Duration::from_secs(30);
/// Calls the interceptor as Choreo Connect's router does.
const LUA: &str = include_str!("../../peers/intercept.lua");

pub(super) fn cannot(route: &Route) -> Option<&'static str> {
    match &route.task {
        Task::Forward | Task::Stream | Task::Calls | Task::Intercept { .. } => None,
        Task::Flow(name) => {
            (!matches!(name.as_str(), "DirectProxy" | "DirectAPI")).then_some("Envoy has no flows")
        }
        Task::Soap { .. } => Some("Envoy does not read XML"),
        Task::Ours(_) => Some("Envoy has nothing like it"),
    }
}

pub(super) fn version() -> Option<String> {
    let said = said("envoy", &["--version"])?;
    // FILE  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL
    let (_, version) = said.split_once("version: ")?;
    version.split('/').nth(1).map(str::to_owned)
}

/// Returns `tidegate-bench`, which serves `ext_proc`: this program, or in tests the one in the same build folder.
pub(super) fn processor() -> Option<PathBuf> {
    let ours = std::env::current_exe().ok()?;
    let mut folders = ours.ancestors().skip(1).take(2);
    folders.find_map(|folder| folder.join("tidegate-bench").canonicalize().ok())
}

/// Starts the service of `ext_proc`, and waits for its address.
fn start_processor(place: &Place<'_>) -> io::Result<(Process, SocketAddr)> {
    let mut command = Command::new(processor().ok_or(io::ErrorKind::NotFound)?);
    command.arg("ext-proc").stdin(Stdio::null());
    let log = place.folder.join("ext-proc.log");
    let mut process = Process::start(command, &log)?;
    let find = |text: &str| text.lines().next()?.parse().ok();
    let address = process.wait_for(&log, PROCESSOR_READY_MAX, find).map_err(|error| {
        io::Error::new(error.kind(), format!("the service of ext_proc: {error}"))
    })?;
    Ok((process, address))
}

pub(super) fn plan(kind: PeerKind, work: &Work, place: &Place<'_>) -> io::Result<Plan> {
    let is_proc = kind == PeerKind::EnvoyProc;
    let processor = is_proc.then(|| start_processor(place)).transpose()?;
    let at = processor.as_ref().map(|(_, address)| *address);
    let file = place.write("envoy.yaml", &text(kind, work, at, place)?)?;
    let program = super::program("envoy").ok_or(io::ErrorKind::NotFound)?;
    let mut command = place.command(&program);
    command.arg("--concurrency").arg(place.ground.workers.to_string());
    command.args(["--log-level", "error", "--disable-hot-restart", "--config-path"]).arg(file);
    let helpers = processor.into_iter().map(|(process, _)| process).collect();
    Ok(Plan { command, gc_log: None, helpers })
}

fn text(
    kind: PeerKind,
    work: &Work,
    processor: Option<SocketAddr>,
    place: &Place<'_>,
) -> io::Result<String> {
    let mut clusters = processor.map_or(String::new(), |at| cluster("processor", at) + HTTP2);
    let mut routes = String::new();
    for (number, route) in work.routes.iter().enumerate() {
        clusters += &cluster(&format!("ends{number}"), route.backend);
        if matches!(route.task, Task::Calls) {
            clusters += HTTP2;
        }
        if let Task::Intercept { service } = &route.task {
            clusters += &cluster(&format!("interceptor{number}"), *service);
        }
        routes += &self::route(kind, number, route);
    }
    let (host, port, tls) = (place.ground.host, place.port, tls(place));
    Ok(format!(
        r#"node: {{ id: bench, cluster: bench }}
static_resources:
  listeners:
  - name: door
    address: {{ socket_address: {{ address: "{host}", port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: door
          stream_idle_timeout: 3600s
          upgrade_configs: [{{ upgrade_type: websocket }}]
          http_filters:
{filters}          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
{routes}{tls}  clusters:
{clusters}"#,
        filters = filters(kind, work),
    ))
}

fn tls(place: &Place<'_>) -> String {
    let tls = place.ground.tls.as_ref();
    tls.map_or(String::new(), |tls| downstream_tls(&tls.certificate, &tls.key))
}

/// Returns the lines of a filter chain for clients with TLS.
#[must_use]
fn downstream_tls(certificate: &Path, key: &Path) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    format!(
        r#"      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            tls_certificates: [{{ certificate_chain: {{ filename: "{certificate}" }}, private_key: {{ filename: "{key}" }} }}]
"#
    )
}

fn cluster(name: &str, address: SocketAddr) -> String {
    let (host, port) = (address.ip(), address.port());
    format!(
        r#"  - name: {name}
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {{ thresholds: [{{ max_connections: 100000, max_pending_requests: 100000, max_requests: 100000 }}] }}
    load_assignment:
      cluster_name: {name}
      endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: "{host}", port_value: {port} }} }} }} }}] }}]
"#
    )
}

/// Lines that make the preceding cluster use HTTP/2.
const HTTP2: &str = r#"    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
"#;

/// Returns the filters: first for tokens, then for the interceptor.
fn filters(kind: PeerKind, work: &Work) -> String {
    let mut providers = String::new();
    let mut rules = String::new();
    let mut interceptors = String::new();
    for (number, route) in work.routes.iter().enumerate() {
        let prefix = &route.prefix;
        if let Some(issuer) = &route.issuer {
            let (name, jwks) = (&issuer.name, issuer.jwks.display());
            providers += &format!(
                "                issuer{number}: {{ issuer: \"{name}\", local_jwks: {{ filename: \"{jwks}\" }} }}\n"
            );
            rules += &format!(
                "              - {{ match: {{ prefix: \"{prefix}\" }}, requires: {{ provider_name: issuer{number} }} }}\n"
            );
        }
        if matches!(route.task, Task::Intercept { .. }) && interceptors.is_empty() {
            interceptors = interceptor(kind, number);
        }
    }
    let mut text = String::new();
    if !providers.is_empty() {
        text += &format!(
            r#"          - name: envoy.filters.http.jwt_authn
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
              providers:
{providers}              rules:
{rules}"#
        );
    }
    text + &interceptors
}

fn interceptor(kind: PeerKind, number: usize) -> String {
    match kind {
        PeerKind::EnvoyProc => r#"          - name: envoy.filters.http.ext_proc
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
              grpc_service: { envoy_grpc: { cluster_name: processor }, timeout: 2s }
              message_timeout: 2s
              processing_mode: { request_header_mode: SEND, request_body_mode: BUFFERED, response_header_mode: SKIP }
"#
        .to_owned(),
        PeerKind::EnvoyAuthz => format!(
            r#"          - name: envoy.filters.http.ext_authz
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
              http_service:
                server_uri: {{ uri: "http://interceptor", cluster: interceptor{number}, timeout: 2s }}
                # The request's own path becomes a query that the service does not read.
                path_prefix: "/api/v1/handle-request?"
                authorization_response: {{ allowed_upstream_headers: {{ patterns: [{{ exact: x-intercepted }}] }} }}
              with_request_body: {{ max_request_bytes: 1048576, allow_partial_message: false }}
"#
        ),
        PeerKind::Envoy
        | PeerKind::Nginx
        | PeerKind::NginxCompiles
        | PeerKind::Haproxy
        | PeerKind::Synapse
        | PeerKind::Spring => r#"          - name: envoy.filters.http.lua
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua }
"#
        .to_owned(),
    }
}

/// Returns a route's lines about the interceptor. With Lua, routes that have one name it. With the other interceptors, routes without one
/// disable it.
fn of_interceptor(kind: PeerKind, number: usize, route: &Route) -> String {
    const PER_ROUTE: &str = "                typed_per_filter_config:\n                  ";
    let off = |filter: &str, message: &str| {
        format!(
            "{PER_ROUTE}envoy.filters.http.{filter}: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.{filter}.v3.{message}, disabled: true }}\n"
        )
    };
    match (kind, matches!(route.task, Task::Intercept { .. })) {
        (PeerKind::EnvoyAuthz, false) => off("ext_authz", "ExtAuthzPerRoute"),
        (PeerKind::EnvoyProc, false) => off("ext_proc", "ExtProcPerRoute"),
        (PeerKind::Envoy, true) => {
            let lua = LUA.replace("CLUSTER", &format!("interceptor{number}"));
            let lua: Vec<String> =
                lua.lines().map(|line| format!("                        {line}\n")).collect();
            format!(
                "{PER_ROUTE}envoy.filters.http.lua:\n                    \"@type\": type.googleapis.com/envoy.extensions.filters.http.lua.v3.LuaPerRoute\n                    source_code:\n                      inline_string: |\n{}",
                lua.concat()
            )
        }
        _ => String::new(),
    }
}

fn route(kind: PeerKind, number: usize, route: &Route) -> String {
    let prefix = &route.prefix;
    let rewrite = match &route.path {
        ForwardedPath::Same => String::new(),
        ForwardedPath::Stripped => {
            let prefix = prefix.trim_end_matches('/');
            format!(
                ", regex_rewrite: {{ pattern: {{ regex: \"^{prefix}/?\" }}, substitution: \"/\" }}"
            )
        }
        ForwardedPath::Fixed(path) => {
            format!(
                ", regex_rewrite: {{ pattern: {{ regex: \"^/[^?]*\" }}, substitution: \"{path}\" }}"
            )
        }
    };
    let time = if matches!(route.task, Task::Stream) { "0s" } else { "120s" };
    format!(
        "              - match: {{ prefix: \"{prefix}\" }}\n                route: {{ cluster: ends{number}, timeout: {time}{rewrite} }}\n{}",
        of_interceptor(kind, number, route)
    )
}
