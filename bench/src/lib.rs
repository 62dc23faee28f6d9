//! Everything that stands beside the gateway when it is shown, tested or measured.
//!
//! Owns the demo backends ([`backend`]), the minting of test tokens ([`token`]) and load tests as values
//! ([`scenario`]), which the feature `load` runs and reports. The comparison with other gateways is the
//! binary `bench-peers`. Never on the path of a real request: nothing here is tuned
//! except [`backend::fast_echo`], which must be cheaper than any gateway measured in front of it.

pub mod backend;
#[cfg(feature = "load")]
pub mod load;
#[cfg(feature = "load")]
pub mod report;
pub mod scenario;
mod soap;
pub mod token;
