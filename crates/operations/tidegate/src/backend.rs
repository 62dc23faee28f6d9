//! `tidegate backend`.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use backends::{Answers, Kind, Options, Tls, Webhook};

use crate::arguments::Backend;
use crate::log;

/// The interval at which the counts of a webhook are printed.
const PRINTED_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn backend(arguments: &Backend) -> anyhow::Result<ExitCode> {
    let options = Options {
        address: SocketAddr::new(arguments.address, arguments.port),
        name: arguments.name.clone(),
        delay: arguments.delay,
        tls: tls(arguments),
        http2: true,
        answers: answers(arguments),
        webhook: Webhook::new(arguments.secret.clone()),
    };
    let webhook = options.webhook.clone();
    let address = options.address;
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let kind = arguments.kind;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime
        .block_on(async {
            let ready = |address| log::say(&format!("{}: {scheme}://{address}", kind.name()));
            let serving = backends::serve(kind, options, ready, interrupted());
            match kind {
                Kind::Webhook => tokio::select! {
                    served = serving => served,
                    never = print(&webhook) => match never {},
                },
                Kind::Echo
                | Kind::Httpbin
                | Kind::Sse
                | Kind::Reverse
                | Kind::Calculator
                | Kind::Interceptor => serving.await,
            }
        })
        .with_context(|| format!("{} on {address}", kind.name()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the counts of a webhook when they have changed.
async fn print(webhook: &Webhook) -> std::convert::Infallible {
    let mut before = webhook.statistics();
    loop {
        tokio::time::sleep(PRINTED_EVERY).await;
        let now = webhook.statistics();
        if now != before {
            log::say(&now.to_string());
            before = now;
        }
    }
}

fn answers(arguments: &Backend) -> Answers {
    let default = Answers::default();
    Answers {
        request: arguments.request_answer.clone().unwrap_or(default.request),
        response: arguments.response_answer.clone().unwrap_or(default.response),
        status: arguments.status,
        uppercase_body: arguments.capitals,
    }
}

fn tls(arguments: &Backend) -> Option<Tls> {
    match (&arguments.certificate, &arguments.key) {
        (Some(certificate), Some(key)) => Some(Tls::Files {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: arguments.client_ca.clone(),
        }),
        _ => arguments.tls.then_some(Tls::SelfSigned),
    }
}

/// Waits for Ctrl-C. If it cannot be caught, Ctrl-C ends the program at once.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
