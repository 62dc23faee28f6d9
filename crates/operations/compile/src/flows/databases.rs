//! Compiles `databases`, and the steps `sql` and `transaction`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::flows::{Action, Sql, Transaction};
use config::{Config, Report, Spanned, SqlStep, TransactionStep};
use sql::{Address, Database, DatabaseSettings, Dialect, Statement, TlsMode};

use super::steps::{StepKind, StepPlace};
use super::{Compiler, Namespaces};
use crate::listeners::count;
use crate::policy_builder::PolicyBuilder;
use crate::{names, upstream_tls};

/// A database that steps may name.
pub(super) struct FlowDatabase {
    database: Arc<Database>,
    is_sqlite: bool,
    dialect: Dialect,
    timeout: Duration,
    rows_max: usize,
}

/// Databases by name. The value is `None` for a database with faults.
pub(super) type Databases = HashMap<String, Option<FlowDatabase>>;

/// Compiles all databases and complains about their faults. A database whose keys did not change keeps its connections.
pub(super) fn compile(
    config: &Config,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Databases {
    let databases = config.databases.iter().map(|(name, keys)| {
        let known = settings(&name.value, keys, report).map(|settings| {
            let is_sqlite = matches!(settings.address, Address::Sqlite { .. });
            let dialect = match settings.address {
                Address::MySql(_) => Dialect::MySql,
                Address::Postgres { .. } | Address::Sqlite { .. } => Dialect::Standard,
            };
            // The displayed address omits the password, so the key must include the URL itself.
            let written = (&keys.url.value.text, keys.password.as_ref().map(|it| &it.0));
            let key = format!("database {written:?} {settings:?}");
            FlowDatabase {
                database: builder.reuse_or_build(&key, || Arc::new(Database::new(settings))),
                is_sqlite,
                dialect,
                timeout: keys.timeout.0,
                rows_max: count(keys.rows_max.get()),
            }
        });
        (name.value.clone(), known)
    });
    databases.collect()
}

fn settings(name: &str, keys: &config::Database, report: &mut Report) -> Option<DatabaseSettings> {
    let url = &keys.url;
    let mut address = match Address::parse(&url.value.text) {
        Ok(address) => address,
        Err(why) => {
            let help = "write `postgres://HOST:PORT/DATABASE` or `mysql://HOST:PORT/DATABASE`, with `USER:PASSWORD@` before the host, or `sqlite:FILE`";
            report.error(url.at, format!("the URL of a database is malformed: {why}"), help);
            return None;
        }
    };
    let mut tls = None;
    match &mut address {
        Address::MySql(server) => {
            if let Some(password) = &keys.password {
                server.password = Some(password.0.clone());
            }
            tls = client(keys, server.tls, report)?;
        }
        Address::Sqlite { path, .. } => {
            *path = url.value.file.clone()?;
            if let Some(folder) = path.parent()
                && !folder.as_os_str().is_empty()
                && !folder.is_dir()
            {
                let what = format!("there is no folder `{}`", folder.display());
                report.error(url.at, what, "name a file in an existing folder");
            }
        }
        Address::Postgres { config, tls: mode } => {
            if let Some(password) = &keys.password {
                config.password(&password.0);
            }
            tls = client(keys, *mode, report)?;
        }
    }
    Some(DatabaseSettings {
        name: name.to_owned(),
        address,
        tls,
        connections: count(keys.connections.get()),
    })
}

/// Returns the TLS client that `sslmode` asks for. The outer `None` means that there were complaints.
fn client(
    keys: &config::Database,
    mode: TlsMode,
    report: &mut Report,
) -> Option<Option<tls::Client>> {
    match mode {
        TlsMode::Disable => Some(None),
        TlsMode::Require => upstream_tls::client(&keys.tls, report).map(Some),
        TlsMode::Prefer => unverified(keys, report).map(Some),
    }
}

/// Returns a TLS client that does not verify the server's certificate, for `sslmode=prefer`.
fn unverified(keys: &config::Database, report: &mut Report) -> Option<tls::Client> {
    if let Some(ca) = &keys.tls.ca {
        let what = "the server is not verified, because `sslmode` does not require it";
        report.warn(ca.at, what, "write `?sslmode=require` at the end of the URL");
    }
    let spec = tls::ClientSpec { verify: false, ..tls::ClientSpec::default() };
    let told = |error: tls::Error| {
        report.error(
            keys.url.at,
            error.to_string(),
            "write `?sslmode=require` at the end of the URL",
        )
    };
    tls::Client::new(&spec).map_err(told).ok()
}

impl StepKind for SqlStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.sql(self, place.namespaces)?))
    }

    fn sets(&self) -> Vec<(&Spanned<String>, bool)> {
        self.into.iter().map(|name| (name, false)).collect()
    }

    fn subject(&self) -> String {
        self.database.value.clone()
    }
}

impl StepKind for TransactionStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.transaction(self, place)?))
    }

    fn subject(&self) -> String {
        self.database.value.clone()
    }
}

impl<'a> Compiler<'a, '_> {
    fn transaction(
        &mut self,
        keys: &'a TransactionStep,
        place: &StepPlace<'a, '_>,
    ) -> Option<Transaction> {
        let StepPlace { step, namespaces, depth } = *place;
        if keys.steps.0.is_empty() && step.intact {
            let help = "add steps, such as `steps: [{ sql: { database: shop, query: \"...\" } }]`";
            self.report.error(step.at, "a transaction needs steps", help);
        }
        let steps = self.inner("steps", &keys.steps, namespaces, depth);
        let database = self.known_database(&keys.database)?.database.clone();
        let name = keys.database.value.as_str().into();
        Some(Transaction { database, name, steps: steps? })
    }

    fn sql(&mut self, keys: &'a SqlStep, namespaces: &Namespaces) -> Option<Sql> {
        let arguments: Vec<Option<_>> =
            keys.arguments.iter().map(|text| self.expression(text, namespaces)).collect();
        let known = self.databases.get(&keys.database.value).and_then(Option::as_ref);
        let dialect = known.map_or(Dialect::Standard, |known| known.dialect);
        let wants = self.placeholders(&keys.query, dialect);
        if let Some(wants) = wants.filter(|wants| *wants != arguments.len()) {
            let has = arguments.len();
            let what = format!("the statement takes {wants} arguments, but gets {has}");
            let help = "write `$1`, `$2` and so on, and as many `arguments`";
            self.report.error(keys.query.at, what, help);
        }
        let into = match &keys.into {
            Some(name) => Some(self.table.variable(&name.value)?),
            None => None,
        };
        let known = self.database(&keys.database, &keys.query)?;
        let made = Sql {
            database: known.database.clone(),
            name: keys.database.value.as_str().into(),
            statement: Statement(keys.query.value.as_str().into()),
            arguments: Vec::new(),
            into,
            timeout: keys.timeout.map_or(known.timeout, |timeout| timeout.0),
            rows_max: keys.rows_max.map_or(known.rows_max, |rows| count(rows.get())),
        };
        wants?;
        Some(Sql { arguments: arguments.into_iter().collect::<Option<_>>()?, ..made })
    }

    fn placeholders(&mut self, query: &Spanned<String>, dialect: Dialect) -> Option<usize> {
        match sql::placeholders(&query.value, dialect) {
            Ok(wants) => Some(wants),
            Err(why) => {
                let help =
                    "write one statement, such as `select name from customers where id = $1`";
                self.report.error(
                    query.at,
                    format!("a flow cannot run this statement: {why}"),
                    help,
                );
                None
            }
        }
    }

    /// Returns a database by name. A statement for SQLite is checked as far as possible without its tables.
    fn database(
        &mut self,
        name: &Spanned<String>,
        query: &Spanned<String>,
    ) -> Option<&FlowDatabase> {
        if self.known_database(name)?.is_sqlite
            && let Some(why) = sql::syntax_of_sqlite(&query.value)
        {
            self.report.error(query.at, why, "correct the statement");
        }
        self.known_database(name)
    }

    fn known_database(&mut self, name: &Spanned<String>) -> Option<&FlowDatabase> {
        let Some(known) = self.databases.get(&name.value) else {
            names::known("database", name, &self.config.databases, self.report);
            return None;
        };
        known.as_ref()
    }
}
