//! The rows of scenarios, with overrides from the command line, and the load of each row.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::file::{self, Document, Group};
use super::{Scenario, check, payload};
use crate::generator::{
    self, Calls, Expected, ExpectedBody, Load, Requests, RowBy, Share, Sse, Stage, Target,
    Template, Text, TlsTarget, WebSocket, WebSub, Work,
};

/// Values of the command line that replace those of the documents.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Users or connections.
    pub users: Vec<u32>,
    /// Bytes of a message.
    pub sizes: Vec<u32>,
    /// Delays of the backend in milliseconds.
    pub delays: Vec<u64>,
    /// The time of a row with its warm-up.
    pub duration: Option<Duration>,
    /// The warm-up.
    pub warm_up: Option<Duration>,
}

/// One row of a document.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its scenario.
    pub scenario: Arc<Scenario>,
    /// The name of its folder: that of the scenario, followed by the ramp if the rows differ in it.
    pub folder: String,
    /// Users or connections.
    pub users: u32,
    /// Bytes of a message.
    pub size: u32,
    /// The delay of the backend.
    pub delay: Duration,
    /// The time from the first user to all of them.
    pub ramp: Duration,
    /// The time of the row, including the warm-up.
    pub duration: Duration,
    /// The time of the warm-up, which is not counted.
    pub warm_up: Duration,
}

/// The values of a run that a load needs.
#[derive(Clone, Debug)]
pub struct RowLoad {
    /// The gateway's listener.
    pub address: SocketAddr,
    /// Threads of the generator.
    pub threads: u32,
    /// A token of the test issuer.
    pub token: String,
    /// Further tokens, at least as many as [`Scenario::tokens`].
    pub tokens: Arc<[String]>,
    /// The address at which a hub reaches callbacks.
    pub callback: std::net::IpAddr,
}

/// Maximum response time, which is that of the generator of document 000.
const RESPONSE_MAX: Duration = Duration::from_secs(20);
/// Maximum response time of flows, twice that of the slowest flow in document 004.
const FLOW_RESPONSE_MAX: Duration = Duration::from_secs(120);
const CONNECT_MAX: Duration = Duration::from_secs(10);

impl Scenario {
    /// Returns how many tokens the largest of the tables has that the scenario refers to.
    #[must_use]
    pub fn tokens(&self) -> usize {
        let counts = self.tables().map(|(_, table)| table.tokens.map_or(0, |count| count.get()));
        usize::try_from(counts.max().unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// Returns the tables that its texts refer to.
    fn tables(&self) -> impl Iterator<Item = (&str, &file::Table)> {
        let refers = |group: &Group, name: &str| {
            let expect = &group.expect;
            let bodies = [&group.body, &expect.contains, &expect.equals].into_iter().flatten();
            let headers = group.headers.iter().map(|(_, value)| value);
            let mut texts = bodies.chain(headers).chain([&group.path]);
            texts.any(|text| text.value.contains(&format!("${{{name}.")))
        };
        let all = self.shared.tables.iter().map(|(name, table)| (name.value.as_str(), table));
        all.filter(move |(name, _)| self.own.requests.iter().any(|group| refers(group, name)))
    }

    /// Returns true if it belongs to no document, but shows what a request costs.
    #[must_use]
    pub fn is_cost(&self) -> bool {
        self.shared.document == Document::Costs
    }

    /// Returns true if the gateway's CPU and descriptors are also sampled before and after the load, as document 003 does for event
    /// streams.
    #[must_use]
    pub fn settles(&self) -> bool {
        self.own.sse.is_some() && !self.is_cost()
    }

    /// Returns the rows of the scenario, in the order of the harness: by users, sizes and delays.
    #[must_use]
    pub fn rows(self: &Arc<Self>, overrides: &Overrides) -> Vec<Row> {
        let own = &self.own;
        let documents_warm_up = own.warm_up.unwrap_or(self.shared.warm_up).0;
        let duration = overrides.duration.unwrap_or(own.duration.unwrap_or(self.shared.duration).0);
        let warm_up = overrides.warm_up.unwrap_or(documents_warm_up);
        let delays: Vec<Duration> = if overrides.delays.is_empty() {
            own.delays.0.clone()
        } else {
            overrides.delays.iter().map(|ms| Duration::from_millis(*ms)).collect()
        };
        let ramps = if own.ramps.is_empty() { vec![own.ramp.value] } else { own.ramps.clone() };
        let mut rows = Vec::new();
        for ramp in ramps {
            let folder = if own.ramps.is_empty() {
                self.name.clone()
            } else {
                format!("{}-{}s", self.name, ramp.as_secs())
            };
            let ramp = scaled(ramp, documents_warm_up, warm_up);
            for (users, size) in self.users_and_sizes(overrides) {
                for &delay in &delays {
                    let (scenario, folder) = (Arc::clone(self), folder.clone());
                    rows.push(Row {
                        scenario,
                        folder,
                        users,
                        size,
                        delay,
                        ramp,
                        duration,
                        warm_up,
                    });
                }
            }
        }
        rows
    }

    fn users_and_sizes(&self, overrides: &Overrides) -> Vec<(u32, u32)> {
        let own = &self.own;
        let bytes = |size: &config::Size| u32::try_from(size.0).unwrap_or(u32::MAX);
        if !own.rows.is_empty() && overrides.users.is_empty() && overrides.sizes.is_empty() {
            return own.rows.iter().map(|row| (row.users.get(), bytes(&row.size))).collect();
        }
        let users = if overrides.users.is_empty() {
            own.users.value.0.iter().map(|users| users.get()).collect()
        } else {
            overrides.users.clone()
        };
        let sizes = match (overrides.sizes.is_empty(), own.sizes.0.is_empty()) {
            (false, false) => overrides.sizes.clone(),
            (true, false) => own.sizes.0.iter().map(bytes).collect(),
            // A scenario without sizes sends the message in its file.
            (_, true) => vec![self.body_bytes()],
        };
        users.iter().flat_map(|users| sizes.iter().map(|size| (*users, *size))).collect()
    }

    /// Returns the size of the message in the scenario's file.
    fn body_bytes(&self) -> u32 {
        let tables = check::tables(&self.shared);
        let group = self.own.requests.first();
        let body = group.and_then(|group| group.body.as_ref());
        // Harmless: an invalid text has been reported already.
        let text = body.and_then(|body| body.value.parse::<Text>().ok()).unwrap_or_default();
        let first = |part: &generator::Part| {
            if let generator::Part::Cell { table, column } = part {
                let cells = tables.get(table).map(|table| table.cells(column));
                return cells.and_then(|mut cells| cells.next()).map_or(0, str::len);
            }
            part.bytes(&tables).unwrap_or(0)
        };
        u32::try_from(text.parts.iter().map(first).sum::<usize>()).unwrap_or(u32::MAX)
    }
}

impl Row {
    /// Returns what the generator sends.
    ///
    /// # Errors
    ///
    /// If the size of the row is too small for the kind of message.
    pub fn load(&self, run: &RowLoad) -> Result<Load, String> {
        let tls = self.scenario.is_tls();
        let document = self.scenario.document();
        Ok(Load {
            target: Target {
                address: run.address,
                host: "localhost".to_owned(),
                tls: tls.then(|| TlsTarget { name: "localhost".to_owned(), authorities: None }),
            },
            work: self.work(run)?,
            warm_up: self.warm_up,
            duration: self.duration,
            connect_max: CONNECT_MAX,
            response_max: if document == "004" { FLOW_RESPONSE_MAX } else { RESPONSE_MAX },
            seed: u64::from(self.users) << 32 | u64::from(self.size),
            threads: run.threads,
            share: Share::default(),
        })
    }

    fn work(&self, run: &RowLoad) -> Result<Work, String> {
        let own = &self.scenario.own;
        let seconds = self.duration.as_secs().max(1);
        if let Some(sse) = &own.sse {
            let rate = u64::from(sse.events_per_second.get());
            let events = rate * seconds;
            let (every, size) = (1000 / rate.max(1), self.size);
            let path = format!("{}?interval={every}ms&count={events}&size={size}B", sse.path.value);
            return Ok(Work::Sse(Sse {
                connections: self.users,
                ramp: self.ramp,
                path: text(&path, run)?,
                headers: headers(&sse.headers, run)?,
                events,
                is_shared: sse.shared,
            }));
        }
        if let Some(socket) = &own.websocket {
            return Ok(Work::Websocket(WebSocket {
                connections: self.users,
                ramp: self.ramp,
                headers: headers(&socket.headers, run)?,
                path: text(&socket.path.value, run)?,
                events_per_second: socket.events_per_second.get(),
                message_bytes: self.size,
            }));
        }
        if let Some(hub) = &own.websub {
            return Ok(Work::Websub(WebSub {
                subscribers: self.users,
                callback: run.callback,
                path: hub.path.clone(),
                publish: hub.publish.clone(),
                topic: hub.topic.clone(),
                headers: headers(&hub.headers, run)?,
                message_bytes: self.size,
                events: hub.events.get(),
            }));
        }
        if let Some(calls) = &own.calls {
            return Ok(Work::Calls(Calls {
                calls: self.users,
                streams: calls.streams.get(),
                path: calls.path.clone(),
                message_bytes: self.size,
                is_grpc: calls.grpc,
            }));
        }
        let groups = own.requests.iter().map(|group| self.group(group, run));
        let tables = self.scenario.tables();
        let mut tables: BTreeMap<String, generator::Table> = tables
            .map(|(name, table)| (name.to_owned(), check::table(table, &run.tokens)))
            .collect();
        tables.extend(self.routes());
        Ok(Work::Requests(Requests { groups: groups.collect::<Result<_, _>>()?, tables }))
    }

    /// Returns the table `route`. Each user always has the same row.
    fn routes(&self) -> BTreeMap<String, generator::Table> {
        let routes = self.scenario.own.requests.iter().map(|group| group.routes.get()).max();
        let rows = (1..=routes.unwrap_or(1)).map(|number| vec![number.to_string()]).collect();
        let columns = vec!["number".to_owned()];
        BTreeMap::from([("route".to_owned(), generator::Table { columns, rows, by: RowBy::User })])
    }

    fn group(&self, group: &Group, run: &RowLoad) -> Result<generator::Group, String> {
        let body = match (group.payload, &group.body) {
            (Some(payload), _) => payload::body(payload, self.size.into())?,
            (None, Some(body)) => text(&body.value, run)?,
            (None, None) => Text::default(),
        };
        let template = Template {
            label: group.label.clone().unwrap_or_else(|| LABEL.to_owned()),
            weight: 1,
            method: group.method.clone(),
            path: text(&group.path.value, run)?,
            headers: headers(&group.headers, run)?,
            body,
            expected: expected(&group.expect, run)?,
        };
        let percent = group.users_percent.get();
        Ok(generator::Group {
            stages: self.stages(percent),
            think: group.think,
            requests: vec![template],
        })
    }

    /// Returns the document's stages, scaled to the time of the row and to a share of its users.
    fn stages(&self, percent: u32) -> Vec<Stage> {
        let of = |users: u64| u32::try_from(users * u64::from(percent) / 100).unwrap_or(u32::MAX);
        let own = &self.scenario.own;
        let written = &own.stages.value;
        let highest = written.iter().map(|stage| stage.users.get()).max().unwrap_or(0);
        if written.is_empty() || highest == 0 {
            return vec![Stage { users: of(self.users.into()), over: self.ramp }];
        }
        let shared = &self.scenario.shared;
        let warm_up = own.warm_up.unwrap_or(shared.warm_up).0;
        let duration = own.duration.unwrap_or(shared.duration).0;
        // What was within the warm-up stays within it, even if the warm-up has another length.
        let moved = |at: Duration| {
            if at <= warm_up {
                scaled(at, warm_up, self.warm_up)
            } else {
                let after = scaled(
                    at - warm_up,
                    duration - warm_up,
                    self.duration.saturating_sub(self.warm_up),
                );
                self.warm_up + after
            }
        };
        let (mut at, mut begin) = (Duration::ZERO, Duration::ZERO);
        let mut stages = Vec::new();
        for stage in written {
            at += stage.over;
            let end = moved(at);
            let users = u64::from(stage.users.get()) * u64::from(self.users) / u64::from(highest);
            stages.push(Stage { users: of(users.max(1)), over: end.saturating_sub(begin) });
            begin = end;
        }
        stages
    }
}

/// The label of scenarios that have only one.
pub(super) const LABEL: &str = "HTTP Request";

fn scaled(at: Duration, from: Duration, to: Duration) -> Duration {
    if from.is_zero() { Duration::ZERO } else { to.mul_f64(at.as_secs_f64() / from.as_secs_f64()) }
}

fn text(written: &str, run: &RowLoad) -> Result<Text, String> {
    written.replace("${TOKEN}", &run.token).parse()
}

fn headers(
    written: &config::Map<config::Spanned<String>>,
    run: &RowLoad,
) -> Result<Vec<(String, Text)>, String> {
    let one = |(name, value): (&config::Spanned<String>, &config::Spanned<String>)| {
        Ok((name.value.clone(), text(&value.value, run)?))
    };
    written.iter().map(one).collect()
}

fn expected(expect: &file::Expect, run: &RowLoad) -> Result<Expected, String> {
    let body = match expect {
        file::Expect { bytes: Some(bytes), .. } => ExpectedBody::Bytes(bytes.0),
        file::Expect { contains: Some(part), .. } => {
            ExpectedBody::Contains(text(&part.value, run)?)
        }
        file::Expect { equals: Some(whole), .. } => ExpectedBody::Equals(text(&whole.value, run)?),
        file::Expect { echo: true, .. } => ExpectedBody::Echo,
        file::Expect { contains_request: true, .. } => ExpectedBody::ContainsRequest,
        _ => ExpectedBody::Any,
    };
    let headers = expect.headers.iter().map(|(name, value)| (name.value.clone(), value.clone()));
    Ok(Expected { status: expect.status.get_u16(), headers: headers.collect(), body })
}
