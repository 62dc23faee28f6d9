//! Publishing: many publishers at once, each with one event under way.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::deliver::body;
use crate::gateway::Gateway;
use crate::wire::Wire;
use crate::{Arguments, Row, quantile};

/// Bytes of an event.
const BYTES: usize = 1024;
/// The time before the measurement begins.
const WARM_UP: Duration = Duration::from_secs(1);
/// The pause between two syncs of our own beside the gateway's.
const PROBE: Duration = Duration::from_millis(50);

struct Measured {
    /// Of each event, in milliseconds, sorted.
    times: Vec<f64>,
    cpu: Duration,
    /// The mean of the gateway's own syncs, in milliseconds, and their number.
    sync_mean: f64,
    syncs: f64,
}

pub(crate) fn measure(arguments: &Arguments) -> io::Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&arguments.folder)?;
    let gateway = Gateway::start(&arguments.program(), folder.path(), "{ topics: [news] }")?;
    let is_over = Arc::new(AtomicBool::new(false));
    let probe = probe(folder.path(), is_over.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = LocalSet::new().block_on(&runtime, run(arguments, &gateway));
    is_over.store(true, Ordering::Relaxed);
    let mut probed = probe.join().unwrap_or_default();
    probed.sort_by(f64::total_cmp);
    Ok(rows(arguments, &measured?, &probed))
}

fn rows(arguments: &Arguments, measured: &Measured, probed: &[f64]) -> Vec<Row> {
    let count = measured.times.len() as f64;
    let rate = count / arguments.seconds.max(1) as f64;
    let (p50, p99) = (quantile(&measured.times, 0.5), quantile(&measured.times, 0.99));
    let limit = 3.0 * measured.sync_mean + 5.0;
    let each = measured.cpu.as_secs_f64() * 1e6 / count.max(1.0);
    let what = format!("{} publishers of 1 KiB, group commit", arguments.publishers);
    let batch = count / measured.syncs.max(1.0);
    vec![
        Row::new(what, format!("{rate:.0}/s, CPU {each:.1} us each, {batch:.1} events a sync"))
            .with_target("5,000/s where the disk allows", rate >= 5000.0),
        Row::new(
            "its latency, p50 and p99",
            format!("{p50:.2} and {p99:.2} ms; 3 x sync + 5 ms = {limit:.2} ms"),
        )
        .with_target("3 x sync + 5 ms", p99 <= limit),
        Row::new(
            "a sync in that time",
            format!(
                "mean {:.2} ms of the gateway's; p50 {:.2}, p99 {:.2} ms of 4 KiB beside it",
                measured.sync_mean,
                quantile(probed, 0.5),
                quantile(probed, 0.99)
            ),
        ),
    ]
}

async fn run(arguments: &Arguments, gateway: &Gateway) -> io::Result<Measured> {
    let count = |part: &str| gateway.metric(&format!("tidegate_store_sync_seconds_{part}"));
    load(gateway.public, arguments.publishers, WARM_UP).await?;
    let (cpu, sum, syncs) = (gateway.cpu()?, count("sum")?, count("count")?);
    let time = Duration::from_secs(arguments.seconds.max(1));
    let mut times = load(gateway.public, arguments.publishers, time).await?;
    let cpu = gateway.cpu()?.saturating_sub(cpu);
    let syncs = count("count")? - syncs;
    let sync_mean = (count("sum")? - sum) * 1e3 / syncs.max(1.0);
    times.sort_by(f64::total_cmp);
    Ok(Measured { times, cpu, sync_mean, syncs })
}

/// Publishes for so long, and gives the times of all events in milliseconds.
async fn load(gateway: SocketAddr, publishers: usize, time: Duration) -> io::Result<Vec<f64>> {
    let end = Instant::now() + time;
    let mut tasks = Vec::new();
    for number in 0..publishers as u64 {
        tasks.push(tokio::task::spawn_local(async move {
            let mut wire = Wire::connect(gateway).await?;
            let (mut times, mut event) = (Vec::new(), number << 32);
            while Instant::now() < end {
                event += 1;
                let head = format!(
                    "POST /hub/publish?topic=news HTTP/1.1\r\nHost: hub\r\nContent-Length: {BYTES}\r\n\r\n"
                );
                let request = [head.as_bytes(), &body(BYTES, event)].concat();
                let began = Instant::now();
                match wire.ask(&request).await? {
                    (200, _) => times.push(began.elapsed().as_secs_f64() * 1e3),
                    (status, _) => return Err(io::Error::other(format!("publishing: {status}"))),
                }
            }
            Ok(times)
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    Ok(times)
}

/// Syncs a file of its own beside the store at times, and gives the milliseconds of each.
fn probe(folder: &Path, is_over: Arc<AtomicBool>) -> io::Result<thread::JoinHandle<Vec<f64>>> {
    let mut file = fs::File::create(folder.join("probe"))?;
    Ok(thread::spawn(move || {
        let mut times = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            if file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).is_ok() {
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
            thread::sleep(PROBE);
        }
        times
    }))
}
