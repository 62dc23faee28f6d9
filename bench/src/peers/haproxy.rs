//! HAProxy: forwarding, streams, and tokens by its converters.

use std::fs;
use std::io;

use super::{ForwardedPath, Place, Plan, Route, Task, Work, keys, said};

pub(super) fn cannot(route: &Route) -> Option<&'static str> {
    match &route.task {
        Task::Forward | Task::Stream | Task::Calls => None,
        Task::Flow(name) => (!matches!(name.as_str(), "DirectProxy" | "DirectAPI"))
            .then_some("HAProxy has no flows"),
        Task::Intercept { .. } => Some("HAProxy changes no request by what a service says"),
        Task::Soap { .. } => Some("HAProxy does not look into bodies"),
        Task::Ours(_) => Some("HAProxy has nothing like it"),
    }
}

pub(super) fn version() -> Option<String> {
    let said = said("haproxy", &["-v"])?;
    said.split_whitespace()
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
        .map(str::to_owned)
}

pub(super) fn plan(work: &Work, place: &Place<'_>) -> io::Result<Plan> {
    let file = place.write("haproxy.cfg", &text(work, place)?)?;
    let program = super::program("haproxy").ok_or(io::ErrorKind::NotFound)?;
    let mut command = place.command(&program);
    command.arg("-db").arg("-f").arg(file);
    Ok(Plan { command, gc_log: None, helpers: Vec::new() })
}

fn text(work: &Work, place: &Place<'_>) -> io::Result<String> {
    let (mut uses, mut backends) = (String::new(), String::new());
    for (number, route) in work.routes.iter().enumerate() {
        uses += &format!("    use_backend ends{number} if {{ path_beg {} }}\n", route.prefix);
        backends += &backend(number, route, place)?;
    }
    let tls = match &place.ground.tls {
        None if place.ground.http2 => " proto h2".to_owned(),
        None => String::new(),
        Some(tls) => {
            let both = fs::read_to_string(&tls.certificate)? + &fs::read_to_string(&tls.key)?;
            let file = place.write("both.pem", &both)?;
            format!(" ssl crt {} alpn h2,http/1.1", file.display())
        }
    };
    Ok(format!(
        r"global
    nbthread {workers}
    maxconn 9000
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode http
    http-reuse always
    option http-no-delay
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout tunnel 1h
    timeout http-keep-alive 300s
frontend door
    bind {listener} backlog 4096{tls}
{uses}{backends}",
        workers = place.ground.workers,
        listener = place.listener(),
    ))
}

fn backend(number: usize, route: &Route, place: &Place<'_>) -> io::Result<String> {
    let mut text = format!("backend ends{number}\n");
    if let Some(issuer) = &route.issuer {
        let key = keys::read(&issuer.jwks)?;
        let file = place.write(&format!("issuer{number}.pem"), &key.pem)?;
        let (algorithm, file, name) = (key.algorithm, file.display(), &issuer.name);
        text += &format!(
            r#"    http-request set-var(txn.bearer) http_auth_bearer
    http-request set-var(txn.expiry) http_auth_bearer,jwt_payload_query('$.exp','int')
    http-request set-var(txn.now) date()
    http-request deny deny_status 401 unless {{ var(txn.bearer),jwt_header_query('$.alg') -m str {algorithm} }}
    http-request deny deny_status 401 unless {{ var(txn.bearer),jwt_payload_query('$.iss') -m str {name} }}
    http-request deny deny_status 401 if {{ var(txn.expiry),sub(txn.now) -m int lt 0 }}
    http-request deny deny_status 401 unless {{ var(txn.bearer),jwt_verify({algorithm},"{file}") -m int 1 }}
    http-request del-header authorization
"#
        );
    }
    match &route.path {
        ForwardedPath::Same => {}
        ForwardedPath::Stripped => {
            let prefix = route.prefix.trim_end_matches('/');
            text += &format!("    http-request set-path %[path,regsub(^{prefix}/?,/)]\n");
        }
        ForwardedPath::Fixed(path) => text += &format!("    http-request set-path {path}\n"),
    }
    let protocol = if matches!(route.task, Task::Calls) { " proto h2" } else { "" };
    text += &format!("    server ends {}{protocol} pool-max-conn 1024\n", route.backend);
    Ok(text)
}
