//! TLS clients of upstreams, and of other services that the gateway calls.

use std::collections::HashMap;

use config::{Report, UpstreamTls};
use tls::{Client, ClientSpec};

use crate::files;
use crate::files::InService;

/// TLS clients by their settings. Upstreams with equal settings share a client, because each new client reads the system's certificate
/// authorities.
pub(crate) struct Clients<'p> {
    in_service: InService<'p>,
    known: HashMap<ClientSpec, Client>,
}

/// Returns the TLS client for a service that is not an upstream.
pub(crate) fn client(tls: &UpstreamTls, report: &mut Report) -> Option<Client> {
    Clients::new(InService::NONE).of("", tls, report)
}

impl<'p> Clients<'p> {
    pub(crate) fn new(in_service: InService<'p>) -> Clients<'p> {
        Clients { in_service, known: HashMap::new() }
    }

    /// Returns the TLS client of an upstream. `upstream` is empty for a service that is not an upstream.
    pub(crate) fn of(
        &mut self,
        upstream: &str,
        tls: &UpstreamTls,
        report: &mut Report,
    ) -> Option<Client> {
        warn_unverified(tls, report);
        let ca = tls.ca.as_ref().map(|file| files::read(file, report));
        let pair = match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => {
                let place = plan::upstreams::certificate_place(upstream);
                let valid = self.in_service.is_valid_at(&place);
                Some(files::pair(certificate, key, valid, report))
            }
            (Some(alone), None) => {
                report.error(alone.at, "`certificate` needs `key`", "add `key: FILE`");
                return None;
            }
            (None, Some(alone)) => {
                report.error(alone.at, "`key` needs `certificate`", "add `certificate: FILE`");
                return None;
            }
            (None, None) => None,
        };
        let spec = ClientSpec {
            ca: match ca {
                Some(pem) => Some(pem?),
                None => None,
            },
            pair: match pair {
                Some(pair) => Some(pair?),
                None => None,
            },
            verify: tls.verify.value,
            server_name: tls.server_name.as_ref().map(|name| name.value.clone()),
        };
        if let Some(client) = self.known.get(&spec) {
            return Some(client.clone());
        }
        let client = Client::new(&spec).map_err(|error| complain(&error, tls, report)).ok()?;
        self.known.insert(spec, client.clone());
        Some(client)
    }
}

fn warn_unverified(tls: &UpstreamTls, report: &mut Report) {
    if !tls.verify.value {
        let help = "name the authority of the service's certificate in `ca` instead";
        report.warn(tls.verify.at, "certificates are not verified, so any server is trusted", help);
    }
}

fn complain(error: &tls::Error, tls: &UpstreamTls, report: &mut Report) {
    // The certificate and key were validated before, so the error must be in an authority or a name.
    let ca = tls.ca.as_ref().map(|file| file.at);
    let name = tls.server_name.as_ref().map(|name| name.at);
    let at = match error {
        tls::Error::Name(_) => name.or(ca),
        tls::Error::Certificate(_)
        | tls::Error::Key(_)
        | tls::Error::Mismatch(_)
        | tls::Error::Authority(_)
        | tls::Error::Versions => ca.or(name),
    };
    let at = at.unwrap_or(tls.verify.at);
    files::complain(error, at, at, report);
}
