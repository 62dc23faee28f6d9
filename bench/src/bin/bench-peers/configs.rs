//! The same gateway in four configuration languages: one route by path prefix to one upstream over kept connections, one
//! worker, no access log, the same certificate. Each follows its own documentation's advice for load.

use std::path::Path;

use bench::peers::{self, EnvoyDoor, Kind, Nginx};

use crate::peers::Ports;

/// The values for every configuration.
pub(crate) struct Setting<'a> {
    pub(crate) ports: Ports,
    pub(crate) backend: u16,
    /// The folder with `cert.pem`, `key.pem` and `both.pem`.
    pub(crate) folder: &'a Path,
    /// The user of nginx's worker; it must be able to write below `folder`.
    pub(crate) user: &'a str,
}

/// Makes the program end at once when it is told to.
const DRAIN: &str = "drain: { delay: 0s }\n";

impl Setting<'_> {
    /// The file's name and text; the bare backend has none.
    pub(crate) fn write(&self, kind: Kind) -> Option<(&'static str, String)> {
        match kind {
            Kind::Floor => None,
            Kind::Tidegate => Some(("tidegate.yaml", self.tidegate())),
            // Older builds do not have the key for a fast end and refuse it, so they may end slowly.
            Kind::Before => Some(("before.yaml", self.tidegate().replace(DRAIN, ""))),
            Kind::Nginx => Some(("nginx.conf", self.nginx())),
            Kind::Haproxy => Some(("haproxy.cfg", self.haproxy())),
            Kind::Envoy => Some(("envoy.yaml", self.envoy())),
        }
    }

    fn tidegate(&self) -> String {
        let Ports { plain, tls, admin, .. } = self.ports;
        let (backend, folder) = (self.backend, self.folder.display());
        format!(
            r#"listen:
  plain: {{ address: "127.0.0.1:{plain}" }}
  secure: {{ address: "127.0.0.1:{tls}", tls: {{ certificate: "{folder}/cert.pem", key: "{folder}/key.pem" }} }}
admin: {{ address: "127.0.0.1:{admin}" }}
workers: 1
upstreams: {{ echo: {{ targets: ["http://127.0.0.1:{backend}"] }} }}
{DRAIN}routes: {{ echo: {{ match: {{ path: "/echo/**" }}, upstream: echo }} }}
"#
        )
    }

    /// A body buffer above 100 KiB, and proxy buffers for it: with the defaults both would be written to a file.
    fn nginx(&self) -> String {
        let Ports { plain, tls, http2, .. } = self.ports;
        let folder = self.folder.display();
        let server = format!(
            "    client_max_body_size 16m;
    client_body_buffer_size 128k;
    listen 127.0.0.1:{plain} backlog=4096;
    listen 127.0.0.1:{http2} http2 backlog=4096;
    listen 127.0.0.1:{tls} ssl http2 backlog=4096;
    ssl_certificate {folder}/cert.pem;
    ssl_certificate_key {folder}/key.pem;
    ssl_protocols TLSv1.2 TLSv1.3;
    location /echo/ {{
      proxy_pass http://ends;
      proxy_http_version 1.1;
      proxy_set_header Connection '';
      proxy_set_header Host $host;
      proxy_buffers 16 8k;
    }}"
        );
        let (user, folder, backend) = (self.user, self.folder, self.backend);
        Nginx { user, folder, backend, server: &server }.text()
    }

    fn haproxy(&self) -> String {
        let Ports { plain, tls, http2, .. } = self.ports;
        let (backend, folder) = (self.backend, self.folder.display());
        format!(
            r"global
    nbthread 1
    maxconn 9000
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode http
    http-reuse always
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    timeout http-keep-alive 300s
frontend doors
    bind 127.0.0.1:{plain} backlog 4096
    bind 127.0.0.1:{http2} backlog 4096 proto h2
    bind 127.0.0.1:{tls} backlog 4096 ssl crt {folder}/both.pem alpn h2,http/1.1
    use_backend echo if {{ path_beg /echo/ }}
backend echo
    server echo 127.0.0.1:{backend} pool-max-conn 1024
"
        )
    }

    fn envoy(&self) -> String {
        let Ports { plain, tls, .. } = self.ports;
        let socket =
            peers::downstream_tls(&self.folder.join("cert.pem"), &self.folder.join("key.pem"));
        let door =
            EnvoyDoor { name: "plain", port: plain, codec: "AUTO", prefix: "/echo/", socket: "" };
        let secure = EnvoyDoor { name: "secure", port: tls, socket: &socket, ..door };
        peers::envoy(&[door, secure], self.backend, false)
    }
}
