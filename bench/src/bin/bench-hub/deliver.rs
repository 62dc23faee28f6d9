//! Deliveries: events to many subscribers by WebSub, one event after the other.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::gateway::{Gateway, resident_mib};
use crate::subscribers::{Subscribers, secret};
use crate::wire::Wire;
use crate::{Arguments, Row};

/// Subscribers that ask at once.
const ASKING: usize = 64;
/// The longest time of one event, and until all have confirmed.
const WAIT_MAX: Duration = Duration::from_secs(120);

const KEYS: &str = "{ topics: [news], callbacks: { allow: [\"127.0.0.0/8\"] }, delivery: { timeout: 30s }, subscriptions_max: 1000000 }";

struct Measured {
    /// From the publisher's request to the last delivery, for each event.
    times: Vec<Duration>,
    cpu: Duration,
    invalid: usize,
    repeated: usize,
    connections: usize,
}

pub(crate) fn measure(arguments: &Arguments) -> io::Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&arguments.folder)?;
    let gateway = Gateway::start(&arguments.program(), folder.path(), KEYS)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = LocalSet::new().block_on(&runtime, run(arguments, &gateway));
    let (measured, memory) = measured.map_err(|error| {
        io::Error::other(format!("{error}; the gateway says: {}", gateway.log()))
    })?;
    gateway.stop()?;
    Ok(rows(arguments, &measured, &memory))
}

fn rows(arguments: &Arguments, measured: &Measured, memory: &[f64]) -> Vec<Row> {
    let (count, events) = (arguments.subscribers, measured.times.len());
    let all = count * events;
    let each = measured.cpu.as_secs_f64() * 1e6 / all.max(1) as f64;
    let mut times: Vec<f64> = measured.times.iter().map(Duration::as_secs_f64).collect();
    times.sort_by(f64::total_cmp);
    let (least, median) = (crate::quantile(&times, 0.0), crate::quantile(&times, 0.5));
    let most = times.last().copied().unwrap_or_default();
    let what = format!("{events} events of {} bytes to {count} subscribers", arguments.bytes);
    let (invalid, repeated) = (measured.invalid, measured.repeated);
    let memory: Vec<String> = memory.iter().map(|mib| format!("{mib:.0}")).collect();
    vec![
        Row::new(
            format!("{what}: time to the last delivery"),
            format!("median {median:.2} s, {least:.2} to {most:.2} s"),
        ),
        Row::new(
            "delivered once, in order, with a valid signature",
            format!("{all} delivered, {invalid} invalid, {repeated} repeated"),
        )
        .with_target("all", invalid + repeated == 0),
        Row::new("gateway CPU per delivery, SHA-256", format!("{each:.1} us"))
            .with_target("30 us", each <= 30.0),
        Row::new("connections that the subscribers accepted", measured.connections.to_string()),
        Row::new("resident memory each second", format!("{} MiB", memory.join(" "))),
    ]
}

async fn run(arguments: &Arguments, gateway: &Gateway) -> io::Result<(Measured, Vec<f64>)> {
    let count = arguments.subscribers;
    let (subscribers, origins) = Subscribers::serve(count, arguments.origins).await?;
    subscribe(gateway.public, count, &origins).await?;
    let end = Instant::now() + WAIT_MAX;
    while subscribers.questions.get() < count {
        if Instant::now() > end {
            return Err(io::Error::other("not all subscribers were asked"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut publisher = Wire::connect(gateway.public).await?;
    // The first opens the connections, and shows that all are subscribed.
    publish(&mut publisher, "news", &body(arguments.bytes, 0)).await?;
    subscribers.until(count, WAIT_MAX).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let memory = watch(gateway.id(), is_over.clone());
    let before = gateway.cpu()?;
    let mut times = Vec::new();
    for event in 1..=arguments.events {
        let began = Instant::now();
        publish(&mut publisher, "news", &body(arguments.bytes, event as u64)).await?;
        let last = subscribers.until(count * (event + 1), WAIT_MAX).await?;
        times.push(last.duration_since(began));
    }
    let cpu = gateway.cpu()?.saturating_sub(before);
    is_over.store(true, Ordering::Relaxed);
    let measured = Measured {
        times,
        cpu,
        invalid: subscribers.invalid.get(),
        repeated: subscribers.repeated.get(),
        connections: subscribers.connections.get(),
    };
    Ok((measured, memory.join().unwrap_or_default()))
}

/// Looks at the memory of the gateway each second.
fn watch(id: u32, is_over: Arc<AtomicBool>) -> thread::JoinHandle<Vec<f64>> {
    thread::spawn(move || {
        let mut memory = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            memory.extend(resident_mib(id).ok());
            thread::sleep(Duration::from_secs(1));
        }
        memory
    })
}

async fn subscribe(gateway: SocketAddr, count: usize, origins: &[SocketAddr]) -> io::Result<()> {
    let forms = (0..count).zip(origins.iter().cycle()).map(|(number, origin)| {
        let (callback, secret) = (format!("http%3A%2F%2F{origin}%2Fs%2F{number}"), secret(number));
        format!("hub.mode=subscribe&hub.topic=news&hub.callback={callback}&hub.secret={secret}")
    });
    send_forms(gateway, forms.collect()).await
}

/// Sends forms of subscribers, many at once.
pub(crate) async fn send_forms(gateway: SocketAddr, forms: Vec<String>) -> io::Result<()> {
    let forms: Rc<[String]> = forms.into();
    let mut tasks = Vec::new();
    for first in 0..ASKING {
        let forms = forms.clone();
        tasks.push(tokio::task::spawn_local(async move {
            let mut wire = Wire::connect(gateway).await?;
            for form in forms.iter().skip(first).step_by(ASKING) {
                let request = format!(
                    "POST /hub HTTP/1.1\r\nHost: hub\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
                    form.len()
                );
                match wire.ask(request.as_bytes()).await? {
                    (202, _) => {}
                    (status, body) => {
                        let body = String::from_utf8_lossy(&body).into_owned();
                        return Err(io::Error::other(format!("subscribing: {status} {body}")));
                    }
                }
            }
            Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Publishes an event.
pub(crate) async fn publish(publisher: &mut Wire, topic: &str, body: &[u8]) -> io::Result<()> {
    let head = format!(
        "POST /hub/publish?topic={topic} HTTP/1.1\r\nHost: hub\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    match publisher.ask(&[head.as_bytes(), body].concat()).await? {
        (200, _) => Ok(()),
        (status, _) => Err(io::Error::other(format!("publishing: {status}"))),
    }
}

/// The body of an event: none is like another.
pub(crate) fn body(bytes: usize, event: u64) -> Vec<u8> {
    let mut state = event.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut body = Vec::with_capacity(bytes + 8);
    while body.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        body.extend_from_slice(&state.to_le_bytes());
    }
    body.truncate(bytes);
    body
}
