//! A start with many subscriptions and topics.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::deliver::{publish, send_forms};
use crate::gateway::Gateway;
use crate::subscribers::{Subscribers, secret};
use crate::wire::Wire;
use crate::{Arguments, Row};

/// The time until what a start needs only once is given back.
const SETTLE: Duration = Duration::from_secs(5);
/// The time over which idle CPU is measured.
const IDLE: Duration = Duration::from_secs(5);
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Subscribers of the first topic. An event that has reached them all shows that all subscriptions are taken over: they are
/// read in sixteen parts, in each of which some of these are.
const OF_FIRST: usize = 300;

#[derive(Default)]
struct Measured {
    subscribing: Duration,
    empty: f64,
    listens: Duration,
    delivers: Duration,
    at_once: f64,
    resident: f64,
    idle: Duration,
}

pub(crate) fn measure(arguments: &Arguments) -> io::Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&arguments.folder)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = LocalSet::new().block_on(&runtime, run(arguments, folder.path()))?;
    let what = format!("{} subscriptions, {} topics", arguments.subscriptions, arguments.topics);
    let (listens, delivers) = (measured.listens.as_secs_f64(), measured.delivers.as_secs_f64());
    let Measured { empty, at_once, resident, .. } = measured;
    let idle = measured.idle.as_secs_f64() * 1e3 / IDLE.as_secs_f64();
    let subscribing = measured.subscribing.as_secs_f64();
    Ok(vec![
        Row::new(
            format!("{what}: from the start of the process"),
            format!("{listens:.2} s until it listens, {delivers:.2} s until an event has reached {OF_FIRST} of all parts"),
        )
        .with_target("2 s", delivers < 2.0),
        Row::new(
            "resident memory with them",
            format!("{resident:.0} MiB ({at_once:.0} at once, {empty:.0} with topics alone)"),
        )
        .with_target("120 MiB", resident <= 120.0),
        Row::new("CPU while nothing happens", format!("{idle:.0} ms each second")),
        Row::new("subscribing all of them", format!("{subscribing:.1} s")),
    ])
}

async fn run(arguments: &Arguments, folder: &Path) -> io::Result<Measured> {
    let topics: Vec<String> = (0..arguments.topics).map(|n| format!("topic-{n}")).collect();
    let keys = format!(
        "{{ topics: [{}], verify: false, callbacks: {{ allow: [\"127.0.0.0/8\"] }}, subscriptions_max: 1000000 }}",
        topics.join(", ")
    );
    let program = arguments.program();
    let (subscribers, origins) =
        Subscribers::serve(arguments.subscriptions, arguments.origins).await?;
    let mut measured = Measured::default();
    let gateway = Gateway::start(&program, folder, &keys)?;
    measured.empty = gateway.resident_mib()?;
    let began = Instant::now();
    send_forms(gateway.public, forms(arguments, &origins)).await?;
    measured.subscribing = began.elapsed();
    gateway.stop()?;

    let gateway = Gateway::start(&program, folder, &keys)?;
    measured.listens = gateway.began.elapsed();
    let mut publisher = Wire::connect(gateway.public).await?;
    publish(&mut publisher, "topic-0", b"the first event").await?;
    let last = subscribers.until(OF_FIRST.min(arguments.subscriptions), WAIT_MAX).await?;
    measured.delivers = last.duration_since(gateway.began);
    measured.at_once = gateway.resident_mib()?;
    tokio::time::sleep(SETTLE).await;
    measured.resident = gateway.resident_mib()?;
    let before = gateway.cpu()?;
    tokio::time::sleep(IDLE).await;
    measured.idle = gateway.cpu()?.saturating_sub(before);
    Ok(measured)
}

fn forms(arguments: &Arguments, origins: &[SocketAddr]) -> Vec<String> {
    let numbers = (0..arguments.subscriptions).zip(origins.iter().cycle());
    let form = |(number, origin): (usize, &SocketAddr)| {
        let others = arguments.topics.saturating_sub(1).max(1);
        let topic = if number < OF_FIRST { 0 } else { 1 + number % others };
        let secret = secret(number);
        format!(
            "hub.mode=subscribe&hub.topic=topic-{topic}&hub.callback=http%3A%2F%2F{origin}%2Fs%2F{number}&hub.secret={secret}"
        )
    };
    numbers.map(form).collect()
}
