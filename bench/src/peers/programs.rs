//! The compared gateways: which there are, where their programs are, how each is started on a core, and what their configurations
//! have in common.
//!
//! What is compared, and so the routes and doors of each, is the comparison's. All have one worker and no access log, and follow their
//! own documentation's advice for load.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{beside_us, find, pinned};

/// One of what is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// What each gateway adds to: the bare backend, or a program that does nothing but send.
    #[value(skip)]
    Floor,
    Tidegate,
    /// Another build of Tidegate, most often of the commit before a change.
    #[value(skip)]
    Before,
    Nginx,
    Haproxy,
    Envoy,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::Floor, Self::Tidegate, Self::Before, Self::Nginx, Self::Haproxy, Self::Envoy];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Tidegate => "tidegate",
            Self::Before => "before",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
        }
    }
}

/// The programs of a comparison.
pub struct Programs {
    /// The one built beside this program when absent.
    pub tidegate: Option<PathBuf>,
    pub before: Option<PathBuf>,
    pub floor: PathBuf,
}

impl Programs {
    /// The program of this kind, if there is one.
    #[must_use]
    pub fn find(&self, kind: Kind) -> Option<PathBuf> {
        match kind {
            Kind::Floor => Some(self.floor.clone()),
            Kind::Tidegate => {
                let program = self.tidegate.clone().unwrap_or_else(|| beside_us("tidegate"));
                program.exists().then_some(program)
            }
            Kind::Before => self.before.clone(),
            Kind::Nginx | Kind::Haproxy | Kind::Envoy => find(kind.name()),
        }
    }

    /// The command that starts it on a core with this configuration; the floor's arguments are the comparison's.
    ///
    /// # Errors
    ///
    /// If it is not installed.
    pub fn command(&self, kind: Kind, core: usize, file: &Path) -> io::Result<Command> {
        let missing = || format!("{} is not installed; bench/setup.sh does it", kind.name());
        let program = self.find(kind).ok_or_else(|| io::Error::other(missing()))?;
        let mut command = pinned(core, program);
        match kind {
            Kind::Floor => {}
            Kind::Tidegate | Kind::Before => _ = command.arg("run").arg(file),
            Kind::Nginx => {
                let folder = file.parent().unwrap_or(Path::new("."));
                command.arg("-p").arg(folder).arg("-c").arg(file);
            }
            Kind::Haproxy => _ = command.arg("-db").arg("-f").arg(file),
            Kind::Envoy => {
                command.args(["--concurrency", "1", "--log-level", "error"]);
                command.args(["--disable-hot-restart", "--config-path"]).arg(file);
            }
        }
        Ok(command)
    }
}

/// The name of the user that this runs as, which nginx's worker takes.
///
/// # Errors
///
/// If the system's program does not say it.
pub fn user() -> io::Result<String> {
    let said = Command::new("id").arg("-un").output()?.stdout;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// nginx in front of one upstream, `ends`, whose connections it keeps.
pub struct Nginx<'a> {
    /// The user of its worker; it must be able to write below `folder`.
    pub user: &'a str,
    pub folder: &'a Path,
    pub backend: u16,
    /// The lines of the server: where it listens, and its locations.
    pub server: &'a str,
}

impl Nginx<'_> {
    #[must_use]
    pub fn text(&self) -> String {
        let Nginx { user, backend, server, .. } = self;
        let folder = self.folder.display();
        format!(
            r"user {user};
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.error.log error;
events {{ worker_connections 16000; use epoll; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_timeout 300s;
  keepalive_requests 1000000000;
  http2_max_concurrent_streams 256;
  client_body_temp_path {folder}/nginx-body;
  proxy_temp_path {folder}/nginx-proxy;
  fastcgi_temp_path {folder}/nginx-fastcgi;
  uwsgi_temp_path {folder}/nginx-uwsgi;
  scgi_temp_path {folder}/nginx-scgi;
  upstream ends {{
    server 127.0.0.1:{backend};
    keepalive 1024;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
  }}
  server {{
{server}
  }}
}}
"
        )
    }
}

/// A listener of Envoy with one route to its one cluster.
pub struct EnvoyDoor<'a> {
    pub name: &'a str,
    pub port: u16,
    /// `AUTO` accepts HTTP/1 and HTTP/2 by prior knowledge.
    pub codec: &'a str,
    /// The prefix of the paths that are forwarded.
    pub prefix: &'a str,
    /// Lines of the filter chain, for TLS.
    pub socket: &'a str,
}

/// Envoy in front of one cluster; `http2` is spoken to it by prior knowledge.
#[must_use]
pub fn envoy(doors: &[EnvoyDoor<'_>], backend: u16, http2: bool) -> String {
    let doors = doors.iter().map(|door| {
        ENVOY_DOOR
            .replace("NAME", door.name)
            .replace("PORT", &door.port.to_string())
            .replace("CODEC", door.codec)
            .replace("PREFIX", door.prefix)
            .replace("SOCKET", door.socket)
    });
    ENVOY
        .replace("DOORS", &doors.collect::<String>())
        .replace("PROTOCOL\n", if http2 { ENVOY_HTTP2 } else { "" })
        .replace("BACKEND", &backend.to_string())
}

const ENVOY: &str = r#"node: { id: bench, cluster: bench }
static_resources:
  listeners:
DOORS
  clusters:
  - name: ends
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: { thresholds: [{ max_connections: 100000, max_pending_requests: 100000, max_requests: 100000 }] }
PROTOCOL
    load_assignment:
      cluster_name: ends
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: BACKEND } } } }] }]
"#;

const ENVOY_HTTP2: &str = r#"    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
"#;

const ENVOY_DOOR: &str = r#"  - name: NAME
    address: { socket_address: { address: 127.0.0.1, port_value: PORT } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          codec_type: CODEC
          stat_prefix: NAME
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
          route_config:
            virtual_hosts: [{ name: all, domains: ["*"], routes: [{ match: { prefix: "PREFIX" }, route: { cluster: ends } }] }]
SOCKET"#;

/// The middle one, or the mean of the middle two; no number where there is none.
#[must_use]
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    let upper = figures.get(middle).copied().unwrap_or(f64::NAN);
    let lower = figures.get(middle.wrapping_sub(1)).copied().unwrap_or(upper);
    if figures.len().is_multiple_of(2) { f64::midpoint(lower, upper) } else { upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median([]).is_nan());
    }

    #[test]
    fn doors_and_the_protocol_of_the_cluster_are_filled_in() {
        let door =
            EnvoyDoor { name: "plain", port: 7, codec: "AUTO", prefix: "/echo/", socket: "" };
        for (http2, has) in [(true, true), (false, false)] {
            let text = envoy(std::slice::from_ref(&door), 8, http2);
            assert_eq!(text.contains("http2_protocol_options"), has);
            assert!(text.contains("port_value: 7") && text.contains("port_value: 8"), "{text}");
            for left in ["DOORS", "PROTOCOL", "CODEC", "PREFIX", "SOCKET", "NAME", "BACKEND"] {
                assert!(!text.contains(left), "{left} is left in {text}");
            }
        }
    }
}
