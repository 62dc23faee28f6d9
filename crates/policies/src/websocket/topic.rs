//! Topics: paths below a route at which WebSockets are opened, with the scopes that they ask for.

use policy::Claims;
use serde_json::Value;

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Below the route's prefix.
    pattern: Vec<Segment>,
    /// The path for the upstream; as the route forwards it if absent.
    path: Option<Vec<Segment>>,
    /// One of these has to be allowed for messages of the client; anybody may send where there are none.
    publish: Vec<String>,
    /// And one of these for messages to it.
    subscribe: Vec<String>,
}

/// A part of a path between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Text(Box<str>),
    /// Any one segment; in the path for the upstream the one with this index.
    Parameter(usize),
}

/// A topic that cannot be written so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MalformedTopic {
    /// It does not begin with a slash, or has a query.
    Path(String),
    /// A name in braces that the topic does not have.
    Unknown(String),
    /// A name in braces that the topic has twice.
    Twice(String),
}

/// The rights of a client at its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) publish: bool,
    pub(super) subscribe: bool,
}

impl Rights {
    pub(super) const ALL: Rights = Rights { publish: true, subscribe: true };
    pub(super) const NONE: Rights = Rights { publish: false, subscribe: false };
}

impl Topic {
    /// A topic such as `/room/{id}`, with the path `/r/{id}` for the upstream.
    pub fn new(
        pattern: &str,
        path: Option<&str>,
        publish: Vec<String>,
        subscribe: Vec<String>,
    ) -> Result<Topic, MalformedTopic> {
        let mut names: Vec<String> = Vec::new();
        let pattern = segments(pattern, |name| {
            if names.iter().any(|known| known == name) {
                return Err(MalformedTopic::Twice(name.to_owned()));
            }
            names.push(name.to_owned());
            Ok(names.len() - 1)
        })?;
        let known = |name: &str| {
            let at = names.iter().position(|known| known == name);
            at.ok_or_else(|| MalformedTopic::Unknown(name.to_owned()))
        };
        let path = path.map(|path| segments(path, known)).transpose()?;
        Ok(Topic { pattern, path, publish, subscribe })
    }

    /// Its place among topics that have the same path: the one that says more of it comes first, from the left.
    pub fn rank(&self) -> Vec<bool> {
        self.pattern.iter().map(|segment| matches!(segment, Segment::Parameter(_))).collect()
    }

    /// True if the paths of both are the same.
    pub fn is_like(&self, other: &Topic) -> bool {
        self.pattern == other.pattern
    }

    /// The parameters of a path that is of this topic. The path's first slash may be missing.
    pub(super) fn parameters<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let mut parts = path.split(|byte| *byte == b'/');
        let mut parameters = Vec::new();
        for segment in &self.pattern {
            let part = parts.next()?;
            match segment {
                Segment::Text(text) if text.as_bytes() == part => {}
                Segment::Parameter(_) if !part.is_empty() => parameters.push(part),
                Segment::Text(_) | Segment::Parameter(_) => return None,
            }
        }
        parts.next().is_none().then_some(parameters)
    }

    /// The target for the upstream, if the topic says one.
    pub(super) fn target(&self, parameters: &[&[u8]], query: Option<&[u8]>) -> Option<Box<[u8]>> {
        let mut target = Vec::new();
        for segment in self.path.as_ref()? {
            target.push(b'/');
            target.extend_from_slice(match segment {
                Segment::Text(text) => text.as_bytes(),
                Segment::Parameter(at) => parameters.get(*at).copied().unwrap_or(b""),
            });
        }
        if let Some(query) = query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        Some(target.into())
    }

    /// The rights of a client with these claims.
    pub(super) fn rights(&self, claims: Option<&Claims>) -> Rights {
        let may = |scopes: &[String]| scopes.is_empty() || scopes.iter().any(|s| has(claims, s));
        Rights { publish: may(&self.publish), subscribe: may(&self.subscribe) }
    }
}

/// True if the claims allow a scope: `scope`, or `scp` where that is absent, as a text or a list.
fn has(claims: Option<&Claims>, scope: &str) -> bool {
    let stated = claims.and_then(|claims| claims.get("scope").or_else(|| claims.get("scp")));
    match stated {
        Some(Value::String(text)) => text.split(' ').any(|stated| stated == scope),
        Some(Value::Array(items)) => items.iter().any(|item| item.as_str() == Some(scope)),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => false,
    }
}

fn segments(
    path: &str,
    mut index: impl FnMut(&str) -> Result<usize, MalformedTopic>,
) -> Result<Vec<Segment>, MalformedTopic> {
    let malformed = || MalformedTopic::Path(path.to_owned());
    let below = path.strip_prefix('/').filter(|_| !path.contains(['?', '#', '%', ' ']));
    let parts = below.ok_or_else(malformed)?.split('/');
    parts
        .map(|part| match part.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) if !name.is_empty() => index(name).map(Segment::Parameter),
            None if !part.contains(['{', '}']) && !matches!(part, "." | "..") => {
                Ok(Segment::Text(part.into()))
            }
            Some(_) | None => Err(malformed()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn topic(pattern: &str, path: Option<&str>) -> Topic {
        Topic::new(pattern, path, Vec::new(), Vec::new()).unwrap()
    }

    #[test]
    fn paths_are_of_a_topic_or_not() {
        for (pattern, path, target) in [
            ("/room/{id}", "/room/7", Some("/r/7?q=1")),
            ("/room/{id}", "room/7", Some("/r/7?q=1")),
            ("/room/{id}", "/room/", None),
            ("/room/{id}", "/room/7/8", None),
            ("/room/{id}", "/rooms/7", None),
            ("/{id}", "/7", Some("/r/7?q=1")),
        ] {
            let topic = topic(pattern, Some("/r/{id}"));
            let parameters = topic.parameters(path.as_bytes());
            let made = parameters.and_then(|found| topic.target(&found, Some(b"q=1")));
            assert_eq!(made.as_deref(), target.map(str::as_bytes), "{pattern} {path}");
        }
        assert_eq!(topic("/a", None).target(&[], None), None);
        assert!(topic("/", None).parameters(b"").is_some());
    }

    #[test]
    fn topics_that_cannot_be_are_refused() {
        for (pattern, path) in [
            ("room", None),
            ("/room/{id", None),
            ("/room/{}", None),
            ("/a/../b", None),
            ("/a?b", None),
            ("/{id}/{id}", None),
            ("/{id}", Some("/{other}")),
        ] {
            assert!(Topic::new(pattern, path, Vec::new(), Vec::new()).is_err(), "{pattern}");
        }
    }

    #[test]
    fn rights_come_from_scopes() {
        let topic = Topic::new("/a", None, vec!["w".into(), "x".into()], vec!["r".into()]).unwrap();
        for (claims, publish, subscribe) in [
            (json!({ "scope": "r x" }), true, true),
            (json!({ "scope": "rx w" }), true, false),
            (json!({ "scp": ["r"] }), false, true),
            (json!({ "scope": "", "scp": ["r"] }), false, false),
            (json!({}), false, false),
        ] {
            let claims = Claims::from(claims.as_object().unwrap().clone());
            assert_eq!(topic.rights(Some(&claims)), Rights { publish, subscribe });
        }
        assert_eq!(topic.rights(None), Rights::NONE);
        assert_eq!(super::tests::topic("/a", None).rights(None), Rights::ALL);
    }
}
