//! Load servers: an agent takes a share of a load over TCP, runs it, and returns its raw results, which are merged exactly.
//!
//! Owns the protocol: frames of a length (four bytes, big-endian) and JSON, with one load per connection. An agent has no authentication
//! and sends load to any target that it is given, so it listens on loopback unless an operator permits another address.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::load::Load;
use super::outcome::Outcome;
use super::run::run;

/// The version of the protocol, which includes the forms of [`Load`] and [`Outcome`]. Every change of them needs a new version.
const VERSION: u32 = 3;
/// The first bytes of a connection, by which other programs are recognized.
const GREETING: &[u8; 8] = b"tg-bench";
/// Maximum size of a load. The bodies and tokens of the documents are below 1 MiB.
const LOAD_BYTES_MAX: u32 = 64 << 20;
/// Maximum size of an outcome: an hour of steps, and 60 intervals, for each of some hundred labels.
const OUTCOME_BYTES_MAX: u32 = 512 << 20;
/// Maximum time to wait for the greeting and for single messages.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Time to wait for the result, after the longest time that the load can take.
const RESULT_MAX: Duration = Duration::from_secs(60);
/// Interval at which an agent reports that its load is running.
const ALIVE_EVERY: Duration = Duration::from_millis(500);
/// An agent that is silent for longer than this is lost.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What the coordinator sends.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Order {
    /// A load, to be run when `Go` arrives.
    Load(Box<Load>),
    Go,
}

/// What an agent answers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    /// The load is valid.
    Ready,
    /// The load runs; samples and errors so far.
    Alive {
        samples: u64,
        errors: u64,
    },
    Outcome(Box<Outcome>),
    Failed(String),
}

/// Serves loads on the calling thread, one after another, until the listener fails.
///
/// # Errors
///
/// If the address cannot be bound, or if it is not a loopback address and `is_public` is false.
pub fn serve_agent(
    address: SocketAddr,
    is_public: bool,
    ready: impl FnOnce(SocketAddr),
    mut log: impl FnMut(&str),
) -> Result<(), String> {
    if !address.ip().is_loopback() && !is_public {
        return Err(format!(
            "{address} is not a loopback address. Anyone who can connect to an agent can make it send load to any target; use a tunnel, \
             or permit it with --public in a network that you trust"
        ));
    }
    let bound = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    ready(bound.local_addr().map_err(|error| error.to_string())?);
    for stream in bound.incoming() {
        let stream = stream.map_err(|error| error.to_string())?;
        let from =
            stream.peer_addr().map_or_else(|error| error.to_string(), |from| from.to_string());
        if let Err(why) = answer(stream) {
            log(&format!("{from}: {why}"));
        }
    }
    Ok(())
}

/// Runs the load of one connection.
fn answer(mut stream: TcpStream) -> Result<(), String> {
    prepare(&stream)?;
    greet(&mut stream)?;
    let load = match receive(&mut stream, LOAD_BYTES_MAX)? {
        Order::Load(load) => load,
        Order::Go => return Err("a load must come before `go`".to_owned()),
    };
    let complaints = load.complaints();
    if !complaints.is_empty() {
        send(&mut stream, &Answer::Failed(complaints.join("\n")))?;
        return Err("the load is not valid".to_owned());
    }
    send(&mut stream, &Answer::Ready)?;
    match receive(&mut stream, LOAD_BYTES_MAX)? {
        Order::Go => {}
        Order::Load(_) => return Err("`go` must come after the load".to_owned()),
    }
    let control = Control::default();
    let outcome = thread::scope(|scope| {
        let (done, result) = sync_channel(1);
        let (load, running) = (&load, control.clone());
        scope.spawn(move || {
            // If the coordinator has disconnected, nobody waits for the result.
            drop(done.send(run(load, &running, None)));
        });
        loop {
            match result.recv_timeout(ALIVE_EVERY) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(Err("the generator panicked".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let (samples, errors) = (control.samples(), control.errors());
                    if let Err(why) = send(&mut stream, &Answer::Alive { samples, errors }) {
                        // The coordinator has disconnected, so the load is stopped.
                        control.stop();
                        return Err(why);
                    }
                }
            }
        }
    })?;
    let outcome = match outcome {
        Ok(outcome) => Answer::Outcome(Box::new(outcome)),
        Err(why) => Answer::Failed(why),
    };
    send(&mut stream, &outcome)
}

/// Runs a load on several agents at once, and merges their outcomes. Agents that are lost are named in the outcome.
///
/// # Errors
///
/// If an agent cannot be reached, is of another version or refuses the load, before anything runs; or if all are lost.
pub fn run_agents(
    load: &Load,
    agents: &[SocketAddr],
    control: &Control,
) -> Result<Outcome, String> {
    let of = u32::try_from(agents.len()).map_err(|error| error.to_string())?;
    let mut connections = Vec::new();
    for (part, agent) in (0..of).zip(agents) {
        let share = load.part(part, of)?;
        let named = |why: String| format!("load server {agent}: {why}");
        connections.push((*agent, offer(*agent, share).map_err(named)?));
    }
    // All agents are ready, so they begin at the same time.
    for (agent, connection) in &mut connections {
        send(connection, &Order::Go).map_err(|why| format!("load server {agent}: {why}"))?;
    }
    let results = thread::scope(|scope| {
        let wait = |(agent, connection)| {
            (agent, scope.spawn(move || result_of(connection, load, control)))
        };
        let waiting: Vec<_> = connections.into_iter().map(wait).collect();
        let join = |(agent, thread): (SocketAddr, thread::ScopedJoinHandle<'_, _>)| {
            let ended = thread.join();
            (agent, ended.unwrap_or_else(|_| Err("its thread panicked".to_owned())))
        };
        waiting.into_iter().map(join).collect::<Vec<(SocketAddr, Result<Outcome, String>)>>()
    });
    let (mut outcomes, mut lost) = (Vec::new(), Vec::new());
    for (agent, result) in results {
        match result {
            Ok(outcome) => outcomes.push(outcome),
            Err(why) => lost.push(format!("{agent}: {why}")),
        }
    }
    if outcomes.is_empty() {
        return Err(format!("all load servers are lost: {}", lost.join("; ")));
    }
    let mut merged = Outcome::merge(outcomes)?;
    merged.agents_lost.extend(lost);
    Ok(merged)
}

/// Connects and sends the load. Returns once the agent is ready.
fn offer(agent: SocketAddr, load: Load) -> Result<TcpStream, String> {
    let stream = TcpStream::connect_timeout(&agent, ANSWER_MAX);
    let mut stream = stream.map_err(|error| error.to_string())?;
    prepare(&stream)?;
    greet(&mut stream)?;
    send(&mut stream, &Order::Load(Box::new(load)))?;
    match receive(&mut stream, OUTCOME_BYTES_MAX)? {
        Answer::Ready => Ok(stream),
        Answer::Failed(why) => Err(why),
        Answer::Alive { .. } | Answer::Outcome(_) => {
            Err("it sent another answer before it was ready".to_owned())
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the wait for an agent has a bound")]
fn result_of(mut stream: TcpStream, load: &Load, control: &Control) -> Result<Outcome, String> {
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(|error| error.to_string())?;
    let end = Instant::now() + load.duration + load.response_max + RESULT_MAX;
    let (mut counted, mut failed) = (0, 0);
    while Instant::now() < end {
        if control.is_stopped() {
            return Err("stopped".to_owned());
        }
        match receive(&mut stream, OUTCOME_BYTES_MAX)? {
            Answer::Alive { samples, errors } => {
                control.count(samples.saturating_sub(counted), errors.saturating_sub(failed));
                (counted, failed) = (samples, errors);
            }
            Answer::Outcome(outcome) => return Ok(*outcome),
            Answer::Failed(why) => return Err(why),
            Answer::Ready => return Err("it was ready already".to_owned()),
        }
    }
    Err("it had no result in time".to_owned())
}

fn prepare(stream: &TcpStream) -> Result<(), String> {
    let set = || -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))
    };
    set().map_err(|error| error.to_string())
}

/// Exchanges the names and the protocol versions of both sides.
fn greet(stream: &mut TcpStream) -> Result<(), String> {
    let ours = [&GREETING[..], &VERSION.to_be_bytes()].concat();
    stream.write_all(&ours).map_err(|error| error.to_string())?;
    let (mut name, mut version) = ([0; 8], [0; 4]);
    let read = stream.read_exact(&mut name).and_then(|()| stream.read_exact(&mut version));
    read.map_err(|error| format!("no greeting came: {error}"))?;
    if name != *GREETING {
        return Err("the other side is not tidegate-bench".to_owned());
    }
    match u32::from_be_bytes(version) {
        VERSION => Ok(()),
        other => Err(format!(
            "the other side has version {other} of the protocol, this one has {VERSION}; use the same tidegate-bench on all machines"
        )),
    }
}

fn send(stream: &mut TcpStream, message: &impl Serialize) -> Result<(), String> {
    let json = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    let length = u32::try_from(json.len()).map_err(|_| "the message is too large".to_owned())?;
    let sent = stream.write_all(&length.to_be_bytes()).and_then(|()| stream.write_all(&json));
    sent.map_err(|error| error.to_string())
}

fn receive<M: DeserializeOwned>(stream: &mut TcpStream, bytes_max: u32) -> Result<M, String> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(|error| format!("the connection ended: {error}"))?;
    let length = u32::from_be_bytes(length);
    if length > bytes_max {
        return Err(format!("a message of {length} bytes exceeds {bytes_max}"));
    }
    // The memory grows with the bytes received, not with the announced length.
    let mut json = Vec::new();
    let read = stream.take(length.into()).read_to_end(&mut json);
    read.map_err(|error| format!("the connection ended: {error}"))?;
    if json.len() < length as usize {
        return Err("the connection ended within a message".to_owned());
    }
    serde_json::from_slice(&json).map_err(|error| format!("the message is not understood: {error}"))
}

#[cfg(test)]
mod tests;
