//! Migrations of tables from an older program to a newer one.

use std::time::{Duration, Instant};

use sql::Address;
use tokio::task::LocalSet;

use super::{STEPS, Session, StatementFailure, migrate_by};

#[path = "../../../../../../tests/harness/postgres.rs"]
#[allow(dead_code, reason = "other suites use the rest of this module")]
mod server;

/// The identity of a server with TLS. No server in this suite has one.
#[allow(dead_code, reason = "the black-box suite uses it")]
struct Identity {
    certificate: String,
    key: String,
}

/// Waits until `holds` returns true.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "a test waits in real time")]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The step of a program that is one version newer. It would fail if it ran twice.
const LATER: &str = "
    alter table tidegate.rows add column mark int not null default 7;
    create table tidegate.later (one int primary key);
    insert into tidegate.later values (1);
";

async fn connected(server: &server::Postgres) -> Session {
    let Ok(Address::Postgres { config, .. }) = Address::parse(&server.url()) else { panic!() };
    let connected = sql::postgres::Server::new(*config, None).connect().await;
    connected.unwrap_or_else(|_| panic!("no connection"))
}

#[tokio::test]
async fn tables_of_an_older_program_are_migrated_once_and_keep_their_rows() {
    let server = server::Postgres::start();
    let scene = async {
        migrate_by(&connected(&server).await, STEPS).await.unwrap();
        server.sql("insert into tidegate.rows values ('t', 'k', 1, 'v')");
        let newer = [STEPS, &[LATER]].concat();
        // A failed session releases its lock when it ends.
        let migrate = async |session: Session| migrate_by(&session, &newer).await;
        let (one, other) = (connected(&server).await, connected(&server).await);
        let both = tokio::join!(migrate(one), migrate(other));
        assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
        let rows = "select name, key, value, mark, (select count(*) from tidegate.later) from tidegate.rows";
        assert_eq!(server.sql(rows), "\\x74|\\x6b|\\x76|7|1");
        let known = newer.len();
        assert_eq!(server.sql("select version from tidegate.schema"), known.to_string());
        // The older program refuses the tables and does not change them.
        let older = migrate_by(&connected(&server).await, STEPS).await;
        assert!(matches!(older, Err(StatementFailure::Newer(_))), "{older:?}");
        assert_eq!(server.sql("select version from tidegate.schema"), known.to_string());
    };
    LocalSet::new().run_until(scene).await;
}

#[tokio::test]
async fn a_failed_step_leaves_nothing_and_locks_nobody_out() {
    let server = server::Postgres::start();
    let scene = async {
        migrate_by(&connected(&server).await, STEPS).await.unwrap();
        let version = server.sql("select version from tidegate.schema");
        let broken = [STEPS, &[LATER, "alter table tidegate.none add column x int"]].concat();
        let session = connected(&server).await;
        let failed = migrate_by(&session, &broken).await;
        assert!(matches!(failed, Err(StatementFailure::Refused(_))), "{failed:?}");
        drop(session);
        assert_eq!(server.sql("select to_regclass('tidegate.later') is null"), "t");
        assert_eq!(server.sql("select version from tidegate.schema"), version);
        // This would wait forever if the failed session still held the lock.
        migrate_by(&connected(&server).await, &[STEPS, &[LATER]].concat()).await.unwrap();
        assert_eq!(server.sql("select count(*) from tidegate.later"), "1");
    };
    LocalSet::new().run_until(scene).await;
}
