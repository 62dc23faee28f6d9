//! The same gateway in four configuration languages: one route by path prefix to one upstream over kept connections, one
//! worker, no access log, the same certificate. Each follows its own documentation's advice for load.

use std::path::Path;

use crate::peers::{Kind, Ports};

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
            Kind::Direct => None,
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
        let (backend, folder, user) = (self.backend, self.folder.display(), self.user);
        format!(
            r"user {user};
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.error.log error;
events {{ worker_connections 12000; use epoll; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_timeout 300s;
  keepalive_requests 1000000000;
  http2_max_concurrent_streams 256;
  client_max_body_size 16m;
  client_body_buffer_size 128k;
  client_body_temp_path {folder}/nginx-body;
  proxy_temp_path {folder}/nginx-proxy;
  fastcgi_temp_path {folder}/nginx-fastcgi;
  uwsgi_temp_path {folder}/nginx-uwsgi;
  scgi_temp_path {folder}/nginx-scgi;
  upstream echo {{
    server 127.0.0.1:{backend};
    keepalive 1024;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
  }}
  server {{
    listen 127.0.0.1:{plain} backlog=4096;
    listen 127.0.0.1:{http2} http2 backlog=4096;
    listen 127.0.0.1:{tls} ssl http2 backlog=4096;
    ssl_certificate {folder}/cert.pem;
    ssl_certificate_key {folder}/key.pem;
    ssl_protocols TLSv1.2 TLSv1.3;
    location /echo/ {{
      proxy_pass http://echo;
      proxy_http_version 1.1;
      proxy_set_header Connection '';
      proxy_set_header Host $host;
      proxy_buffers 16 8k;
    }}
  }}
}}
"
        )
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
        let (backend, folder) = (self.backend, self.folder.display());
        let listeners =
            [("plain", plain, ENVOY_PLAIN.to_owned()), ("secure", tls, envoy_tls(self.folder))]
                .map(|(name, port, socket)| {
                    ENVOY_LISTENER
                        .replace("NAME", name)
                        .replace("PORT", &port.to_string())
                        .replace("SOCKET", &socket)
                })
                .concat();
        ENVOY
            .replace("LISTENERS", &listeners)
            .replace("BACKEND", &backend.to_string())
            .replace("FOLDER", &folder.to_string())
    }
}

const ENVOY: &str = r#"node: { id: bench, cluster: bench }
static_resources:
  listeners:
LISTENERS
  clusters:
  - name: echo
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: { thresholds: [{ max_connections: 100000, max_pending_requests: 100000, max_requests: 100000 }] }
    load_assignment:
      cluster_name: echo
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: BACKEND } } } }] }]
"#;

/// `codec_type: AUTO` accepts HTTP/1 and HTTP/2 by prior knowledge on the same port.
const ENVOY_LISTENER: &str = r#"  - name: NAME
    address: { socket_address: { address: 127.0.0.1, port_value: PORT } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          codec_type: AUTO
          stat_prefix: NAME
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
          route_config:
            virtual_hosts: [{ name: all, domains: ["*"], routes: [{ match: { prefix: "/echo/" }, route: { cluster: echo } }] }]
SOCKET"#;

const ENVOY_PLAIN: &str = "";

fn envoy_tls(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        r#"      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            tls_certificates: [{{ certificate_chain: {{ filename: "{folder}/cert.pem" }}, private_key: {{ filename: "{folder}/key.pem" }} }}]
"#
    )
}
