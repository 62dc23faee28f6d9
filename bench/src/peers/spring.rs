//! Spring Cloud Gateway, the gateway on a JVM: forwarding, streams, tokens, and an interceptor as a filter (bench/peers/spring).

use std::io;

use super::{ForwardedPath, Place, Plan, Route, Task, Work, jars, tool};

const JAR: &str = "spring-cloud-gateway-server-webflux-";

pub(super) fn cannot(route: &Route) -> Option<&'static str> {
    match &route.task {
        Task::Forward | Task::Stream | Task::Intercept { .. } => None,
        Task::Flow(name) => (!matches!(name.as_str(), "DirectProxy" | "DirectAPI"))
            .then_some("Spring Cloud Gateway has no flows"),
        Task::Calls => Some("Spring Cloud Gateway is measured over HTTP/1"),
        Task::Soap { .. } => Some("Spring Cloud Gateway does not read XML"),
        Task::Ours(_) => Some("Spring Cloud Gateway has nothing like it"),
    }
}

pub(super) fn version() -> Option<String> {
    tool("peers/spring/classes/bench/Application.class")?;
    jars("peers/spring/lib", JAR).map(|(_, version)| version)
}

pub(super) fn plan(work: &Work, place: &Place<'_>) -> io::Result<Plan> {
    let file = place.write("application.yaml", &text(work, place)?)?;
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let classes = tool("peers/spring/classes").ok_or_else(missing)?;
    let (jars, _) = jars("peers/spring/lib", JAR).ok_or_else(missing)?;
    let (mut command, gc_log) = place.java(&format!("{}:{jars}", classes.display()));
    command.arg(format!("-Dreactor.netty.ioWorkerCount={}", place.ground.workers));
    command.arg("bench.Application");
    command.arg(format!("--spring.config.location=file:{}", file.display()));
    Ok(Plan { command, gc_log: Some(gc_log), helpers: Vec::new() })
}

fn text(work: &Work, place: &Place<'_>) -> io::Result<String> {
    let mut secured = Vec::new();
    let mut issuer = None;
    let mut routes = String::new();
    for (number, route) in work.routes.iter().enumerate() {
        if let Some(its) = &route.issuer {
            if issuer.replace(its).is_some_and(|other| other.jwks != its.jwks) {
                return Err(io::Error::other("Spring Cloud Gateway is set up with one issuer"));
            }
            secured.push(format!("\"{}/**\"", route.prefix.trim_end_matches('/')));
        }
        routes += &self::route(number, route);
    }
    let tls = place.ground.tls.as_ref().map_or_else(String::new, |tls| {
        let (certificate, key) = (tls.certificate.display(), tls.key.display());
        format!(
            "  ssl: {{ certificate: \"file:{certificate}\", certificate-private-key: \"file:{key}\" }}\n  http2: {{ enabled: true }}\n"
        )
    });
    let (name, jwks) = issuer.map_or((String::new(), String::new()), |issuer| {
        (issuer.name.clone(), issuer.jwks.display().to_string())
    });
    Ok(format!(
        r#"server:
  port: {port}
  address: "{host}"
{tls}logging: {{ level: {{ root: warn }} }}
bench: {{ secured: [{secured}], issuer: "{name}", jwks: "{jwks}" }}
spring:
  main: {{ banner-mode: "off" }}
  cloud:
    gateway:
      server:
        webflux:
          httpclient: {{ connect-timeout: 5000, response-timeout: 120s, pool: {{ type: elastic }} }}
          routes:
{routes}"#,
        port = place.port,
        host = place.ground.host,
        secured = secured.join(", "),
    ))
}

fn route(number: usize, route: &Route) -> String {
    let prefix = route.prefix.trim_end_matches('/');
    let mut filters = Vec::new();
    match &route.path {
        ForwardedPath::Same => {}
        // In YAML, `$` needs no escape, but Spring would replace `${rest}`. It provides `$\{rest}` for this.
        ForwardedPath::Stripped => {
            filters.push(format!("\"RewritePath={prefix}/?(?<rest>.*), /$\\\\{{rest}}\""));
        }
        ForwardedPath::Fixed(path) => filters.push(format!("SetPath={path}")),
    }
    if route.issuer.is_some() {
        filters.push("RemoveRequestHeader=Authorization".to_owned());
    }
    if let Task::Intercept { service } = &route.task {
        filters.push(format!("\"Intercept=http://{service}\""));
    }
    format!(
        r#"          - id: route{number}
            order: {number}
            uri: "http://{backend}"
            predicates: ["Path={prefix}/**"]
            filters: [{filters}]
"#,
        backend = route.backend,
        filters = filters.join(", "),
    )
}
