//! `test-metadata.json` and `test-duration.json`.
//!
//! The reference writes numbers as strings here. We do the same, and read both forms.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The key of [`Metadata::versions`] for the size and the hash of our program.
pub const PROGRAM: &str = "Tidegate program";
/// The key for the commit and the profile that our program was built from. Absent if nobody said so.
pub const BUILD: &str = "Tidegate build";

/// The parameters of all rows, with the reference's keys; ours come after `iteration_elements`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Seconds of a row, with the warm-up.
    #[serde(with = "text")]
    pub test_duration: u64,
    /// Seconds of the warm-up.
    #[serde(with = "text")]
    pub warmup_time: u64,
    /// Load servers.
    #[serde(with = "text")]
    pub jmeter_servers: u64,
    /// The reference's options, which have no effect on our generator.
    pub jmeter_client_heap_size: String,
    /// See `jmeter_client_heap_size`.
    pub jmeter_server_heap_size: String,
    /// See `jmeter_client_heap_size`.
    pub netty_service_heap_size: String,
    /// The scenarios. Each has an entry for each folder, so a scenario that ran with a peer has two.
    pub test_scenarios: Vec<Scenario>,
    /// As `2G`.
    pub heap_sizes: Vec<String>,
    /// Numbers of users.
    #[serde(with = "texts")]
    pub concurrent_users: Vec<u64>,
    /// Sizes in bytes.
    #[serde(with = "texts")]
    pub message_sizes: Vec<u64>,
    /// Delays of the backend in milliseconds.
    #[serde(with = "texts")]
    pub backend_sleep_times: Vec<u64>,
    /// Counts of the reference's iterating scenarios.
    #[serde(with = "texts")]
    pub iteration_elements: Vec<u64>,
    /// `Tidegate`; the reference's template uses it.
    pub application_name: String,
    /// The version of each program that took part, by its name.
    pub versions: BTreeMap<String, String>,
    /// SHA-256 of each gateway's configuration, by scenario.
    pub configuration_hashes: BTreeMap<String, String>,
    /// The program and its arguments.
    pub command_line: Vec<String>,
    /// Seconds between rows.
    #[serde(with = "text")]
    pub pause: u64,
    /// True if the durations differ from those of the documents.
    pub quick: bool,
    /// The CPUs of each process, as requested.
    pub cpus: String,
    /// The machine.
    pub system_info: Vec<SystemFact>,
}

/// A scenario of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scenario {
    /// The name of its folder.
    pub name: String,
    /// The name in `summary.csv`.
    pub display_name: String,
    /// A sentence about it.
    pub description: String,
    /// The JMeter plan that corresponds to it.
    pub jmx: String,
    /// `true` or `false`.
    #[serde(with = "text")]
    pub use_backend: bool,
}

/// A row of the table of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemFact {
    /// `System`, `Operating System`, ...
    pub class: String,
    /// `Processor`, `Memory`, `Storage`, `Distribution`, ...
    pub subclass: String,
    /// `CPU(s)`, `Model name`, ...
    pub description: String,
    /// The value with its unit.
    pub value: String,
}

/// `test-duration.json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TotalDuration {
    /// Number of rows that ran.
    #[serde(with = "text")]
    pub test_scenarios: u64,
    /// Their total duration in seconds.
    #[serde(with = "text")]
    pub total_duration: u64,
}

/// A value that is written as a string, and read as a string or as a number.
pub(super) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::Value;

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(in super::super) fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        parse(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }

    pub(super) fn parse<T: FromStr>(value: &Value) -> Result<T, String> {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.parse().map_err(|_| format!("`{text}` is not the expected number"))
    }
}

/// A list of such values.
mod texts {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(values: &[u64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(u64::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let values = Vec::<Value>::deserialize(from)?;
        values.iter().map(super::text::parse).collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}
