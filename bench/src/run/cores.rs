//! Assigns cores to the gateway, the load and the backends.

use std::str::FromStr;

/// Lists of cores, as `taskset` takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreLists {
    /// Cores of the gateway.
    pub gateway: String,
    /// Cores of the generator.
    pub load: String,
    /// Cores of the backends.
    pub backend: String,
}

impl CoreLists {
    /// The gateway has separate cores if there are two or more cores. The backends have a separate core if there are three or more.
    #[must_use]
    pub fn choose(cores: usize, workers: usize) -> CoreLists {
        let range = |from: usize, to: usize| {
            if from == to { from.to_string() } else { format!("{from}-{to}") }
        };
        match cores {
            0 | 1 => CoreLists::same("0"),
            2 => {
                CoreLists { gateway: "0".to_owned(), load: "1".to_owned(), backend: "1".to_owned() }
            }
            _ => {
                let gateway = workers.clamp(1, cores - 2);
                CoreLists {
                    gateway: range(0, gateway - 1),
                    load: range(gateway, cores - 2),
                    backend: (cores - 1).to_string(),
                }
            }
        }
    }

    fn same(list: &str) -> CoreLists {
        CoreLists { gateway: list.to_owned(), load: list.to_owned(), backend: list.to_owned() }
    }

    /// Returns the gateway's cores, or an empty list if it shares some of them.
    #[must_use]
    pub(super) fn own(&self) -> Vec<usize> {
        let others = [cores(&self.load), cores(&self.backend)].concat();
        let ours = cores(&self.gateway);
        if ours.iter().any(|core| others.contains(core)) { Vec::new() } else { ours }
    }

    /// Returns the number of the gateway's cores.
    #[must_use]
    pub fn gateway_count(&self) -> usize {
        cores(&self.gateway).len()
    }
}

impl FromStr for CoreLists {
    type Err = String;

    fn from_str(text: &str) -> Result<CoreLists, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let [gateway, load, backend] = parts[..] else {
            return Err("write GATEWAY/LOAD/BACKEND, such as 0/1/1 or 0-1/2/3".to_owned());
        };
        for list in [gateway, load, backend] {
            if cores(list).is_empty() {
                return Err(format!("`{list}` must be a list of cores, such as 0 or 0-1"));
            }
        }
        Ok(CoreLists {
            gateway: gateway.to_owned(),
            load: load.to_owned(),
            backend: backend.to_owned(),
        })
    }
}

impl std::fmt::Display for CoreLists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.gateway, self.load, self.backend)
    }
}

/// Returns the numbers in a list of cores, or an empty list if it is invalid.
#[must_use]
pub(super) fn cores(list: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>()) else {
            return Vec::new();
        };
        if from > to || to > CORES_MAX {
            return Vec::new();
        }
        cores.extend(from..=to);
    }
    cores
}

/// Maximum number of cores, more than any machine has.
const CORES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_shares_its_cores_with_nobody() {
        for (machine, workers, expected) in [
            (1, 4, "0/0/0"),
            (2, 4, "0/1/1"),
            (3, 4, "0/1/2"),
            (4, 4, "0-1/2/3"),
            (8, 4, "0-3/4-6/7"),
        ] {
            assert_eq!(CoreLists::choose(machine, workers).to_string(), expected, "{machine}");
        }
        assert_eq!("0-1/2/3".parse::<CoreLists>().unwrap().gateway_count(), 2);
        assert_eq!("0-1/2/3".parse::<CoreLists>().unwrap().own(), [0, 1]);
        assert!("0-1/1/3".parse::<CoreLists>().unwrap().own().is_empty());
        for wrong in ["0", "0/1", "a/1/1", "1-0/1/1", "0//1", "0-99999/1/1"] {
            assert!(wrong.parse::<CoreLists>().is_err(), "{wrong}");
        }
    }
}
