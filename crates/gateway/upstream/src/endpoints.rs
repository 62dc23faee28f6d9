//! Calls to URLs that are known only at run time. The operator configures which ones may be called. Each address is checked again
//! directly before a connection is made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fault::{Fault, Kind};
use ipnet::IpNet;
use kit::LocalBoxFuture;
use message::{Reply, Request};
use policy::{Call, Fetch};
use telemetry::UpstreamMetrics;

use crate::{AddressRule, CalledUrl, HostSent, Targets, Upstream, UpstreamSettings};

/// The addresses that may be called, and the connections to them.
pub struct Endpoints {
    urls: Vec<AllowedUrl>,
    networks: Vec<IpNet>,
    /// The settings of each origin, except its target, its name and its address rule.
    settings: UpstreamSettings,
    metrics: Arc<UpstreamMetrics>,
    /// The origins by URL.
    origins: Mutex<HashMap<String, Arc<Upstream>>>,
}

/// An origin, or the origins of all subdomains of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedUrl {
    pub https: bool,
    pub host: AllowedHost,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHost {
    /// A name in lower case, or an address.
    This(String),
    /// The subdomains of a name.
    Below(String),
}

/// An endpoint that may be called.
pub struct Endpoint(Arc<Upstream>);

/// The maximum number of origins that are kept with their connections. Messages determine which URLs are called, so the number must be
/// bounded.
const ORIGINS_MAX: usize = 512;

impl AllowedUrl {
    fn allows(&self, url: &CalledUrl) -> bool {
        let fits = match &self.host {
            AllowedHost::This(host) => *host == url.origin.host,
            AllowedHost::Below(parent) => {
                let below = url.origin.host.strip_suffix(parent.as_str());
                below.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
        };
        fits && self.https == url.origin.https && self.port == url.origin.port
    }
}

impl Endpoints {
    /// `settings` applies to each origin, except for its targets, its name and its addresses.
    pub fn new(
        urls: Vec<AllowedUrl>,
        networks: Vec<IpNet>,
        settings: UpstreamSettings,
        metrics: Arc<UpstreamMetrics>,
    ) -> Endpoints {
        Endpoints { urls, networks, settings, metrics, origins: Mutex::default() }
    }

    /// Returns true if the URL itself may be called. The addresses of its host are checked only when a connection is made.
    pub fn allows(&self, url: &str) -> bool {
        CalledUrl::parse(url).is_ok_and(|url| self.rule(&url).is_some())
    }

    /// The endpoint of a URL and its path with the query, or the reason why it must not be called.
    pub fn find(&self, url: &str) -> Result<(Endpoint, String), Fault> {
        let shown = || match url.char_indices().nth(200) {
            Some((end, _)) => format!("{}...", url.get(..end).unwrap_or_default().escape_debug()),
            None => url.escape_debug().to_string(),
        };
        let read = CalledUrl::parse(url);
        let read = read.map_err(|why| refused(format!("`{}` {why}", shown())))?;
        let rule =
            self.rule(&read).ok_or_else(|| refused(format!("`{}` is not in `allow`", shown())))?;
        let origin = self.origin(&read, rule)?;
        Ok((Endpoint(origin), read.target))
    }

    /// The rule for the addresses of a URL. None if the URL must not be called.
    fn rule(&self, url: &CalledUrl) -> Option<AddressRule> {
        let allowed = self.urls.iter().any(|allowed| allowed.allows(url));
        let mut rule = AddressRule { allow: self.networks.clone(), public: allowed };
        match url.address() {
            // An address in `allow` is permitted even if it is not public.
            Some(address) if allowed => rule.allow.push(address.into()),
            Some(address) => return rule.permits(address).then_some(rule),
            None => {}
        }
        (allowed || !self.networks.is_empty()).then_some(rule)
    }

    fn origin(&self, url: &CalledUrl, rule: AddressRule) -> Result<Arc<Upstream>, Fault> {
        let name = url.origin.url();
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(origin) = origins.get(&name) {
            return Ok(origin.clone());
        }
        if origins.len() >= ORIGINS_MAX {
            // Removes origins without calls in progress.
            origins.retain(|_, origin| Arc::strong_count(origin) > 1);
        }
        if origins.len() >= ORIGINS_MAX {
            let cause = format!("the limit of {ORIGINS_MAX} endpoints in use at once is reached");
            return Err(Fault::new(Kind::BreakerOpen, cause));
        }
        let settings = UpstreamSettings {
            name: name.clone(),
            targets: Targets::Fixed(vec![url.origin.clone()]),
            addresses: Some(Arc::new(rule)),
            ..self.settings.clone()
        };
        let origin = Upstream::new(settings, self.metrics.clone());
        origins.insert(name, origin.clone());
        Ok(origin)
    }
}

fn refused(cause: String) -> Fault {
    Fault::new(Kind::EndpointRefused, format!("endpoints: {cause}"))
}

impl Endpoint {
    /// `https://host:port`; without the port if it is the scheme's default.
    pub fn name(&self) -> &str {
        &self.0.settings().name
    }
}

impl Fetch for Endpoint {
    fn fetch<'a>(
        &'a self,
        mut call: Call<'a>,
        mut request: Request,
    ) -> LocalBoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            if let Some(id) = call.id
                && !request.head.headers.contains("x-request-id")
            {
                request.head.headers.add_known("X-Request-Id", id.as_bytes());
            }
            let sent = self.0.send(&mut call, &mut request, &HostSent::Target).await;
            kit::alarm::give(call.alarm);
            sent
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    fn endpoints(networks: &[&str]) -> Endpoints {
        let url = |https, host, port| AllowedUrl { https, host, port };
        let urls = vec![
            url(true, AllowedHost::This("api.example".to_owned()), 443),
            url(false, AllowedHost::Below("shop.example".to_owned()), 8080),
            url(false, AllowedHost::This("10.0.0.7".to_owned()), 80),
        ];
        let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        let metrics = telemetry::Telemetry::new(1).upstream("endpoints");
        Endpoints::new(urls, networks, settings(0), metrics)
    }

    #[test]
    fn only_listed_origins_and_subdomains_are_allowed() {
        let endpoints = endpoints(&[]);
        for (url, expected) in [
            ("https://api.example/a?b=c", true),
            ("HTTPS://API.example:443/", true),
            ("http://api.example/", false),
            ("https://api.example:8443/", false),
            ("https://x.api.example/", false),
            ("https://api.example.evil/", false),
            ("https://api.example@evil/", false),
            ("http://a.shop.example:8080/", true),
            ("http://a.b.shop.example:8080/", true),
            ("http://shop.example:8080/", false),
            ("http://.shop.example:8080/", false),
            ("http://evilshop.example:8080/", false),
            ("http://a.shop.example/", false),
            ("http://10.0.0.7/", true),
            ("http://10.0.0.8/", false),
            ("http://8.8.8.8/", false),
            ("ftp://api.example/", false),
            ("/a", false),
        ] {
            assert_eq!(endpoints.allows(url), expected, "{url}");
            let found = endpoints.find(url).map(drop).map_err(|fault| fault.kind);
            assert_eq!(found, if expected { Ok(()) } else { Err(Kind::EndpointRefused) }, "{url}");
        }
    }

    #[test]
    fn networks_allow_addresses_and_names_that_are_not_listed() {
        let endpoints = endpoints(&["10.1.0.0/16"]);
        let rule = |url: &str| endpoints.rule(&CalledUrl::parse(url).unwrap());
        for (url, expected) in [
            ("http://10.1.2.3:99/", true),
            ("http://10.2.0.1/", false),
            ("http://8.8.8.8/", false),
            ("http://[::ffff:10.1.2.3]/", true),
            ("http://127.0.0.1/", false),
        ] {
            assert_eq!(rule(url).is_some(), expected, "{url}");
        }
        let permits = |url: &str, address: &str| {
            rule(url).is_some_and(|rule| rule.permits(address.parse().unwrap()))
        };
        // The addresses of a name are checked when it is connected to: for a listed name, public ones are allowed too.
        for (url, address, expected) in [
            ("http://any.example/", "10.1.2.3", true),
            ("http://any.example/", "8.8.8.8", false),
            ("https://api.example/", "8.8.8.8", true),
            ("https://api.example/", "10.1.2.3", true),
            ("https://api.example/", "10.2.2.3", false),
            ("https://api.example/", "169.254.169.254", false),
            ("http://10.0.0.7/", "10.0.0.7", true),
            ("http://10.0.0.7/", "10.0.0.8", false),
        ] {
            assert_eq!(permits(url, address), expected, "{url} at {address}");
        }
    }

    #[test]
    fn origins_are_shared_and_bounded() {
        let endpoints = endpoints(&["10.0.0.0/8"]);
        let find = |url: &str| endpoints.find(url).map_err(|fault| fault.kind);
        let (one, path) = find("https://api.example/a?b").unwrap();
        let (other, _) = find("https://API.example/c").unwrap();
        assert!(Arc::ptr_eq(&one.0, &other.0));
        assert_eq!((path.as_str(), one.name()), ("/a?b", "https://api.example"));
        let url = |port: usize| format!("http://10.1.1.1:{}/", 1000 + port);
        let busy: Vec<_> = (1..ORIGINS_MAX).map(|port| find(&url(port)).unwrap()).collect();
        assert_eq!(find(&url(ORIGINS_MAX)).map(drop), Err(Kind::BreakerOpen));
        assert!(find(&url(1)).is_ok(), "a known one is found");
        drop(busy);
        assert!(find(&url(ORIGINS_MAX)).is_ok(), "those that are not in use make room");
        assert_eq!(endpoints.origins.lock().unwrap().len(), 2);
    }
}
