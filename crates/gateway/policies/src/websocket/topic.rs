//! Topics: paths below a route at which WebSockets are opened, with the scopes that they require.

use policy::Claims;

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The path pattern below the route's prefix.
    pattern: Vec<Segment>,
    /// The path for the upstream, or `None` to forward the path as the route does.
    path: Option<Vec<Segment>>,
    /// The scopes of which the client needs one to send messages. If empty, every client may send; if `None`, no client may.
    publish: Option<Vec<String>>,
    /// The scopes of which the client needs one to receive messages, in the same way.
    subscribe: Option<Vec<String>>,
}

/// A part of a path between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Text(Box<str>),
    /// Any one segment. In the path for the upstream, the value of the parameter with this index.
    Parameter(usize),
    /// The rest of the path, `**`. In the path for the upstream, the value of the parameter with this index.
    Rest(usize),
}

/// The name of [`Segment::Rest`] among the parameters.
const REST: &str = "**";

/// The error for an invalid topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MalformedTopic {
    /// It does not begin with a slash, contains `?`, `#`, `%` or a space, or has a segment that is not valid.
    Path(String),
    /// The path for the upstream has a name that the topic does not have.
    Unknown(String),
    /// The topic has the same name twice.
    Twice(String),
}

/// The permissions of a client at its topic.
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
    /// Parses a topic such as `/room/{id}`, with a path such as `/r/{id}` for the upstream.
    pub fn new(
        pattern: &str,
        path: Option<&str>,
        publish: Option<Vec<String>>,
        subscribe: Option<Vec<String>>,
    ) -> Result<Topic, MalformedTopic> {
        let mut names: Vec<String> = Vec::new();
        let pattern = segments(pattern, &mut |name| {
            if names.iter().any(|known| known == name) {
                return Err(MalformedTopic::Twice(name.to_owned()));
            }
            names.push(name.to_owned());
            Ok(names.len() - 1)
        })?;
        let mut known = |name: &str| {
            let at = names.iter().position(|known| known == name);
            at.ok_or_else(|| MalformedTopic::Unknown(name.to_owned()))
        };
        let path = path.map(|path| segments(path, &mut known)).transpose()?;
        Ok(Topic { pattern, path, publish, subscribe })
    }

    /// Returns the rank among topics that match the same path: compared from the left, literal segments come before parameters.
    pub fn rank(&self) -> Vec<u8> {
        let rank = |segment: &Segment| match segment {
            Segment::Text(_) => 0,
            Segment::Parameter(_) => 1,
            Segment::Rest(_) => 2,
        };
        self.pattern.iter().map(rank).collect()
    }

    /// Returns true if both topics have the same path pattern.
    pub fn is_like(&self, other: &Topic) -> bool {
        self.pattern == other.pattern
    }

    /// Returns the parameters of a path if it matches this topic. The path's first slash may be missing.
    pub(super) fn parameters<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        let mut rest = Some(path.strip_prefix(b"/").unwrap_or(path));
        let mut parameters = Vec::new();
        for segment in &self.pattern {
            if let Segment::Rest(_) = segment {
                parameters.push(rest.take().unwrap_or(b""));
                break;
            }
            let all = rest?;
            let end = all.iter().position(|byte| *byte == b'/');
            let (part, after) = match end {
                Some(end) => (all.get(..end)?, all.get(end + 1..)),
                None => (all, None),
            };
            match segment {
                Segment::Text(text) if text.as_bytes() == part => {}
                Segment::Parameter(_) if !part.is_empty() => parameters.push(part),
                Segment::Text(_) | Segment::Parameter(_) | Segment::Rest(_) => return None,
            }
            rest = after;
        }
        rest.is_none().then_some(parameters)
    }

    /// Returns the target for the upstream, if the topic has one.
    pub(super) fn target(&self, parameters: &[&[u8]], query: Option<&[u8]>) -> Option<Box<[u8]>> {
        let mut target = Vec::new();
        for segment in self.path.as_ref()? {
            target.push(b'/');
            target.extend_from_slice(match segment {
                Segment::Text(text) => text.as_bytes(),
                Segment::Parameter(at) | Segment::Rest(at) => {
                    parameters.get(*at).copied().unwrap_or(b"")
                }
            });
        }
        if let Some(query) = query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        Some(target.into())
    }

    /// Returns the permissions of a client with these claims.
    pub(super) fn rights(&self, claims: Option<&Claims>) -> Rights {
        let may = |scopes: &Option<Vec<String>>| {
            let one = |scopes: &Vec<String>| {
                scopes.is_empty()
                    || claims
                        .is_some_and(|claims| scopes.iter().any(|scope| claims.has_scope(scope)))
            };
            scopes.as_ref().is_some_and(one)
        };
        Rights { publish: may(&self.publish), subscribe: may(&self.subscribe) }
    }
}

fn segments(
    path: &str,
    index: &mut dyn FnMut(&str) -> Result<usize, MalformedTopic>,
) -> Result<Vec<Segment>, MalformedTopic> {
    let malformed = || MalformedTopic::Path(path.to_owned());
    let below = path.strip_prefix('/').filter(|_| !path.contains(['?', '#', '%', ' ']));
    let below = below.ok_or_else(malformed)?;
    if let Some(before) = below.strip_suffix(REST).filter(|b| b.is_empty() || b.ends_with('/')) {
        let mut all = match before.strip_suffix('/') {
            Some(before) => segments(&format!("/{before}"), &mut *index)?,
            None => Vec::new(),
        };
        all.push(Segment::Rest(index(REST)?));
        return Ok(all);
    }
    below
        .split('/')
        .map(|part| match part.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) if !name.is_empty() && !name.contains(['*', '{', '}']) => {
                index(name).map(Segment::Parameter)
            }
            None if !part.contains(['*', '{', '}']) && !matches!(part, "." | "..") => {
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
        Topic::new(pattern, path, Some(Vec::new()), Some(Vec::new())).unwrap()
    }

    #[test]
    fn a_path_matches_a_topic_or_does_not() {
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
    fn malformed_topics_are_refused() {
        for (pattern, path) in [
            ("room", None),
            ("/room/{id", None),
            ("/room/{}", None),
            ("/a/../b", None),
            ("/a?b", None),
            ("/{id}/{id}", None),
            ("/{id}", Some("/{other}")),
            ("/a", Some("/b/**")),
            ("/{**}", None),
            ("/{a}{b}", None),
            ("/a/**/b", None),
            ("/a*", None),
        ] {
            let made = Topic::new(pattern, path, Some(Vec::new()), Some(Vec::new()));
            assert!(made.is_err(), "{pattern}");
        }
    }

    #[test]
    fn rights_come_from_scopes() {
        let scopes = |all: &[&str]| Some(all.iter().map(|scope| (*scope).to_owned()).collect());
        let topic = Topic::new("/a", None, scopes(&["w", "x"]), scopes(&["r"])).unwrap();
        let usual: &[&str] = &["scope", "scp"];
        for (names, claims, publish, subscribe) in [
            (usual, json!({ "scope": "r x" }), true, true),
            (usual, json!({ "scope": "rx w" }), true, false),
            (usual, json!({ "scp": ["r"] }), false, true),
            (usual, json!({ "scope": "", "scp": ["r"] }), false, false),
            (usual, json!({}), false, false),
            (usual, json!({ "permissions": ["w"] }), false, false),
            (&["permissions"], json!({ "permissions": ["w"], "scope": "r" }), true, false),
            (&["a.b"], json!({ "a": { "b": "r" } }), false, true),
            (&["a.b"], json!({ "a.b": "w", "a": { "b": "r" } }), true, false),
        ] {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let claims = Claims::of_members(claims.as_object().unwrap().clone(), names);
            assert_eq!(topic.rights(Some(&claims)), Rights { publish, subscribe });
        }
        assert_eq!(topic.rights(None), Rights::NONE);
        assert_eq!(super::tests::topic("/a", None).rights(None), Rights::ALL);
        let one_way = Topic::new("/a", None, None, scopes(&[])).unwrap();
        assert_eq!(one_way.rights(None), Rights { publish: false, subscribe: true });
    }

    #[test]
    fn a_topic_may_have_all_paths_below_it() {
        for (pattern, path, target) in [
            ("/a/**", "/a/b/c", Some("/r/b/c")),
            ("/a/**", "/a/", Some("/r/")),
            ("/a/**", "/a", Some("/r/")),
            ("/a/**", "/ab", None),
            ("/**", "/x/y", Some("/r/x/y")),
            ("/**", "", Some("/r/")),
        ] {
            let topic = topic(pattern, Some("/r/**"));
            let parameters = topic.parameters(path.as_bytes());
            let made = parameters.and_then(|found| topic.target(&found, None));
            assert_eq!(made.as_deref(), target.map(str::as_bytes), "{pattern} {path}");
        }
        let ranks = ["/a/b", "/a/{x}", "/a/**"].map(|pattern| topic(pattern, None).rank());
        assert!(ranks.is_sorted());
    }
}
