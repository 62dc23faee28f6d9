//! The URL of a database.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr as _;

use tokio_postgres::config::{Host, SslMode};

/// The address of a database, parsed from its URL.
#[derive(Clone, PartialEq)]
pub enum Address {
    /// PostgreSQL: the settings of the connection, except for TLS.
    Postgres {
        config: Box<tokio_postgres::Config>,
        tls: TlsMode,
    },
    Sqlite {
        path: PathBuf,
        mode: SqliteMode,
    },
}

/// The use of TLS, as `sslmode` specifies. Unlike in libpq and its derivatives, `require` verifies the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// TLS is never used.
    Disable,
    /// TLS is used if the server supports it. The certificate is not verified, because an attacker in between could just as well deny
    /// support.
    Prefer,
    /// TLS is required, with a verified certificate.
    Require,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqliteMode {
    /// For reading only.
    ReadOnly,
    /// For reading and writing.
    ReadWrite,
    /// For reading and writing; the file is created if it does not exist.
    Create,
}

/// The error of a URL. It never quotes the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError(pub String);

const POSTGRES: &[&str] = &["postgres://", "postgresql://"];

impl Address {
    /// Parses a URL. The path of a relative file is left unchanged.
    pub fn parse(url: &str) -> Result<Address, AddressError> {
        if let Some(rest) = url.strip_prefix("sqlite:") {
            return sqlite(rest);
        }
        if POSTGRES.iter().any(|scheme| url.starts_with(scheme)) {
            postgres(url)
        } else {
            Err(AddressError("it begins neither with `postgres://` nor with `sqlite:`".to_owned()))
        }
    }
}

fn sqlite(rest: &str) -> Result<Address, AddressError> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mode = match query {
        "" | "mode=rwc" => SqliteMode::Create,
        "mode=rw" => SqliteMode::ReadWrite,
        "mode=ro" => SqliteMode::ReadOnly,
        _ => {
            return Err(AddressError("after `?` write `mode=ro`, `mode=rw` or `mode=rwc`".into()));
        }
    };
    // With a database in memory, each connection would get a different one.
    if path.is_empty() || path == ":memory:" {
        Err(AddressError("`sqlite:` is followed by a file".to_owned()))
    } else {
        Ok(Address::Sqlite { path: path.into(), mode })
    }
}

/// Parses `sslmode` here, because the client library supports fewer modes.
fn postgres(url: &str) -> Result<Address, AddressError> {
    let (front, query) = url.split_once('?').unwrap_or((url, ""));
    let mut tls = TlsMode::Prefer;
    let mut rest = Vec::new();
    let mut seen = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let name = part.split('=').next().unwrap_or_default();
        if seen.contains(&name) {
            return Err(AddressError(format!("`{name}` occurs twice")));
        }
        seen.push(name);
        match part.split_once('=') {
            Some(("sslmode", mode)) => {
                tls = match mode {
                    "disable" => TlsMode::Disable,
                    "allow" | "prefer" => TlsMode::Prefer,
                    "require" | "verify-ca" | "verify-full" => TlsMode::Require,
                    _ => {
                        let modes = "`sslmode` is `disable`, `prefer`, `require` or `verify-full`";
                        return Err(AddressError(modes.to_owned()));
                    }
                };
            }
            Some((
                "sslrootcert" | "sslcert" | "sslkey" | "channel_binding" | "sslnegotiation",
                _,
            )) => {
                return Err(AddressError(format!(
                    "`{name}` is not known here; certificates stand in `tls`"
                )));
            }
            Some(_) | None => rest.push(part),
        }
    }
    let url = format!("{front}?{}", rest.join("&"));
    let mut config = tokio_postgres::Config::from_str(&url).map_err(|error| {
        let why = std::error::Error::source(&error).map(ToString::to_string);
        AddressError(why.unwrap_or_else(|| error.to_string()))
    })?;
    if config.get_hosts().is_empty() {
        return Err(AddressError("it names no host".to_owned()));
    }
    if config.get_user().is_none() {
        return Err(AddressError("it names no user".to_owned()));
    }
    config.ssl_mode(match tls {
        TlsMode::Disable => SslMode::Disable,
        TlsMode::Prefer => SslMode::Prefer,
        TlsMode::Require => SslMode::Require,
    });
    if config.get_application_name().is_none() {
        config.application_name("tidegate");
    }
    Ok(Address::Postgres { config: Box::new(config), tls })
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string())
    }
}

impl fmt::Display for Address {
    /// Formats the address without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Sqlite { path, .. } => write!(f, "sqlite:{}", path.display()),
            Address::Postgres { config, .. } => {
                let hosts = config.get_hosts().iter().map(|host| match host {
                    Host::Tcp(name) => name.clone(),
                    Host::Unix(path) => path.display().to_string(),
                });
                let hosts: Vec<String> = hosts.collect();
                write!(f, "postgres://{}/", hosts.join(","))?;
                f.write_str(config.get_dbname().unwrap_or(""))
            }
        }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown_without_secrets() {
        for (url, shown) in [
            ("postgres://u:hunter2@db.local:5433/shop", "postgres://db.local/shop"),
            ("postgresql://u@[::1]/shop?sslmode=disable", "postgres://::1/shop"),
            ("postgres://u:p%40@/shop?host=/run/pg", "postgres:///run/pg/shop"),
            ("postgres://u@a,b/shop?sslmode=verify-full&connect_timeout=3", "postgres://a,b/shop"),
            ("sqlite:var/a.db", "sqlite:var/a.db"),
            ("sqlite:/a.db?mode=ro", "sqlite:/a.db"),
        ] {
            assert_eq!(
                Address::parse(url).map(|a| format!("{a} {a:?}")),
                Ok(format!("{shown} {shown}")),
                "{url}"
            );
        }
    }

    #[test]
    fn what_is_no_url_is_said_without_it() {
        for url in [
            "mysql://u:hunter2@a/b",
            "sqlite:",
            "sqlite::memory:",
            "sqlite:a?cache=shared",
            "postgres://u:hunter2@/b",
            "postgres://db/b",
            "postgres://u:hunter2@a:x/b",
            "postgres://u:hunter2@a/b?sslmode=maybe",
            "postgres://u:hunter2@a/b?sslrootcert=a.pem",
            "postgres://u:hunter2@a/b?nonsense=1",
            "postgres://u:hunter2@a/b?sslmode=verify-full&sslmode=disable",
        ] {
            let Err(AddressError(why)) = Address::parse(url) else { panic!("{url}") };
            assert!(!why.contains("hunter2") && !why.is_empty(), "{url}: {why}");
        }
    }
}
