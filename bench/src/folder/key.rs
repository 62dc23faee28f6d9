//! The key of a row, and the path of its folder: `SCENARIO/HEAP_heap/N_users/NB/Nms_sleep`.

use std::path::{Path, PathBuf};

/// The name of our own server, beside `netty` and `jmeter`.
pub const OURS: &str = "tidegate";
/// The name of another build of our server in the same folder.
pub const BEFORE: &str = "before";
pub(super) const DEPTH_MAX: usize = 6;

/// What was run in one row. Its order is that of the tables: by scenario, gateway, heap and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The name of the scenario.
    pub scenario: String,
    /// [`OURS`], [`BEFORE`] or the name of a peer. Its `SERVER` files have the same name.
    pub gateway: String,
    /// The memory of the gateway, as `2G`.
    pub heap: String,
    /// Users or connections at once.
    pub users: u32,
    /// The size of a message in bytes.
    pub size: u32,
    /// The delay of the backend in milliseconds; -1 for a scenario without one.
    pub delay: i64,
    /// The number of the round, from 1. Rounds of several gateways are interleaved.
    pub round: u32,
}

impl RowKey {
    /// Returns the key of the first round of our gateway.
    #[must_use]
    pub fn ours(scenario: &str, heap: &str, users: u32, size: u32, delay: i64) -> RowKey {
        let (scenario, gateway, heap) = (scenario.to_owned(), OURS.to_owned(), heap.to_owned());
        RowKey { scenario, gateway, heap, users, size, delay, round: 1 }
    }

    /// Returns the path below the folder of results.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let mut path = PathBuf::from(self.folder_name());
        path.push(format!("{}_heap", self.heap));
        path.push(format!("{}_users", self.users));
        path.push(format!("{}B", self.size));
        path.push(format!("{}ms_sleep", self.delay));
        if self.round > 1 {
            path.push(format!("round-{}", self.round));
        }
        path
    }

    /// Returns the name of the scenario's folder. For a peer it differs, because the reference's tools take it for the scenario's name.
    #[must_use]
    pub fn folder_name(&self) -> String {
        if self.gateway == OURS {
            self.scenario.clone()
        } else {
            format!("{}@{}", self.scenario, self.gateway)
        }
    }

    /// Returns the key of a path below the folder of results, or `None` for any other path.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<RowKey> {
        let parts: Option<Vec<&str>> = path.iter().map(std::ffi::OsStr::to_str).collect();
        let parts = parts?;
        let (row, rest) = parts.split_at_checked(5)?;
        let [folder, heap, users, size, delay] = row else { return None };
        let round = match rest {
            [] => 1,
            [round] => round.strip_prefix("round-")?.parse().ok()?,
            _ => return None,
        };
        let heap = heap.strip_suffix("_heap")?;
        let amount = heap.strip_suffix(|unit: char| unit.is_ascii_alphabetic())?;
        if amount.is_empty() || !amount.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (scenario, gateway) = folder.split_once('@').unwrap_or((folder, OURS));
        Some(RowKey {
            scenario: scenario.to_owned(),
            gateway: gateway.to_owned(),
            heap: heap.to_owned(),
            users: users.strip_suffix("_users")?.parse().ok()?,
            size: size.strip_suffix('B')?.parse().ok()?,
            delay: delay.strip_suffix("ms_sleep")?.parse().ok()?,
            round,
        })
    }
}
