//! The policies, one file each. A policy knows the contract in `policy` and nothing of the others, of upstreams or of
//! the pipeline that runs it.
#![forbid(unsafe_code)]

pub mod api_key;
pub mod as_it_came;
pub mod authenticate;
pub mod authorize;
pub mod basic;
mod body_lines;
pub mod cache;
pub mod compress;
pub mod concurrency;
pub mod cors;
pub mod credential_check;
pub mod credentials;
pub mod expression;
pub mod forward_auth;
pub mod grpc_web;
mod hash;
pub mod headers;
mod identity;
pub mod interceptor;
pub mod ip_filter;
pub mod jwt;
pub mod key;
pub mod key_type;
pub mod mutual_tls;
pub mod openapi;
pub mod permits;
mod query;
pub mod quota;
pub mod rate_limit;
mod rebased;
pub mod redirect;
pub mod remote_definition;
pub mod reply_coding;
pub mod soap;
pub mod soap_rest;
pub mod sse;
pub mod stores;
pub mod subscription;
pub mod tiers;
pub mod transform;
mod verdict_cache;
pub mod websocket;
mod xml_fault;
pub mod xpath_route;
pub mod xslt;
