//! A MariaDB server of one test, with its own folder.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{Identity, until};

/// A running server with the user `tester`, whose password is `geheim`, and the database `shop`. It is killed with the test.
pub(crate) struct MariaDb {
    process: Child,
    folder: TempDir,
    port: u16,
}

/// Ports that are tried until one stays free between the moment it is found and the server's start.
const ATTEMPTS: usize = 5;

impl MariaDb {
    #[track_caller]
    pub(crate) fn start() -> MariaDb {
        MariaDb::start_in(tempfile::tempdir().unwrap(), &[])
    }

    /// A server with TLS and this certificate.
    #[track_caller]
    pub(crate) fn start_tls(identity: &Identity) -> MariaDb {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let certificate = format!("--ssl-cert={}", file("tls.pem", &identity.certificate));
        let key = format!("--ssl-key={}", file("tls.key", &identity.key));
        MariaDb::start_in(folder, &[&certificate, &key])
    }

    #[track_caller]
    fn start_in(folder: TempDir, more: &[&str]) -> MariaDb {
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let data = folder.path().join("data");
        // Servers that are set up at the same time must not share their temporary tables.
        let made = Command::new("mariadb-install-db")
            .env("TMPDIR", folder.path())
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(["--user=root", "--skip-name-resolve"])
            .arg(format!("--datadir={}", data.display()))
            .output()
            .expect("mariadb-install-db; scripts/setup.sh installs it");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for _ in 0..ATTEMPTS {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let log = std::fs::File::create(folder.path().join("log")).unwrap();
            let mut process = Command::new("mariadbd")
                .env("TMPDIR", folder.path())
                .args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1"])
                .args(["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0"])
                .arg("--max-allowed-packet=64M")
                .arg(format!("--datadir={}", data.display()))
                .arg(format!("--socket={}", folder.path().join("socket").display()))
                .arg(format!("--port={port}"))
                .args(more)
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .expect("mariadbd; scripts/setup.sh installs it");
            let mut is_up = false;
            until("the server is up or has ended", || {
                is_up = ask(folder.path(), "select 1").is_ok();
                is_up || process.try_wait().unwrap().is_some()
            });
            if is_up {
                let server = MariaDb { process, folder, port };
                server.sql(
                    "create user tester@'%' identified by 'geheim'; grant all on *.* to tester@'%'; create database shop character set utf8mb4",
                );
                return server;
            }
        }
        panic!("no server: {}", std::fs::read_to_string(folder.path().join("log")).unwrap());
    }

    /// Its address, with the user and the password.
    pub(crate) fn url(&self) -> String {
        format!("mysql://tester:geheim@127.0.0.1:{}/shop", self.port)
    }

    /// Its address by the socket in its folder.
    pub(crate) fn socket_url(&self) -> String {
        let socket = self.folder.path().join("socket").display().to_string().replace('/', "%2F");
        format!("mysql://tester:geheim@/shop?socket={socket}")
    }

    /// Runs statements as root, and gives the rows of the last: columns divided by tabs.
    #[track_caller]
    pub(crate) fn sql(&self, statements: &str) -> String {
        ask(self.folder.path(), statements).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        // Harmless for a test: it may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ask(folder: &Path, statements: &str) -> Result<String, String> {
    let output = Command::new("mariadb")
        .args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"])
        .arg(format!("--socket={}", folder.join("socket").display()))
        .arg(format!("--execute={statements}"))
        .output()
        .expect("mariadb; scripts/setup.sh installs it");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.kill();
    }
}
