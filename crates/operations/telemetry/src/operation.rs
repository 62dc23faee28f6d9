//! Metrics of one operation of a service: its calls and their faults.

use crate::count::Counter;
use crate::shards::Shards;

/// The fault of a call, in SOAP's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoapFault {
    /// `Client`, or `Sender` in version 1.2.
    Client,
    /// `Server`, or `Receiver`.
    Server,
    VersionMismatch,
    MustUnderstand,
    /// A code of the service's own, or an unreadable one.
    Other,
}

impl SoapFault {
    /// All faults.
    pub const ALL: [SoapFault; 5] = [
        SoapFault::Client,
        SoapFault::Server,
        SoapFault::VersionMismatch,
        SoapFault::MustUnderstand,
        SoapFault::Other,
    ];

    /// The label in metrics and the access log.
    pub const fn label(self) -> &'static str {
        match self {
            SoapFault::Client => "client",
            SoapFault::Server => "server",
            SoapFault::VersionMismatch => "version_mismatch",
            SoapFault::MustUnderstand => "must_understand",
            SoapFault::Other => "other",
        }
    }

    /// The fault for the local name of a fault code.
    pub fn of_code(local: &str) -> SoapFault {
        match local {
            "Client" | "Sender" => SoapFault::Client,
            "Server" | "Receiver" => SoapFault::Server,
            "VersionMismatch" => SoapFault::VersionMismatch,
            "MustUnderstand" => SoapFault::MustUnderstand,
            // In version 1.1, codes may be refined after a dot.
            _ => match local.split_once('.') {
                Some(("Client", _)) => SoapFault::Client,
                Some(("Server", _)) => SoapFault::Server,
                Some(_) | None => SoapFault::Other,
            },
        }
    }
}

/// The label of a call without a fault.
pub(crate) const NO_FAULT: &str = "none";

/// Counts of one operation.
#[derive(Debug)]
pub struct OperationMetrics {
    shards: Shards<OperationShard>,
}

/// One worker's counts: without a fault, then by fault.
#[derive(Debug, Default)]
#[repr(align(64))]
struct OperationShard([Counter; 1 + SoapFault::ALL.len()]);

/// The values of [`OperationMetrics`] at a scrape.
#[derive(Debug)]
pub(crate) struct OperationSum {
    pub(crate) route: Box<str>,
    pub(crate) operation: Box<str>,
    pub(crate) counts: Vec<(&'static str, u64)>,
}

/// Separates the names of a route and of an operation; no name contains it.
pub(crate) const BETWEEN: char = '\n';

impl OperationMetrics {
    pub(crate) fn new(workers: usize) -> Self {
        OperationMetrics { shards: Shards::new(workers) }
    }

    /// Counts one call, on the worker that ran it.
    pub fn record(&self, worker: usize, fault: Option<SoapFault>) {
        let position = |fault: SoapFault| SoapFault::ALL.iter().position(|known| *known == fault);
        let index = fault.and_then(position).map_or(0, |index| index + 1);
        if let Some(counter) = self.shards.of(worker).0.get(index) {
            counter.add(1);
        }
    }

    pub(crate) fn sum(&self, name: &str) -> Option<OperationSum> {
        self.shards.all().next()?;
        let (route, operation) = name.split_once(BETWEEN).unwrap_or((name, crate::OTHER));
        let labels = std::iter::once(NO_FAULT).chain(SoapFault::ALL.map(SoapFault::label));
        let count = |index: usize| {
            // Harmless: a shard has a counter for each index.
            let counters = self.shards.all().filter_map(|shard| shard.0.get(index));
            counters.map(Counter::get).sum::<u64>()
        };
        let counts = labels.enumerate().map(|(index, label)| (label, count(index)));
        let counts = counts.filter(|(_, count)| *count > 0).collect();
        Some(OperationSum { route: route.into(), operation: operation.into(), counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_both_versions_map_to_the_same_faults() {
        for (code, fault) in [
            ("Client", SoapFault::Client),
            ("Sender", SoapFault::Client),
            ("Client.Authentication", SoapFault::Client),
            ("Server.Busy", SoapFault::Server),
            ("Receiver", SoapFault::Server),
            ("MustUnderstand", SoapFault::MustUnderstand),
            ("Sender.Not", SoapFault::Other),
            ("", SoapFault::Other),
        ] {
            assert_eq!(SoapFault::of_code(code), fault, "{code}");
        }
    }
}
