//! nginx: forwarding, streams, and SOAP messages by libxml2 and libxslt in a module of ours (bench/peers/nginx-xml).

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::{ForwardedPath, Place, Plan, Route, SoapStep, Task, Work, said, tool, user};

pub(super) fn cannot(route: &Route) -> Option<&'static str> {
    if route.issuer.is_some() {
        return Some("nginx without a subscription checks no tokens");
    }
    match &route.task {
        Task::Forward | Task::Stream | Task::Calls => None,
        Task::Soap { request, response } => {
            let mut steps = request.iter().chain(response);
            let is_later = steps.any(|step| matches!(step, SoapStep::TransformLater(_)));
            is_later.then_some("libxslt knows XSLT 1.0")
        }
        Task::Flow(name) => {
            (!matches!(name.as_str(), "DirectProxy" | "DirectAPI")).then_some("nginx has no flows")
        }
        Task::Intercept { .. } => Some("nginx changes no request by what a service says"),
        Task::Ours(_) => Some("nginx has nothing like it"),
    }
}

/// Returns true if a route has a schema, a description or a stylesheet.
pub(super) fn has_definitions(route: &Route) -> bool {
    matches!(&route.task, Task::Soap { request, response } if !request.is_empty() || !response.is_empty())
}

pub(super) fn version() -> Option<String> {
    let version = said("nginx", &["-v"])?;
    let libraries = tool("peers/nginx/versions");
    let libraries =
        libraries.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let version = version.rsplit('/').next()?.to_owned();
    match libraries.trim() {
        "" => Some(version),
        libraries => Some(format!("{version} with {libraries}")),
    }
}

/// `compiles` says whether definitions are compiled for each message.
pub(super) fn plan(work: &Work, place: &Place<'_>, compiles: bool) -> io::Result<Plan> {
    let file = place.write("nginx.conf", &text(work, place, compiles)?)?;
    let program = super::program("nginx").ok_or(io::ErrorKind::NotFound)?;
    let mut command = place.command(&program);
    command.arg("-p").arg(place.folder).arg("-c").arg(file);
    Ok(Plan { command, gc_log: None, helpers: Vec::new() })
}

fn text(work: &Work, place: &Place<'_>, compiles: bool) -> io::Result<String> {
    let folder = place.folder.display();
    let mut upstreams = String::new();
    let mut locations = String::new();
    for (number, route) in work.routes.iter().enumerate() {
        upstreams += &upstream(&format!("ends{number}"), route.backend);
        locations += &location(number, route, compiles, &mut upstreams)?;
    }
    let is_soap = work.routes.iter().any(|route| matches!(route.task, Task::Soap { .. }));
    let module =
        if is_soap { format!("load_module {};\n", module()?.display()) } else { String::new() };
    let tls = place.ground.tls.as_ref().map(|tls| {
        let (certificate, key) = (tls.certificate.display(), tls.key.display());
        format!(
            "    ssl_certificate {certificate};\n    ssl_certificate_key {key};\n    ssl_protocols TLSv1.2 TLSv1.3;\n"
        )
    });
    let door = match (&tls, place.ground.http2) {
        (Some(_), _) => " ssl http2",
        (None, true) => " http2",
        (None, false) => "",
    };
    Ok(format!(
        r"{module}user {user};
worker_processes {workers};
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log error;
worker_rlimit_nofile 65536;
events {{ worker_connections 16000; use epoll; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_timeout 300s;
  keepalive_requests 1000000000;
  http2_max_concurrent_streams 256;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  client_max_body_size 16m;
  # With the defaults a body of 100 KiB would be written to a file.
  client_body_buffer_size 128k;
  proxy_buffers 16 8k;
  map $http_upgrade $passed_connection {{ default upgrade; '' ''; }}
{upstreams}  server {{
    listen {listener}{door} backlog=4096;
{tls}{locations}  }}
}}
",
        user = user()?,
        workers = place.ground.workers,
        listener = place.listener(),
        tls = tls.unwrap_or_default(),
    ))
}

fn upstream(name: &str, backend: std::net::SocketAddr) -> String {
    format!(
        "  upstream {name} {{ server {backend}; keepalive 1024; keepalive_requests 1000000000; keepalive_timeout 300s; }}\n"
    )
}

fn location(
    number: usize,
    route: &Route,
    compiles: bool,
    upstreams: &mut String,
) -> io::Result<String> {
    if matches!(route.task, Task::Calls) {
        let lines = "grpc_read_timeout 1h;\n      grpc_send_timeout 1h;";
        return Ok(format!(
            "    location {} {{\n      grpc_pass grpc://ends{number};\n      {lines}\n    }}\n",
            route.prefix
        ));
    }
    let mut lines =
        vec!["proxy_http_version 1.1".to_owned(), "proxy_set_header Host $host".to_owned()];
    match &route.path {
        ForwardedPath::Same => {}
        ForwardedPath::Stripped => {
            lines.push(format!("rewrite ^{}/?(.*)$ /$1 break", route.prefix.trim_end_matches('/')));
        }
        ForwardedPath::Fixed(path) => lines.push(format!("rewrite ^ {path} break")),
    }
    if matches!(route.task, Task::Stream) {
        lines.push("proxy_set_header Upgrade $http_upgrade".to_owned());
        lines.push("proxy_set_header Connection $passed_connection".to_owned());
        lines.push("proxy_buffering off".to_owned());
        lines.push("proxy_read_timeout 1h".to_owned());
        lines.push("proxy_send_timeout 1h".to_owned());
    } else {
        lines.push("proxy_set_header Connection ''".to_owned());
    }
    let mut backend = format!("ends{number}");
    if let Task::Soap { request, response } = &route.task {
        let envelope = module()?.with_file_name("envelope11.xsd");
        // The module reads uncompressed replies only.
        lines.push("proxy_set_header Accept-Encoding ''".to_owned());
        if compiles {
            lines.push("xml_compile_each on".to_owned());
        }
        for (side, steps) in [("request", request), ("response", response)] {
            for (at, step) in steps.iter().enumerate() {
                let name = format!("ends{number}_{at}");
                lines.extend(directive(side, step, &name, &envelope));
                if let SoapStep::Route { backend, .. } = step {
                    *upstreams += &upstream(&name, *backend);
                }
            }
        }
        if request.iter().any(|step| matches!(step, SoapStep::Route { .. })) {
            lines.push(format!("xml_otherwise {backend}"));
            "$xml_backend".clone_into(&mut backend);
        }
    }
    lines.push(format!("proxy_pass http://{backend}"));
    let mut text = format!("    location {} {{\n", route.prefix);
    for line in lines {
        // Harmless: writing to a string cannot fail.
        _ = writeln!(text, "      {line};");
    }
    Ok(text + "    }\n")
}

/// Returns the module's directive for a step. `name` is the upstream group of the step's backend.
fn directive(side: &str, step: &SoapStep, name: &str, envelope: &Path) -> Option<String> {
    let envelope = envelope.display();
    match step {
        SoapStep::Validate(None) => Some(format!("xml_validate {side} {envelope}")),
        SoapStep::Validate(Some(schema)) => {
            Some(format!("xml_validate {side} {envelope} {}", schema.display()))
        }
        SoapStep::Action(wsdl) => Some(format!("xml_action {}", wsdl.display())),
        SoapStep::Transform(sheet) => Some(format!("xml_transform {side} {}", sheet.display())),
        SoapStep::Route { namespaces, xpath, equals, .. } => {
            let names: Vec<String> =
                namespaces.iter().map(|(prefix, uri)| format!(" {prefix}={uri}")).collect();
            Some(format!("xml_route \"{xpath}\" \"{equals}\" {name}{}", names.concat()))
        }
        // `cannot` has refused this step.
        SoapStep::TransformLater(_) => None,
    }
}

fn module() -> io::Result<PathBuf> {
    let missing = || io::Error::other("the module of nginx for XML is not built: `make peers`");
    tool("peers/nginx/ngx_http_xml_steps_module.so").ok_or_else(missing)
}
