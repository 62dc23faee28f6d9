//! The words that mark secrets, and the texts that are shown in place of secrets.

/// The mask that replaces a secret. In a text that an operator sends, it stands for the value in service at the same path.
pub const MASK: &str = "***";

/// Maps of headers, parameters and so on, whose keys are not in the schema.
pub(crate) const FREE_MAPS: &[&str] =
    &["headers", "set", "add", "query", "parameters", "trailers", "form"];

/// Words that mark the name of a header or parameter as a credential.
pub(crate) const CREDENTIAL_WORDS: &[&str] =
    &["password", "secret", "token", "apikey", "api-key", "api_key", "credential"];

/// The text shown in place of a secret.
pub(crate) const NOT_SHOWN: &str = "(not shown)";

/// The beginning of a key or a certificate.
pub(crate) const PEM: &str = "-----BEGIN";
