//! Compiles `compress`.

use config::{Compress, Encoding, Report, Spanned};
use policies::compress::{self, CompressSettings, MediaType};

use super::{PolicyKind, PolicyPlace};
use crate::policy::RouteScope;

/// The default media types: text, and WebAssembly, which is not compressed. Images, audio and archives are already compressed.
const TYPES: &[&str] = &[
    "text/*",
    "*+json",
    "*+xml",
    "application/json",
    "application/xml",
    "application/javascript",
    "application/x-javascript",
    "application/graphql",
    "application/wasm",
    "application/yaml",
    "application/x-ndjson",
];

impl PolicyKind for Compress {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        if self.encodings.value.is_empty() && self.encodings.intact {
            let help = "write some of `zstd`, `br` and `gzip`, or remove the policy";
            report.error(self.encodings.at, "no algorithm is listed", help);
        }
        let types = match self.types.0.as_slice() {
            // Harmless: all constants are valid media types.
            [] => TYPES.iter().filter_map(|text| media_type(text)).collect(),
            written => written.iter().filter_map(|text| written_type(text, report)).collect(),
        };
        let settings = CompressSettings {
            encodings: self.encodings.value.iter().map(encoding).collect(),
            types,
            bytes_min: self.bytes_min.0,
        };
        compress::policy(settings, place.slots)
    }
}

fn encoding(encoding: &Encoding) -> compress::Encoding {
    match encoding {
        Encoding::Zstd => compress::Encoding::Zstd,
        Encoding::Br => compress::Encoding::Br,
        Encoding::Gzip => compress::Encoding::Gzip,
    }
}

fn written_type(text: &Spanned<String>, report: &mut Report) -> Option<MediaType> {
    let read = media_type(&text.value.to_ascii_lowercase());
    if read.is_none() {
        let what = format!("`{}` is not a content type", text.value.escape_debug());
        report.error(text.at, what, "write `application/json`, `text/*` or `*+json`");
    }
    read
}

fn media_type(text: &str) -> Option<MediaType> {
    if let Some(suffix) = text.strip_prefix("*+") {
        return is_token(suffix).then(|| MediaType::Suffix(format!("+{suffix}")));
    }
    let (kind, sub) = text.split_once('/').filter(|(kind, _)| is_token(kind))?;
    match sub {
        "*" => Some(MediaType::Prefix(format!("{kind}/"))),
        sub => is_token(sub).then(|| MediaType::Exact(text.to_owned())),
    }
}

fn is_token(text: &str) -> bool {
    http1::is_token(text.as_bytes()) && !text.contains('*')
}
