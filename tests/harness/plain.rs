//! The simplest configuration: one listener, one worker, one upstream, one route. A test adds the keys that it tests.

use super::{Gateway, Origin};

/// Additional keys. Each field has keys for one section, as `key: value, key: value`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Plain<'a> {
    pub(crate) listener: &'a str,
    pub(crate) upstream: &'a str,
    pub(crate) route: &'a str,
    /// The targets, if they are not the origin over plain HTTP.
    pub(crate) targets: &'a [String],
    /// Other sections, one per line.
    pub(crate) more: &'a str,
}

impl Plain<'_> {
    pub(crate) fn yaml(self, origin: &Origin) -> String {
        let targets = match self.targets {
            [] => format!("{:?}", [origin.url()]),
            targets => format!("{targets:?}"),
        };
        let Plain { listener, upstream, route, more, .. } = self;
        format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0", {listener} }} }}
workers: 1
upstreams: {{ origin: {{ targets: {targets}, {upstream} }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, {route} }} }}
{more}
"#
        )
    }

    #[track_caller]
    pub(crate) fn start(self, origin: &Origin) -> Gateway {
        Gateway::start(self.yaml(origin))
    }
}

impl Gateway {
    /// Starts a gateway that sends all requests to one origin.
    #[track_caller]
    pub(crate) fn before(origin: &Origin) -> Gateway {
        Plain::default().start(origin)
    }
}
