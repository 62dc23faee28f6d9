//! The senders of loads: this program, agents that it starts on this machine, or load servers that are already running.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;

use anyhow::{Context as _, Result};

use super::cores::{CoreLists, cores};
use super::options::RunOptions;
use super::servers::{READY_MAX, supervised};
use crate::generator::{self, Control, Load, Outcome, Work};
use crate::process::Process;

/// The senders of loads. Dropping it stops the agents that it started.
pub(super) struct Senders {
    /// Addresses of agents. Empty if this program sends the loads.
    agents: Vec<SocketAddr>,
    /// Agents that were started on this machine.
    started: Vec<Process>,
    threads: u32,
}

/// Default port of `tidegate-bench agent` on a load server.
const AGENT_PORT: u16 = 7000;

impl Senders {
    /// Looks up the load servers. If none is given, starts several agents on this machine if `-n` requests them.
    ///
    /// # Errors
    ///
    /// If a name has no address, or an agent does not start.
    pub(super) fn start(options: &RunOptions, lists: &CoreLists, folder: &Path) -> Result<Senders> {
        let room = u32::try_from(cores(&lists.load).len()).unwrap_or(1).max(1);
        let count = options.server_count();
        let mut senders = Senders { agents: Vec::new(), started: Vec::new(), threads: room };
        if !options.load_servers.is_empty() {
            let named = options.load_servers.iter().take(count as usize);
            senders.agents = named.map(|name| address(name)).collect::<Result<_>>()?;
        } else if count > 1 {
            senders.threads = (room / count).max(1);
            for number in 1..=count {
                let (process, address) = start_agent(number, lists, folder)?;
                senders.started.push(process);
                senders.agents.push(address);
            }
        }
        Ok(senders)
    }

    /// Returns the number of threads of each generator.
    #[must_use]
    pub(super) fn threads(&self) -> u32 {
        self.threads
    }

    /// Returns the ids of the generator's processes on this machine.
    #[must_use]
    pub(super) fn pids(&self) -> Vec<u32> {
        match (self.agents.is_empty(), self.started.is_empty()) {
            (true, _) => vec![std::process::id()],
            (false, false) => self.started.iter().flat_map(Process::tree).collect(),
            // Generators on other machines are not sampled.
            (false, true) => Vec::new(),
        }
    }

    /// Returns the address of this machine at which all generators reach a gateway.
    ///
    /// # Errors
    ///
    /// If the system has no route to a load server.
    pub(super) fn gateway_host(&self) -> io::Result<IpAddr> {
        let Some(away) = self.agents.iter().find(|agent| !agent.ip().is_loopback()) else {
            return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
        };
        // Connecting a UDP socket sends nothing. It only determines the local address that the system would use.
        let any = if away.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(away)?;
        Ok(socket.local_addr()?.ip())
    }

    /// Returns the address at which a hub reaches the callbacks, which are on the first generator.
    #[must_use]
    pub(super) fn callback_host(&self) -> IpAddr {
        self.agents.first().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), SocketAddr::ip)
    }

    /// Returns true if other programs send the loads.
    #[must_use]
    pub(super) fn are_agents(&self) -> bool {
        !self.agents.is_empty()
    }

    /// Sends a load, and waits for its end. The load of a hub is sent by the first of several generators, because each event is published
    /// once.
    ///
    /// # Errors
    ///
    /// If it cannot be sent, or all agents are lost.
    pub(super) fn send(
        &self,
        load: &Load,
        control: &Control,
        log: Option<std::fs::File>,
    ) -> Result<Outcome, String> {
        match (&self.agents[..], &load.work) {
            ([], _) => generator::run(load, control, log),
            ([first, ..], Work::Websub(_)) => generator::run_agents(load, &[*first], control),
            (all, _) => generator::run_agents(load, all, control),
        }
    }
}

/// Parses `HOST` or `HOST:PORT`.
fn address(name: &str) -> Result<SocketAddr> {
    let bare = name.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, AGENT_PORT));
    if let Some(found) = bare.or_else(|| name.parse().ok()) {
        return Ok(found);
    }
    let whole = if name.contains(':') { name.to_owned() } else { format!("{name}:{AGENT_PORT}") };
    let mut found = whole.to_socket_addrs().with_context(|| format!("load server {name}"))?;
    found.next().with_context(|| format!("load server {name} has no address"))
}

fn start_agent(number: u32, lists: &CoreLists, folder: &Path) -> Result<(Process, SocketAddr)> {
    let mut command = supervised(&lists.load, &std::env::current_exe()?);
    command.args(["agent", "--listen", "127.0.0.1:0"]);
    let log = folder.join(format!("agent-{number}.log"));
    let mut process = Process::start(command, &log)?;
    let find = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("listening on "))?;
        line.trim().parse().ok()
    };
    let address = process.wait_for(&log, READY_MAX, find)?;
    Ok((process, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_server_is_named_with_or_without_a_port() {
        for (name, expected) in [
            ("127.0.0.2", "127.0.0.2:7000"),
            ("127.0.0.2:81", "127.0.0.2:81"),
            ("::1", "[::1]:7000"),
            ("[::1]:81", "[::1]:81"),
        ] {
            assert_eq!(address(name).unwrap(), expected.parse().unwrap(), "{name}");
        }
        assert_eq!(address("localhost").unwrap().port(), AGENT_PORT);
        assert!(address("localhost:x").is_err());
    }
}
