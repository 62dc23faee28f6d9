//! Addresses of databases as Java's drivers know them.

use super::converter::Converter;
use crate::uri::escaped;
use crate::yaml::variable;

/// A kind of database, as far as statements differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vendor {
    Postgres,
    MySql,
    Sqlite,
}

impl Vendor {
    /// The kind of the database at an address, or `None` if the gateway does not support it.
    pub(super) fn of(url: &str) -> Option<Vendor> {
        // Harmless: a URL that cannot be read is refused by `database_at`.
        Some(match JdbcAddress::parse(url).ok()?.scheme {
            "postgres" => Vendor::Postgres,
            "mysql" => Vendor::MySql,
            _ => Vendor::Sqlite,
        })
    }
}

/// The URL of a database, and the differences from the driver.
#[derive(Debug, PartialEq, Eq)]
struct JdbcAddress {
    /// `postgres`, `mysql` or `sqlite`.
    scheme: &'static str,
    /// The part after user and password, or the file.
    rest: String,
    /// The name of the database.
    name: String,
    notes: Vec<String>,
}

/// Options of drivers that change nothing here: connections are replaced, and all text is UTF-8.
const WITHOUT_EFFECT: &[&str] = &[
    "autoReconnect",
    "autoReconnectForPools",
    "failOverReadOnly",
    "maxReconnects",
    "useUnicode",
    "allowPublicKeyRetrieval",
    "cachePrepStmts",
    "prepStmtCacheSize",
    "prepStmtCacheSqlLimit",
    "useServerPrepStmts",
    "tcpKeepAlive",
    "ApplicationName",
    "application_name",
];

impl JdbcAddress {
    /// Parses a URL. The error completes "`URL` is".
    fn parse(url: &str) -> Result<JdbcAddress, String> {
        if let Some(file) = url.strip_prefix("jdbc:sqlite:") {
            let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
            let (name, rest) = (name.to_owned(), file.to_owned());
            return Ok(JdbcAddress { scheme: "sqlite", rest, name, notes: Vec::new() });
        }
        const SERVERS: [(&str, &str); 3] = [
            ("jdbc:postgresql://", "postgres"),
            ("jdbc:mysql://", "mysql"),
            ("jdbc:mariadb://", "mysql"),
        ];
        // Harmless: any other URL is refused in the next line.
        let mut known =
            SERVERS.iter().filter_map(|(jdbc, it)| Some((url.strip_prefix(jdbc)?, *it)));
        let (rest, scheme) = known
            .next()
            .ok_or("a database that is not spoken to; PostgreSQL, MySQL, MariaDB and SQLite are")?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let name = place.split_once('/').map_or("", |(_, name)| name).to_owned();
        if scheme == "mysql" && place.contains([',', '(']) {
            return Err("an address of several servers, which has no counterpart".to_owned());
        }
        let (mode, notes) = tls_mode(options)?;
        let query = mode.map(|mode| format!("?sslmode={mode}")).unwrap_or_default();
        Ok(JdbcAddress { scheme, rest: format!("{place}{query}"), name, notes })
    }
}

impl Converter<'_> {
    /// Returns the name of the database at an address. `wanted` is used for an address that names none. A server's password goes into a
    /// variable of the environment.
    pub(super) fn database_at(
        &mut self,
        url: &str,
        user: &str,
        wanted: &str,
    ) -> Result<String, String> {
        let address = JdbcAddress::parse(url).map_err(|why| format!("`{url}` is {why}"))?;
        for note in &address.notes {
            self.note(note);
        }
        let wanted = if address.name.is_empty() { wanted } else { &address.name };
        if address.scheme == "sqlite" {
            return Ok(self.database(wanted, &format!("sqlite:{}", address.rest)));
        }
        if user.is_empty() {
            return Err("it names no user".to_owned());
        }
        let password = environment(wanted, "PASSWORD");
        self.note(&format!("the password is in the variable {password}"));
        self.out.stand_ins.insert(password.clone(), "stand-in".to_owned());
        let (user, password) = (escaped(user, b""), variable(&password));
        let url = format!("{}://{user}:{password}@{}", address.scheme, address.rest);
        Ok(self.database(wanted, &url))
    }

    /// Returns the name of a database that a container's data source describes elsewhere. Its URL goes into a variable of the environment.
    pub(super) fn database_of_source(&mut self, source: &str, wanted: &str) -> String {
        let name = environment(wanted, "URL");
        self.note(&format!("the data source {source} is the URL in the variable {name}"));
        let stand_in = "postgres://stand-in@stand-in.invalid/stand-in".to_owned();
        self.out.stand_ins.insert(name.clone(), stand_in);
        self.database(wanted, &variable(&name))
    }
}

/// Reads the options of a driver: those about TLS, and none of the others may matter.
fn tls_mode(options: &str) -> Result<(Option<&'static str>, Vec<String>), String> {
    let (mut mode, mut notes) = (None, Vec::new());
    // Files that were escaped twice have `&amp;`.
    let options = options.replace("&amp;", "&");
    for option in options.split(['&', ';']).filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let lower = value.to_ascii_lowercase();
        let wanted = match (key, &*lower) {
            ("useSSL", "false") | ("sslMode" | "sslmode", "disable" | "disabled") => "disable",
            ("sslMode" | "sslmode", "prefer" | "preferred" | "allow") => "prefer",
            ("useSSL" | "requireSSL" | "ssl" | "useSsl", "true" | "")
            | ("sslMode" | "sslmode", "require" | "required" | "trust") => {
                notes.push(format!("with `{option}` the server's certificate is verified, too"));
                "require"
            }
            ("sslMode" | "sslmode", "verify-ca" | "verify_ca") => {
                notes.push(format!("with `{option}` the name in the certificate is verified, too"));
                "verify-full"
            }
            ("sslMode" | "sslmode", "verify-full" | "verify_identity") => "verify-full",
            ("requireSSL" | "ssl" | "useSsl" | "verifyServerCertificate", "false") => continue,
            ("characterEncoding" | "characterSetResults", "utf8" | "utf-8" | "utf8mb4") => continue,
            (key, _) if WITHOUT_EFFECT.contains(&key) => continue,
            _ => return Err(format!("an address whose option `{option}` has no counterpart")),
        };
        mode = Some(wanted);
    }
    Ok((mode, notes))
}

/// The name of the variable of the environment for a part of an address.
fn environment(name: &str, what: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{}_{what}", name.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_drivers_are_read() {
        for (url, scheme, rest, name, notes) in [
            ("jdbc:mysql://db:3307/shop", "mysql", "db:3307/shop", "shop", 0),
            (
                "jdbc:mysql://db/shop?useSSL=false&autoReconnect=true",
                "mysql",
                "db/shop?sslmode=disable",
                "shop",
                0,
            ),
            ("jdbc:mariadb://db/shop?useSSL=true", "mysql", "db/shop?sslmode=require", "shop", 1),
            ("jdbc:postgresql://a,b/shop", "postgres", "a,b/shop", "shop", 0),
            ("jdbc:sqlite:/var/a.db", "sqlite", "/var/a.db", "a.db", 0),
        ] {
            let address = JdbcAddress::parse(url).unwrap();
            let JdbcAddress { scheme: scheme_of, rest: rest_of, name: name_of, notes: notes_of } =
                address;
            assert_eq!((scheme_of, &*rest_of, &*name_of), (scheme, rest, name), "{url}");
            assert_eq!(notes_of.len(), notes, "{url}: {notes_of:?}");
        }
        for url in [
            "jdbc:oracle:thin:@db:1521:shop",
            "jdbc:mysql://a,b/shop",
            "jdbc:mysql://db/shop?allowMultiQueries=true",
            "jdbc:postgresql://db/shop?currentSchema=x",
        ] {
            assert!(JdbcAddress::parse(url).is_err(), "{url}");
        }
    }
}
