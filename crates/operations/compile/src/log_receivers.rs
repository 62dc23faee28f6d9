//! Compiles the network receivers of logs and traces.

use std::time::Duration;

use config::{
    CollectorUrl, Decode as _, LogAddress, LogReceiver, Map, Report, Secret, SocketScheme,
    SocketUrl, Spanned, TargetUrl, UpstreamTls,
};
use plan::export::{Collector, CollectorProtocol, LineReceiver, SocketReceiver, Transport};
use plan::upstreams::{Protocol, Timeouts};

use crate::{names, upstream_settings, upstream_tls};

/// The idle timeout of connections to a receiver, which is longer than the interval between two batches.
const IDLE: Duration = Duration::from_secs(30);

/// The path for logs below the address of a collector (OTLP 1, "Default URL").
const LOGS_PATH: &str = "/v1/logs";

/// Headers that the gateway sets itself.
const OWN: [&str; 3] = ["content-type", "host", "te"];

/// Compiles a receiver of log lines.
pub(crate) fn lines(written: &LogReceiver, report: &mut Report) -> Option<LineReceiver> {
    let LogReceiver { address, headers, timeout, tls } = written;
    let shared = ReceiverKeys { headers, timeout: timeout.0, tls: tls.as_ref() };
    Some(match address {
        LogAddress::Http(url) => {
            let path = url.value.path.clone();
            let protocol = CollectorProtocol::Http(path);
            LineReceiver::Http(shared.collector(&url.value.target, protocol, report)?)
        }
        LogAddress::Otlp(url) => LineReceiver::Otlp(shared.otlp(&url.value, LOGS_PATH, report)?),
        LogAddress::Syslog(url) => LineReceiver::Syslog(shared.socket(url, report)?),
        LogAddress::Lines(url) => LineReceiver::Socket(shared.socket(url, report)?),
    })
}

/// The keys that all receivers have in common.
pub(crate) struct ReceiverKeys<'a> {
    pub(crate) headers: &'a Map<Spanned<Secret>>,
    pub(crate) timeout: Duration,
    pub(crate) tls: Option<&'a Spanned<UpstreamTls>>,
}

impl ReceiverKeys<'_> {
    /// Compiles an OpenTelemetry collector. `below` is the path of the signal below the collector's address.
    pub(crate) fn otlp(
        &self,
        url: &CollectorUrl,
        below: &str,
        report: &mut Report,
    ) -> Option<Collector> {
        let protocol = if url.grpc {
            CollectorProtocol::Grpc
        } else {
            let path = url.path.trim_end_matches('/');
            // An address that already includes the path of the signal is accepted, too.
            let path = path.strip_suffix(below).unwrap_or(path);
            CollectorProtocol::Http(format!("{path}{below}"))
        };
        self.collector(&url.target, protocol, report)
    }

    fn collector(
        &self,
        target: &TargetUrl,
        protocol: CollectorProtocol,
        report: &mut Report,
    ) -> Option<Collector> {
        let tls = self.tls(target.tls, report)?;
        let timeout = Timeouts {
            connect: self.timeout,
            response: self.timeout,
            write: None,
            total: None,
            idle: IDLE,
        };
        let mut upstream = upstream_settings::to_url(target, timeout, &tls, report)?;
        if protocol == CollectorProtocol::Grpc {
            upstream.protocol = Protocol::Http2;
        }
        Some(Collector {
            upstream,
            protocol,
            headers: self.header_lines(report)?,
            timeout: self.timeout,
        })
    }

    fn socket(&self, url: &Spanned<SocketUrl>, report: &mut Report) -> Option<SocketReceiver> {
        let is_tls = url.value.scheme == SocketScheme::Tls;
        let tls = self.tls(is_tls, report)?;
        let transport = match url.value.scheme {
            SocketScheme::Udp => Transport::Udp,
            SocketScheme::Tcp => Transport::Tcp,
            SocketScheme::Tls => Transport::Tls(upstream_tls::client(&tls, report)?),
        };
        let TargetUrl { host, port, .. } = &url.value.target;
        Some(SocketReceiver { host: host.clone(), port: *port, transport, timeout: self.timeout })
    }

    /// Returns the TLS settings. Complains if they are not used.
    fn tls(&self, is_used: bool, report: &mut Report) -> Option<UpstreamTls> {
        match self.tls {
            Some(tls) if !is_used => {
                let help = "remove it, or write `https://`, `grpcs://` or `tls://`";
                report.error(
                    tls.at,
                    "`tls` has no effect, because the receiver does not use TLS",
                    help,
                );
                None
            }
            Some(tls) => Some(tls.value.clone()),
            None => UpstreamTls::absent(),
        }
    }

    fn header_lines(&self, report: &mut Report) -> Option<Vec<(String, String)>> {
        let mut lines = Some(Vec::new());
        for (name, value) in self.headers.iter() {
            let header = names::changeable_header(&name.value, name.at, report);
            if let Some(own) = header.as_deref().filter(|name| OWN.contains(name)) {
                let help = "remove it; the gateway writes it";
                report.error(name.at, format!("`{own}` cannot be changed"), help);
            }
            let is_value =
                value.value.0.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control());
            if !is_value {
                let what = format!("the value of `{}` has a control character", name.value);
                report.error(value.at, what, "write it in one line");
            }
            match (header.filter(|_| is_value), &mut lines) {
                (Some(header), Some(lines)) => lines.push((header, value.value.0.clone())),
                (Some(_), None) => {}
                (None, _) => lines = None,
            }
        }
        lines
    }
}
