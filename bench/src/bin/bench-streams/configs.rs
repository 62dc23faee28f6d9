//! The same gateway in four configuration languages: one route by path prefix to one upstream, one worker, no access log. Each
//! follows its own documentation's advice for streams.

use std::path::Path;

use bench::peers::{self, EnvoyDoor, Kind, Nginx};

use crate::scenario::Wire;

/// The values for every configuration.
pub(crate) struct Setting<'a> {
    pub(crate) port: u16,
    pub(crate) backend: u16,
    pub(crate) folder: &'a Path,
    /// The user of nginx's worker; it must be able to write below `folder`.
    pub(crate) user: &'a str,
    pub(crate) wire: Wire,
}

impl Setting<'_> {
    /// The file's name and text.
    pub(crate) fn write(&self, kind: Kind) -> (&'static str, String) {
        match kind {
            Kind::Tidegate => ("tidegate.yaml", self.tidegate()),
            Kind::Before => ("before.yaml", self.tidegate()),
            Kind::Nginx => ("nginx.conf", self.nginx()),
            Kind::Haproxy => ("haproxy.cfg", self.haproxy()),
            Kind::Envoy => ("envoy.yaml", self.envoy()),
            Kind::Floor => ("floor", String::new()),
        }
    }

    /// The policies are on, with quotas that are counted and never reached.
    fn tidegate(&self) -> String {
        let Setting { port, backend, .. } = self;
        let protocol = if self.wire == Wire::Http2 { ", protocol: http2" } else { "" };
        format!(
            r#"listen: {{ plain: {{ address: "127.0.0.1:{port}" }} }}
workers: 1
drain: {{ delay: 0s }}
upstreams:
  ends:
    targets: ["http://127.0.0.1:{backend}"]
    breaker: {{ connections: 100000, requests: 100000 }}{protocol_line}
routes:
  events: {{ match: {{ path: "/sse/**" }}, upstream: ends, policies: [{{ sse: {{ events: 1000000000, per: 1h }} }}] }}
  shared: {{ match: {{ path: "/shared/**" }}, upstream: ends, policies: [{{ sse: {{ events: 1000000000, per: 1h, share: {{}} }} }}] }}
  sockets: {{ match: {{ path: "/ws/**" }}, upstream: ends, policies: [{{ websocket: {{ messages: 1000000000, per: 1h, message_bytes_max: 64KiB }} }}] }}
  calls: {{ match: {{ path: "/bench.Echo/**" }}, upstream: ends }}
"#,
            protocol_line = protocol.replace(", ", "\n    "),
        )
    }

    fn nginx(&self) -> String {
        let Setting { port, backend, folder, user, .. } = *self;
        let (http2, pass) = match self.wire {
            Wire::Http1 => ("", NGINX_STREAMS),
            Wire::Http2 => (" http2", NGINX_CALLS),
        };
        let server = format!(
            "    listen 127.0.0.1:{port}{http2} backlog=8192;
    location / {{
{pass}
    }}"
        );
        Nginx { user, folder, backend, server: &server }.text()
    }

    fn haproxy(&self) -> String {
        let Setting { port, backend, .. } = self;
        format!(
            r"global
    nbthread 1
    maxconn 6000
defaults
    mode http
    option http-no-delay
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout tunnel 1h
frontend door
    bind 127.0.0.1:{port} backlog 8192
    use_backend ends if {{ path_beg / }}
backend ends
    server ends 127.0.0.1:{backend} maxconn 6000
"
        )
    }

    fn envoy(&self) -> String {
        let door = EnvoyDoor {
            name: "plain",
            port: self.port,
            codec: "HTTP2",
            prefix: "/bench.Echo/",
            socket: "",
        };
        peers::envoy(&[door], self.backend, true)
    }
}

const NGINX_STREAMS: &str = r#"      proxy_pass http://ends;
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $http_connection;
      proxy_set_header Host $host;
      proxy_buffering off;
      proxy_read_timeout 1h;
      proxy_send_timeout 1h;"#;

const NGINX_CALLS: &str = r#"      grpc_pass grpc://ends;
      grpc_read_timeout 1h;
      grpc_send_timeout 1h;"#;
