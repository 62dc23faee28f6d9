//! Compiles the parts of a plan that serve operators: `admin` with its users, `status`, `control`, and the destination of the audit log.

use std::path::PathBuf;
use std::sync::Arc;

use config::{AdminRole, AdminTls, AdminUser, At, Config, FilePath, LogTo, Report, Spanned};
use plan::telemetry::{Telemetry, Total};
use plan::{
    AccessLogSettings, Admin, AdminProof, AuditReceiver, AuditSink, Follow, Plan, Role,
    ShownCertificate, StatusListener, TraceExport,
};
use tls::{Server, ServerSpec, Subject, Version};

use crate::{certificates, files, listeners, log_receivers, traces};

/// The parts of a plan that serve operators, such as the admin API, the status listener and the logs.
pub(crate) struct ForOperators {
    pub(crate) admin: Option<Admin>,
    pub(crate) status: Option<StatusListener>,
    pub(crate) access_log: Option<AccessLogSettings>,
    pub(crate) audit_log: AuditSink,
    pub(crate) traces: Option<TraceExport>,
    pub(crate) follow: Option<Follow>,
    pub(crate) certificates: Vec<ShownCertificate>,
}

/// Compiles the parts of a plan that serve operators.
pub(crate) fn compile(
    config: &Config,
    previous: Option<&Plan>,
    telemetry: &Telemetry,
    report: &mut Report,
) -> ForOperators {
    ForOperators {
        access_log: crate::access_log(config, report),
        traces: traces::compile(config, report),
        admin: running(config, previous, report),
        status: status(config, report),
        audit_log: audit_log(config, previous, telemetry, report),
        follow: follow(config, report),
        certificates: certificates::shown(config, report),
    }
}

/// Compiles the admin API. Its socket is opened only once, so a new plan keeps the address of the previous plan, and also its TLS settings
/// if other files are named. If the names of the files are the same, their new contents are used.
fn running(config: &Config, previous: Option<&Plan>, report: &mut Report) -> Option<Admin> {
    let written = config.admin.as_ref().and_then(|written| admin(written, report));
    let Some(previous) = previous else { return written };
    let at = config.admin.as_ref().map_or(At::file(0), |admin| admin.address.at);
    let help = "restart it, or restore the value in use";
    let Some(running) = &previous.admin else {
        if written.is_some() {
            report.warn(at, "the admin API does not start until the gateway is restarted", help);
        }
        return None;
    };
    let stays =
        format!("the admin API stays at {} until the gateway is restarted", running.address);
    let Some(written) = written else {
        report.warn(at, stays, help);
        return Some(running.clone());
    };
    if written.address != running.address {
        report.warn(at, stays, help);
    }
    let files = |admin: &Admin| admin.tls.as_ref().map(|tls| tls.files.clone());
    let same_tls = files(&written) == files(running);
    if !same_tls {
        report.warn(at, "the admin API keeps its `tls` until the gateway is restarted", help);
    }
    let tls = if same_tls { written.tls.clone() } else { running.tls.clone() };
    Some(Admin { address: running.address, tls, ..written })
}

fn admin(written: &config::Admin, report: &mut Report) -> Option<Admin> {
    complain_of_open_address(written, report);
    let users = users(written, report);
    let with_tokens = users.iter().any(|user| matches!(user.proof, AdminProof::Token(_)));
    let tls = match &written.tls {
        Some(tls) => Some(server(tls, with_tokens, report)?),
        None => None,
    };
    let origins = written.origins.iter().filter_map(|origin| self::origin(origin, report));
    let origins = origins.collect();
    let hosts = written.hosts.iter().filter_map(|host| self::host(host, report)).collect();
    let history_max = listeners::count(written.history.get());
    Some(Admin { address: written.address.value.0, tls, users, origins, hosts, history_max })
}

/// Complains if the admin API listens on an address that other hosts can reach, without authentication.
fn complain_of_open_address(written: &config::Admin, report: &mut Report) {
    let address = written.address.value.0;
    let client_ca = written.tls.as_ref().is_some_and(|tls| tls.value.client_ca.is_some());
    if address.ip().to_canonical().is_loopback() || !written.users.is_empty() || client_ca {
        return;
    }
    let what = format!("anyone who can connect to {address} can operate the gateway");
    let at = written.address.at;
    if written.open {
        report.warn(at, what, "write `users`, or use a loopback address such as 127.0.0.1")
    } else {
        report.error(
            at,
            what,
            "write `users`, `tls: { client_ca }` or a loopback address such as 127.0.0.1; probes can use `status`; `open: true` accepts it",
        )
    }
}

fn users(written: &config::Admin, report: &mut Report) -> Vec<plan::AdminUser> {
    let client_ca = written.tls.as_ref().is_some_and(|tls| tls.value.client_ca.is_some());
    let mut users: Vec<plan::AdminUser> = Vec::new();
    for (name, user) in written.users.iter() {
        if !user.intact {
            continue;
        }
        let Some(proof) = proof(&user.value, user.at, report) else { continue };
        if matches!(proof, AdminProof::Subject(_)) && !client_ca {
            let what = format!(
                "`{}` has a `subject`, but client certificates are not requested",
                name.value
            );
            report.error(user.at, what, "write `tls: { client_ca: FILE }` in `admin`");
        }
        if let Some(other) = users.iter().find(|other| is_same(&other.proof, &proof)) {
            let what = format!("`{}` and `{}` have the same credentials", other.name, name.value);
            report.error(user.at, what, "give each user a token or a certificate of its own");
        }
        let role = match user.value.role {
            AdminRole::Read => Role::Read,
            AdminRole::Write => Role::Write,
        };
        users.push(plan::AdminUser { name: name.value.clone(), proof, role });
    }
    users
}

fn is_same(one: &AdminProof, other: &AdminProof) -> bool {
    match (one, other) {
        (AdminProof::Subject(one), AdminProof::Subject(other)) => one.is_same(other),
        (one, other) => one == other,
    }
}

/// Returns the credential of a user. Complains unless the user has exactly one.
fn proof(user: &AdminUser, at: At, report: &mut Report) -> Option<AdminProof> {
    let AdminUser { token, token_sha256, subject, role: _ } = user;
    match (token, token_sha256, subject) {
        (Some(token), None, None) => {
            let text = token.value.0.as_str();
            let usable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
            if !usable {
                let what =
                    "the token is empty or has characters that are not allowed in a header value";
                report.error(token.at, what, "use visible ASCII characters without spaces");
                return None;
            }
            Some(AdminProof::of_token(text))
        }
        (None, Some(hash), None) => {
            // Harmless: a hash of the wrong length is reported as a complaint.
            let digest: Option<[u8; 32]> =
                kit::hex::decoded(hash.value.0.as_bytes()).and_then(|bytes| bytes.try_into().ok());
            if digest.is_none() {
                let help = "write what `printf %s TOKEN | sha256sum` prints, 64 digits";
                report.error(hash.at, "this is not a SHA-256 in hexadecimal", help);
            }
            digest.map(AdminProof::Token)
        }
        (None, None, Some(subject)) => match Subject::parse(&subject.value) {
            Ok(subject) => Some(AdminProof::Subject(subject)),
            Err(why) => {
                let what = format!("this is not the subject of a certificate: {why}");
                report.error(subject.at, what, "write it as `CN=ops,O=Tide`");
                None
            }
        },
        _ => {
            let what = "a user needs exactly one of `token`, `token_sha256` and `subject`";
            report.error(at, what, "write exactly one of them");
            None
        }
    }
}

/// Compiles the TLS settings of the admin API. With `client_ca`, every client must present a certificate, unless some users have tokens.
fn server(
    tls: &Spanned<AdminTls>,
    with_tokens: bool,
    report: &mut Report,
) -> Option<plan::AdminTls> {
    let AdminTls { certificate, key, client_ca } = &tls.value;
    let authorities = match client_ca {
        Some(file) => Some((file.at, files::read(file, report)?)),
        None => None,
    };
    let server = tls_server(certificate, key, authorities, with_tokens, report)?;
    let named = [Some(certificate), Some(key), client_ca.as_ref()].into_iter().flatten();
    let files = named.map(|file| file.value.as_path().to_owned()).collect::<Vec<PathBuf>>();
    let requires_certificates = client_ca.is_some() && !with_tokens;
    Some(plan::AdminTls { server, files, requires_certificates })
}

pub(crate) fn tls_server(
    certificate: &Spanned<FilePath>,
    key: &Spanned<FilePath>,
    authorities: Option<(At, Vec<u8>)>,
    client_optional: bool,
    report: &mut Report,
) -> Option<Server> {
    let at = authorities.as_ref().map_or(certificate.at, |(at, _)| *at);
    let spec = ServerSpec {
        // An expired certificate is a warning, because the admin API is where an operator sees that it has expired.
        default: files::pair(certificate, key, false, report)?,
        names: Vec::new(),
        versions: vec![Version::Tls12, Version::Tls13],
        client_ca: authorities.map(|(_, pem)| pem),
        client_optional,
        http2: false,
    };
    // The certificate was validated above, so the error must be in the certificate authorities.
    Server::new(&spec).map_err(|error| files::complain(&error, at, at, report)).ok()
}

/// Returns an origin in the form that browsers send.
fn origin(written: &Spanned<String>, report: &mut Report) -> Option<String> {
    let text = written.value.to_ascii_lowercase();
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_good = authority.is_some_and(|authority| {
        let good = |c: char| c.is_ascii_alphanumeric() || "-.:[]_".contains(c);
        !authority.is_empty() && authority.chars().all(good)
    });
    if !is_good {
        let what = "this is not the origin of a web page";
        report.error(written.at, what, "write scheme, host and port: `https://ops.example.com`");
    }
    is_good.then_some(text)
}

fn host(written: &Spanned<String>, report: &mut Report) -> Option<String> {
    let text = written.value.to_ascii_lowercase();
    let good = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_good = !text.is_empty() && text.chars().all(good);
    if !is_good {
        let what = "this is not the name of a host";
        report.error(written.at, what, "write a name without a port: `gateway.example.com`");
    }
    is_good.then_some(text)
}

/// Compiles the status listener, for health probes and metrics scrapers.
fn status(config: &Config, report: &mut Report) -> Option<StatusListener> {
    let written = config.status.as_ref()?;
    let tls = match &written.tls {
        Some(tls) => {
            let (certificate, key) = (&tls.value.certificate, &tls.value.key);
            Some(tls_server(certificate, key, None, false, report)?)
        }
        None => None,
    };
    Some(StatusListener { address: written.address.value.0, tls })
}

/// Compiles `control`: how the gateways that share the store also share one configuration.
fn follow(config: &Config, report: &mut Report) -> Option<Follow> {
    let written = config.control.as_ref()?;
    let store = config.store.as_ref();
    if store.is_none_or(|store| store.value.postgres.is_none()) {
        let what = "`follow: store` needs a store that several gateways share";
        report.error(
            written.follow.at,
            what,
            "write `store: { postgres: URL }`, or leave `control` out",
        );
    }
    Some(Follow {
        canary: listeners::count(written.canary.get()),
        hold: written.hold,
        error_rate: f64::from(written.error_rate.of_million()) / 1e6,
    })
}

/// Compiles the destination of the audit log. An unchanged receiver is taken over from the previous plan.
fn audit_log(
    config: &Config,
    previous: Option<&Plan>,
    telemetry: &Telemetry,
    report: &mut Report,
) -> AuditSink {
    let Some(log) = &config.telemetry.audit_log else { return AuditSink::Own };
    match &log.to.value {
        LogTo::Stdout => AuditSink::Stdout,
        LogTo::Stderr => AuditSink::Stderr,
        LogTo::File(path) => {
            AuditSink::File(files::log("audit log", path.as_path(), log.to.at, report))
        }
        LogTo::Receiver(receiver) => {
            let Some(receiver) = log_receivers::lines(receiver, report) else {
                return AuditSink::Own;
            };
            AuditSink::Receiver(match previous.map(|plan| &plan.audit_log) {
                Some(AuditSink::Receiver(known)) if *known.receiver() == receiver => known.clone(),
                _ => {
                    Arc::new(AuditReceiver::new(receiver, telemetry.total(Total::AuditLogDropped)))
                }
            })
        }
    }
}
