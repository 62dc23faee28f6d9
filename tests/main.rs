//! Black box: the program as a user starts it, on real sockets. One module per subject.
#![cfg(test)]
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "a test says what is wrong by panicking, and waits by the real clock"
)]

mod harness;

mod access;
mod admin;
mod aftermath;
mod api_key;
mod apis;
mod authenticate;
mod authorize;
mod basic;
mod bundles;
mod cache;
mod cases;
mod cel;
mod certificates;
mod choreo;
mod clocks;
mod compress;
mod concurrency;
mod configuration;
mod cors;
mod coverage;
mod crowding;
mod dashboards;
mod deadlines;
mod deploy;
mod diff;
mod discovery;
mod encrypted;
mod endpoints;
mod errors;
mod failover;
mod failures;
mod flow_attacks;
mod flow_beside;
mod flow_branches;
mod flow_edges;
mod flow_endpoints;
mod flow_limits;
mod flow_rules;
mod flow_runs;
mod flow_soak;
mod flow_steps;
mod flow_values;
mod flows;
mod forward_auth;
mod forwarding;
mod full_disk;
mod grpc;
mod guide;
mod hostile_stores;
mod http2;
mod http2_choice;
mod http2_hostile;
mod http2_peers;
mod http2_policies;
mod http2_tunnels;
mod http2_upstream;
mod hub_edges;
mod hub_shares;
mod hubs;
mod import_synapse;
mod import_wsdl;
mod integration;
mod interceptor;
mod interim;
mod ip_filter;
mod jwt;
mod jwt_keys;
mod kafka;
mod leaving;
mod many_complaints;
mod memory;
mod message_rules;
mod messages;
mod mirror;
mod mutual_tls;
mod node_soak;
mod nodes;
mod oidc;
mod openapi;
mod openapi_costs;
mod openapi_references;
mod openapi_values;
mod packaging;
mod parses;
mod paths;
mod prefix_routes;
mod program;
mod proxied;
mod queues;
mod rate_limit;
mod redirect;
mod refusals;
mod regex_routes;
mod reload;
mod reload_soak;
mod retries;
mod rotation;
mod routing;
mod saxon;
mod scale;
mod schedules;
mod secrets;
mod shared_limits;
mod shutdown;
mod soap;
mod soap_clients;
mod soap_rest;
mod split;
mod sql;
mod sse;
mod sse_share;
mod stalls;
mod store;
mod store_postgres;
mod stream_clients;
mod stream_ends;
mod stream_plans;
mod stream_soak;
mod streaming;
mod streams;
mod streams_hostile;
mod subscriptions;
mod telemetry;
mod tokens;
mod transform;
mod upgrades;
mod upstreams;
mod usage;
mod websocket;
mod websub;
mod websub_peers;
mod websub_rocks;
mod wire;
