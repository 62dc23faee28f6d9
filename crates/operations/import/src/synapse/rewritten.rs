//! The URL that the rules of `rewrite` make.

use super::value::escaped;

/// A URL in parts, as templates. A part that is absent is the request's own.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Rewritten {
    pub(super) scheme: Option<String>,
    pub(super) host: Option<String>,
    pub(super) port: Option<String>,
    pub(super) path: Option<String>,
    pub(super) query: Option<String>,
}

impl Rewritten {
    /// Scheme, host and port.
    pub(super) fn target(&self) -> Result<String, String> {
        let host = self.host.as_deref().ok_or("the host is that of the gateway itself")?;
        let scheme = self.scheme.as_deref().unwrap_or("http");
        if !matches!(scheme, "http" | "https") {
            return Err(format!("`{scheme}` is not an HTTP scheme"));
        }
        Ok(match &self.port {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        })
    }

    /// The whole URL, as a template. If the path is the request's own, so is the query, unless a query is set.
    pub(super) fn whole(&self) -> Result<String, String> {
        let target = self.target()?;
        if target.contains("{{") {
            return Err("the host of a URL cannot be computed".to_owned());
        }
        let query = |query: &String| match &**query {
            "" => String::new(),
            query => format!("?{query}"),
        };
        match (&self.path, self.query.as_ref().map(query)) {
            (None, None) => Ok(format!("{target}{{{{ $request.path }}}}")),
            (None, Some(query)) => {
                let path = "substring-before(concat($request.path, '?'), '?')";
                Ok(format!("{target}{{{{ {path} }}}}{query}"))
            }
            // Harmless: a path that is set has no query unless that is set too.
            (Some(path), query) => Ok(format!("{target}{path}{}", query.unwrap_or_default())),
        }
    }

    pub(super) fn of(url: &str) -> Result<Rewritten, String> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| format!("`{url}` is not a whole URL"))?;
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, behind) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        if authority.contains(['@', '{', '$', '[']) {
            return Err(format!("the host of `{url}` has no counterpart"));
        }
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port.to_owned())),
            None => (authority, None),
        };
        let (path, query) = match behind.split_once('?') {
            Some((path, query)) => (path, Some(escaped(query))),
            None => (behind, None),
        };
        Ok(Rewritten {
            scheme: Some(scheme.to_owned()),
            host: Some(host.to_owned()),
            port,
            path: Some(escaped(path)),
            query,
        })
    }
}
