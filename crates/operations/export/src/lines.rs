//! Receivers of log lines, and the protocol of each.

use std::io;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use prost::Message as _;
use telemetry::access::{LineSink, OpenSink, SendFailure};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use crate::client::{Client, Content, not_a_collector};
use crate::collector::Collector;
use crate::log_records;
use crate::socket::{Framing, SocketReceiver, SocketSink};

/// A receiver of lines on the network.
#[derive(Debug, Clone, PartialEq)]
pub enum LineReceiver {
    /// A POST with the lines of a batch.
    Http(Collector),
    /// An OTLP log record for each line.
    Otlp(Collector),
    /// An RFC 5424 message for each line.
    Syslog(SocketReceiver),
    /// The lines themselves, as a stream or as one datagram each.
    Socket(SocketReceiver),
}

const NDJSON: Content = Content { grpc_method: "", media_type: "application/x-ndjson" };

const LOG_RECORDS: Content = Content {
    grpc_method: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    media_type: "application/x-protobuf",
};

impl LineReceiver {
    /// Its address, for logs and operators.
    pub fn name(&self) -> String {
        match self {
            LineReceiver::Http(collector) | LineReceiver::Otlp(collector) => collector.name(),
            LineReceiver::Syslog(socket) => format!("syslog at {}", socket.name()),
            LineReceiver::Socket(socket) => socket.name(),
        }
    }

    /// Returns a function that makes the sink on its thread. `log` is the name of the log, for syslog.
    pub fn opening(&self, log: &'static str) -> OpenSink {
        let receiver = self.clone();
        Box::new(move || receiver.open(log))
    }

    fn open(self, log: &'static str) -> io::Result<Box<dyn LineSink>> {
        let over_http = |collector: &Collector, content| {
            Ok::<_, io::Error>((Client::new(collector, content), runtime()?))
        };
        Ok(match &self {
            LineReceiver::Http(collector) => {
                let (client, runtime) = over_http(collector, &NDJSON)?;
                Box::new(PostedLines { client, runtime })
            }
            LineReceiver::Otlp(collector) => {
                let (client, runtime) = over_http(collector, &LOG_RECORDS)?;
                Box::new(LogRecords { client, runtime })
            }
            LineReceiver::Syslog(socket) => {
                Box::new(SocketSink::new(socket.clone(), Framing::syslog(log)))
            }
            LineReceiver::Socket(socket) => {
                Box::new(SocketSink::new(socket.clone(), Framing::Lines))
            }
        })
    }
}

pub(crate) fn runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

/// Lines in the body of a POST.
struct PostedLines {
    // The first field, since it must be dropped before its runtime.
    client: Client,
    runtime: LocalRuntime,
}

impl LineSink for PostedLines {
    fn send(&mut self, lines: &[u8]) -> Result<u64, SendFailure> {
        self.runtime.block_on(self.client.send(lines.to_vec())).map(|_| 0)
    }
}

/// Lines as OTLP log records.
struct LogRecords {
    client: Client,
    runtime: LocalRuntime,
}

impl LineSink for LogRecords {
    fn send(&mut self, lines: &[u8]) -> Result<u64, SendFailure> {
        let request = log_records::of_lines(lines).encode_to_vec();
        let answer = self.runtime.block_on(self.client.send(request))?;
        let answer = ExportLogsServiceResponse::decode(answer).map_err(|_| not_a_collector())?;
        let refused = answer.partial_success.map_or(0, |partial| partial.rejected_log_records);
        // Harmless: a negative number of refused records counts as zero.
        Ok(u64::try_from(refused).unwrap_or(0))
    }
}
