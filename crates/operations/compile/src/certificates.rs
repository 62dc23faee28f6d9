//! Lists the certificates that a configuration names, for display to operators.

use config::{Config, FilePath, Report, Spanned};
use plan::ShownCertificate;

use crate::files;

/// Returns the certificates that listeners, upstreams, the admin API, the status listener and the catalog present to peers, in this order.
/// Returns nothing if the configuration has errors. Faulty files are reported where the certificates are used.
pub(crate) fn shown(config: &Config, report: &mut Report) -> Vec<ShownCertificate> {
    if report.has_errors() {
        return Vec::new();
    }
    let mut all: Vec<(&'static str, String, &Spanned<FilePath>)> = Vec::new();
    for (name, listener) in config.listen.iter() {
        let Some(tls) = &listener.tls else { continue };
        // A certificate that the gateway makes itself has no file.
        all.extend(tls.value.certificate.iter().map(|file| ("listener", name.value.clone(), file)));
        for (host, certificate) in tls.value.sni.iter() {
            let name = format!("{} {}", name.value, host.value);
            all.push(("listener", name, &certificate.certificate));
        }
    }
    for (name, upstream) in config.upstreams.iter() {
        let certificate = upstream.tls.certificate.as_ref();
        all.extend(certificate.map(|file| ("upstream", name.value.clone(), file)));
    }
    let admin = config.admin.as_ref().and_then(|admin| admin.tls.as_ref());
    all.extend(admin.map(|tls| ("admin", "admin".to_owned(), &tls.value.certificate)));
    let status = config.status.as_ref().and_then(|status| status.tls.as_ref());
    all.extend(status.map(|tls| ("status", "status".to_owned(), &tls.value.certificate)));
    let catalog =
        config.catalog.as_ref().and_then(|catalog| catalog.value.listen.value.tls.as_ref());
    all.extend(catalog.map(|tls| ("catalog", "catalog".to_owned(), &tls.value.certificate)));
    let read = |(kind, name, file): (&'static str, String, &Spanned<FilePath>)| {
        let pem = files::read(file, report)?;
        let details = tls::CertificateDetails::of_pem(&pem)?;
        Some(ShownCertificate { kind, name, file: file.value.as_path().to_owned(), details })
    };
    // Harmless: the files were read and checked before. If one has become unreadable since, `files::read` complains.
    all.into_iter().filter_map(read).collect()
}
