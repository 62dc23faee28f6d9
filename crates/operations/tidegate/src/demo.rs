//! `tidegate demo`: runs a gateway and its backends in one process, sends requests, and prints the results.

use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use backends::{Backend, Kind, Options};
use tokio::runtime::LocalRuntime;

use crate::arguments::Demo;
use crate::log::{self, say};
use crate::run::{self, NotStarted, RunningGateway};

mod client;
mod shows;

/// The configuration, with placeholders for ports.
const CONFIGURATION: &str = include_str!("demo.yaml");

/// The backends of the demo. They stop when this is dropped.
struct Backends {
    echo_one: Backend,
    echo_two: Backend,
    httpbin: Backend,
    sse: Backend,
    reverse: Backend,
    calculator: Backend,
}

pub(crate) fn demo(options: &Demo) -> anyhow::Result<ExitCode> {
    let runtime = LocalRuntime::new()?;
    runtime.block_on(async {
        let backends = Backends::start()?;
        let folder = Folder::make()?;
        let file = folder.path.join("tidegate.yaml");
        std::fs::write(&file, backends.configuration(options))
            .with_context(|| file.display().to_string())?;
        let running = started(&file).await?;
        let gateway = running.public()?;
        say(&format!("gateway  http://{gateway}   configuration  {}\n", file.display()));
        let failed = shows::all(gateway, running.admin).await;
        say(&summary(gateway, running.admin, failed));
        if !options.once && std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
            say("\nIt stays up until Ctrl-C.");
            tokio::signal::ctrl_c().await?;
        }
        running.end(interrupted()).await;
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Waits for Ctrl-C, which is the second one on a terminal. If it cannot be caught, Ctrl-C ends the program at once.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn started(file: &Path) -> anyhow::Result<RunningGateway> {
    run::start(file).await.map_err(|why| match why {
        NotStarted::Complaints(report) => {
            anyhow!("the demo's own configuration is wrong:\n{report}")
        }
        NotStarted::Failed(error) => error,
    })
}

fn summary(gateway: SocketAddr, admin: Option<SocketAddr>, failed: usize) -> String {
    let mut text = match failed {
        0 => "\nAll requests had the expected results. Try it yourself:\n".to_owned(),
        n => format!("\n{n} requests had unexpected results. Try it yourself:\n"),
    };
    for line in ["/hello", "/echo/anything?you=like", "/orders/7", "/ticks?interval=1s"] {
        text.push_str(&format!("  curl -i  'http://{gateway}{line}'\n"));
    }
    let sum = r#"-H 'content-type: application/json' -d '{"a":40,"b":2}'"#;
    text.push_str(&format!("  curl -i  'http://{gateway}/add' {sum}\n"));
    text.push_str(&format!("  curl -i  'http://{gateway}/news/topics/sports?after=0'\n"));
    if let Some(admin) = admin {
        for (path, what) in [
            ("/", "dashboard"),
            ("/metrics", "metrics"),
            ("/config", "configuration"),
            ("/healthz", "alive?"),
        ] {
            text.push_str(&format!("  http://{admin}{path:<10} {what}\n"));
        }
    }
    text.trim_end().to_owned()
}

impl RunningGateway {
    fn public(&self) -> anyhow::Result<SocketAddr> {
        match self.gateway.addresses().first() {
            Some((_, address)) => Ok(*address),
            None => bail!("the gateway has no listener"),
        }
    }
}

impl Backends {
    fn start() -> anyhow::Result<Backends> {
        let start = |kind: Kind, name: &str| {
            let options = Options { name: Some(name.to_owned()), ..Options::default() };
            backends::spawn_thread(kind, options)
                .with_context(|| format!("cannot start the backend {name}"))
        };
        Ok(Backends {
            echo_one: start(Kind::Echo, "one")?,
            echo_two: start(Kind::Echo, "two")?,
            httpbin: start(Kind::Httpbin, "httpbin")?,
            sse: start(Kind::Sse, "sse")?,
            reverse: start(Kind::Reverse, "reverse")?,
            calculator: start(Kind::Calculator, "calculator")?,
        })
    }

    fn configuration(&self, options: &Demo) -> String {
        let backends = [
            ("{echo_one}", &self.echo_one),
            ("{echo_two}", &self.echo_two),
            ("{httpbin}", &self.httpbin),
            ("{sse}", &self.sse),
            ("{reverse}", &self.reverse),
            ("{calculator}", &self.calculator),
        ];
        let text = backends.iter().fold(CONFIGURATION.to_owned(), |text, (place, backend)| {
            text.replace(place, &backend.address().to_string())
        });
        text.replace("{port}", &free(options.port).to_string())
            .replace("{admin_port}", &free(options.admin_port).to_string())
    }
}

/// The wanted port, or 0 if it is in use, so that the demo does not fail.
fn free(port: u16) -> u16 {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => port,
        Err(e) => {
            log::say_error(&format!("port {port} is taken ({e}); another one is used"));
            0
        }
    }
}

/// A folder that is removed when this is dropped.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn make() -> anyhow::Result<Folder> {
        let path = std::env::temp_dir().join(format!("tidegate-demo-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Folder { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Harmless: at worst a small file stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
