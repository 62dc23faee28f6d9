//! Keys of policies to policies, a file for each kind that takes more than a few lines.

pub(crate) mod api_key;
pub(crate) mod authorize;
pub(crate) mod basic;
pub(crate) mod cache;
pub(crate) mod compress;
pub(crate) mod concurrency;
pub(crate) mod cors;
pub(crate) mod headers;
pub(crate) mod interceptor;
pub(crate) mod ip_filter;
pub(crate) mod jwt;
pub(crate) mod key_type;
pub(crate) mod mutual_tls;
pub(crate) mod openapi;
pub(crate) mod rate_limit;
pub(crate) mod soap;
pub(crate) mod soap_rest;
pub(crate) mod supply;
pub(crate) mod transform;
pub(crate) mod xpath_route;
pub(crate) mod xslt;
