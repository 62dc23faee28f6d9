//! Reads and checks the files that the configuration names, mostly in PEM. Each file is checked on its own, so that a complaint names the
//! file that caused it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use config::{At, FilePath, Report, Spanned};
use mediation::json_schema::Schema;
use plan::Plan;
use tls::{Certificate, CertificateProblem, Error, Pair, Server, ServerSpec, Version};

/// The bound on a PEM file. A bundle of all public certificate authorities has about 250 kB.
const PEM_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The bound on a file that serves as a body, the same as the default bound on a body in a flow.
const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads a PEM file.
pub(crate) fn read(file: &Spanned<FilePath>, report: &mut Report) -> Option<Vec<u8>> {
    let help =
        "name a PEM file that the gateway may read; a relative path starts at this file's folder";
    read_bounded(file, PEM_BYTES_MAX, help, report)
}

/// Reads a file that holds a body or a schema.
pub(crate) fn read_document(file: &Spanned<FilePath>, report: &mut Report) -> Option<Vec<u8>> {
    let help = "name a file that can be read; a relative path starts at this file's folder";
    read_bounded(file, BODY_BYTES_MAX, help, report)
}

/// Reads and compiles a JSON Schema. Its patterns are ECMAScript regular expressions.
pub(crate) fn json_schema(
    file: &Spanned<FilePath>,
    compile: impl FnOnce(&serde_json::Value) -> Result<Schema, String>,
    report: &mut Report,
) -> Option<Schema> {
    let bytes = read_document(file, report)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8".to_owned());
    let read = text.and_then(config::json_text).map(import::portable_schema);
    match read.and_then(|schema| compile(&schema)) {
        Ok(schema) => Some(schema),
        Err(what) => {
            let what = format!("`{}`: {what}", file.value.as_path().display());
            report.error(file.at, what, "correct the schema");
            None
        }
    }
}

fn read_bounded(
    file: &Spanned<FilePath>,
    bytes_max: u64,
    help: &str,
    report: &mut Report,
) -> Option<Vec<u8>> {
    let path = file.value.as_path();
    let mut bytes = Vec::new();
    let read = config::open(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes));
    let fault = match read {
        Ok(_) if u64::try_from(bytes.len()).is_ok_and(|len| len <= bytes_max) => {
            return Some(bytes);
        }
        Ok(_) => format!("it is larger than {bytes_max} bytes"),
        Err(error) => config::reason(&error),
    };
    report.error(file.at, format!("cannot read `{}`: {fault}", path.display()), help);
    None
}

/// The certificates of the plan in service, which a reload may replace by renewed ones.
#[derive(Clone, Copy)]
pub(crate) struct InService<'p>(Option<&'p Plan>);

impl<'p> InService<'p> {
    /// No certificates in service. Used for certificates that the plan in service does not record.
    pub(crate) const NONE: InService<'static> = InService(None);

    pub(crate) fn of(previous: Option<&'p Plan>) -> InService<'p> {
        InService(previous)
    }

    /// Returns true if the certificate presented at a place has not expired.
    pub(crate) fn is_valid_at(self, place: &str) -> bool {
        // Harmless: without a plan in service, no certificate is presented yet.
        let shown = self.0.map(Plan::certificates).unwrap_or_default();
        let now = i64::try_from(kit::clock::wall().as_secs()).unwrap_or(i64::MAX);
        shown.iter().any(|shown| *shown.place == *place && shown.not_after >= now)
    }
}

/// Reads a certificate and its key, and checks that they belong together. `replaces_valid`: the certificate now in service at this place is
/// valid.
pub(crate) fn pair(
    certificate: &Spanned<FilePath>,
    key: &Spanned<FilePath>,
    replaces_valid: bool,
    report: &mut Report,
) -> Option<Pair> {
    let certificate_pem = read(certificate, report);
    let key_pem = read(key, report);
    let pair = Pair { certificate: certificate_pem?, key: key_pem? };
    if !is_presentable(&pair, certificate, replaces_valid, report) {
        return None;
    }
    let spec = ServerSpec {
        default: pair.clone(),
        names: Vec::new(),
        versions: vec![Version::Tls13],
        client_ca: None,
        client_optional: false,
        http2: false,
    };
    match Server::new(&spec) {
        Ok(_) => Some(pair),
        Err(error) => {
            complain(&error, certificate.at, key.at, report);
            None
        }
    }
}

/// Returns true if a certificate may be presented. Concerns about it are warnings, with two exceptions, which are errors: a certificate of
/// version 1, and one that has expired or is not yet valid and would replace a valid one.
fn is_presentable(
    pair: &Pair,
    file: &Spanned<FilePath>,
    replaces_valid: bool,
    report: &mut Report,
) -> bool {
    // A certificate that cannot be parsed is reported where it is used.
    let Ok(certificate) = Certificate::of_pem(&pair.certificate) else { return true };
    let name = file.value.as_path().display().to_string();
    let mut presentable = true;
    for concern in certificate.concerns(kit::clock::wall()) {
        match concern {
            CertificateProblem::Version1 => {
                presentable = false;
                report.error(file.at, concern.to_string(), concern.help(&name));
            }
            CertificateProblem::Expired { .. } | CertificateProblem::NotYetValid { .. }
                if replaces_valid =>
            {
                presentable = false;
                let what = format!("{concern}; the valid certificate in use stays in place");
                report.error(file.at, what, concern.help(&name));
            }
            CertificateProblem::Authority
            | CertificateProblem::Expired { .. }
            | CertificateProblem::NotYetValid { .. }
            | CertificateProblem::ExpiresSoon { .. } => {
                report.warn(file.at, concern.to_string(), concern.help(&name));
            }
        }
    }
    presentable
}

/// Complains about a TLS error at the place of the file that caused it.
pub(crate) fn complain(error: &Error, certificate: At, key: At, report: &mut Report) {
    let (at, help) = match error {
        Error::Certificate(_) => {
            (certificate, "name a PEM file with `-----BEGIN CERTIFICATE-----`")
        }
        Error::Key(_) => (key, "name a PEM file with an unencrypted `-----BEGIN PRIVATE KEY-----`"),
        Error::Mismatch(_) => (key, "name the key that belongs to the certificate"),
        Error::Authority(_) => {
            (certificate, "name a PEM file with the certificates of the authorities to trust")
        }
        Error::Versions => (certificate, "write `versions: [1.2, 1.3]`"),
        Error::Name(_) => (certificate, "write the DNS name or the address in the certificate"),
    };
    report.error(at, error.to_string(), help);
}

/// Returns the path of a log file. Complains about faults that can be seen without opening it.
pub(crate) fn log(what: &str, path: &Path, at: At, report: &mut Report) -> PathBuf {
    if let Some(fault) = log_fault(path) {
        let what = format!("the {what} cannot be `{}`: {fault}", path.display());
        let help = "name a file in an existing folder, `stdout` or `stderr`";
        report.error(at, what, help);
    }
    path.to_owned()
}

fn log_fault(path: &Path) -> Option<&'static str> {
    if path.is_dir() {
        return Some("it is a folder");
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty())?;
    (!folder.is_dir()).then_some("there is no such folder")
}
