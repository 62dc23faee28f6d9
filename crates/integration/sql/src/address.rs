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
    MySql(Box<MySqlAddress>),
    Sqlite {
        path: PathBuf,
        mode: SqliteMode,
    },
}

/// The address of a MySQL server. It is shown without user and password.
#[derive(Clone, PartialEq, Eq)]
pub struct MySqlAddress {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: Option<String>,
    pub database: Option<String>,
    /// The path of a Unix socket, in place of host and port.
    pub socket: Option<PathBuf>,
    pub tls: TlsMode,
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

/// The error of a malformed URL. It never quotes the URL, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError(pub String);

const MYSQL: &[&str] = &["mysql://", "mariadb://"];
const POSTGRES: &[&str] = &["postgres://", "postgresql://"];

impl Address {
    /// Parses a URL. A relative path is left unchanged.
    pub fn parse(url: &str) -> Result<Address, AddressError> {
        if let Some(rest) = url.strip_prefix("sqlite:") {
            return sqlite(rest);
        }
        if let Some(rest) = MYSQL.iter().find_map(|scheme| url.strip_prefix(scheme)) {
            return mysql(rest).map(|address| Address::MySql(Box::new(address)));
        }
        if POSTGRES.iter().any(|scheme| url.starts_with(scheme)) {
            return postgres(url);
        }
        let what = "it begins neither with `postgres://` nor with `mysql://` nor with `sqlite:`";
        Err(AddressError(what.to_owned()))
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
    // A database in memory is refused, because each connection would get a different one.
    if path.is_empty() || path == ":memory:" {
        Err(AddressError("a file must follow `sqlite:`".to_owned()))
    } else {
        Ok(Address::Sqlite { path: path.into(), mode })
    }
}

/// Parses the part after the scheme. Only the parameters `sslmode` and `socket` are known.
fn mysql(rest: &str) -> Result<MySqlAddress, AddressError> {
    let wrong = |what: &str| AddressError(what.to_owned());
    let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = front.split_once('/').unwrap_or((front, ""));
    let (user, place) = authority.rsplit_once('@').ok_or_else(|| wrong("it names no user"))?;
    let (user, password) = match user.split_once(':') {
        Some((user, password)) => (user, Some(decoded(password)?)),
        None => (user, None),
    };
    let (host, port) = host_and_port(place)?;
    let mut address = MySqlAddress {
        host: host.to_owned(),
        port,
        user: decoded(user)?,
        password,
        database: Some(decoded(database)?).filter(|name| !name.is_empty()),
        socket: None,
        tls: TlsMode::Prefer,
    };
    let mut seen = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if seen.contains(&name) {
            return Err(AddressError(format!("`{name}` occurs twice")));
        }
        seen.push(name);
        match name {
            "sslmode" => address.tls = tls_mode(value)?,
            "socket" => address.socket = Some(decoded(value)?.into()),
            _ => return Err(wrong("after `?` write `sslmode=MODE` or `socket=FILE`")),
        }
    }
    if address.user.is_empty() {
        return Err(wrong("it names no user"));
    }
    if address.host.is_empty() && address.socket.is_none() {
        return Err(wrong("it names no host"));
    }
    Ok(address)
}

fn host_and_port(place: &str) -> Result<(&str, u16), AddressError> {
    let (host, port) = match place.rsplit_once(':') {
        // The colons are those of an IPv6 address.
        Some(_) if place.ends_with(']') => (place, 3306),
        Some((host, port)) => {
            let wrong = || AddressError("its port is not a number up to 65535".to_owned());
            (host, kit::digits::whole(port).ok_or_else(wrong)?)
        }
        None => (place, 3306),
    };
    Ok((host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port))
}

fn decoded(text: &str) -> Result<String, AddressError> {
    let bytes = kit::percent::decoded(text.as_bytes(), false).into_owned();
    String::from_utf8(bytes).map_err(|_| AddressError("an escape in it is not UTF-8".to_owned()))
}

fn tls_mode(mode: &str) -> Result<TlsMode, AddressError> {
    match mode {
        "disable" => Ok(TlsMode::Disable),
        "allow" | "prefer" => Ok(TlsMode::Prefer),
        "require" | "verify-ca" | "verify-full" => Ok(TlsMode::Require),
        _ => {
            let modes = "`sslmode` must be `disable`, `prefer`, `require` or `verify-full`";
            Err(AddressError(modes.to_owned()))
        }
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
            Some(("sslmode", mode)) => tls = tls_mode(mode)?,
            Some((
                "sslrootcert" | "sslcert" | "sslkey" | "channel_binding" | "sslnegotiation",
                _,
            )) => {
                return Err(AddressError(format!(
                    "`{name}` is not supported; configure certificates in `tls`"
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
            Address::MySql(address) => write!(f, "{address}"),
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

impl fmt::Debug for MySqlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string())
    }
}

impl fmt::Display for MySqlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.database.as_deref().unwrap_or("");
        match &self.socket {
            Some(socket) => write!(f, "mysql://{}/{database}", socket.display()),
            None => write!(f, "mysql://{}/{database}", self.host),
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
            ("mysql://u:hunter2%40@db.local:3307/shop?sslmode=require", "mysql://db.local/shop"),
            ("mariadb://u@[::1]/shop", "mysql://::1/shop"),
            ("mysql://u:p@/shop?socket=/run/my.sock", "mysql:///run/my.sock/shop"),
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
    fn errors_of_malformed_urls_do_not_show_secrets() {
        for url in [
            "mysql://u:hunter2@a/b?sslmode=maybe",
            "mysql://u:hunter2@a/b?x=1",
            "mysql://u:hunter2@a:x/b",
            "mysql://u:hunter2@a:70000/b",
            "mysql://u:hunter2@a:+1/b",
            "mysql://u:hunter2@/b",
            "mysql://:hunter2@a/b",
            "mysql://a/b",
            "mysql://u:%ff@a/b",
            "oracle://u:hunter2@a/b",
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
