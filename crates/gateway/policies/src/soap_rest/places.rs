//! Matches paths of operations, and reads parameters from the path and the query.

use fault::{Fault, Kind};
use wsdl::typed::{Parameter, request_of};

use super::OperationPath;

/// A parameter of an operation that is called without a body.
#[derive(Debug, Clone)]
pub struct RequestParameter {
    pub name: Box<str>,
    /// The index of its path segment, or `None` for a query parameter.
    pub segment: Option<usize>,
    pub parameter: Parameter,
}

/// A segment of a path with parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathSegment {
    Literal(Box<str>),
    Parameter,
}

impl OperationPath {
    /// Returns true if the operation is at this path, which begins with a slash.
    pub(super) fn is_at(&self, path: &[u8]) -> bool {
        let Some(segments) = &self.segments else { return self.path.as_bytes() == path };
        let mut own = segments.iter();
        let mut parts = path.strip_prefix(b"/").unwrap_or(path).split(|byte| *byte == b'/');
        let fits = parts.by_ref().all(|part| match own.next() {
            Some(PathSegment::Literal(literal)) => literal.as_bytes() == part,
            Some(PathSegment::Parameter) => !part.is_empty(),
            None => false,
        });
        fits && own.next().is_none()
    }

    /// Returns the JSON for a request without a body, or `None` if the operation takes a body.
    pub(super) fn json(&self, path: &[u8], query: &[u8]) -> Result<Option<String>, Fault> {
        let Some(parameters) = &self.parameters else { return Ok(None) };
        let mut texts: Vec<Vec<String>> = vec![Vec::new(); parameters.len()];
        let parts: Vec<&[u8]> =
            path.strip_prefix(b"/").unwrap_or(path).split(|byte| *byte == b'/').collect();
        // Harmless: `texts` has one list for each parameter.
        for (parameter, texts) in parameters.iter().zip(&mut texts) {
            let part = parameter.segment.and_then(|at| parts.get(at));
            if let Some(part) = part {
                texts.push(decoded(part, false, &parameter.name)?);
            }
        }
        for (name, value) in kit::percent::raw_pairs(query) {
            let name = decoded(name, true, "a name")?;
            let found =
                parameters.iter().position(|known| known.segment.is_none() && *known.name == *name);
            let Some((at, found)) = found.and_then(|at| Some((at, parameters.get(at)?))) else {
                return Err(wrong(format!("/{name}: the operation has no such parameter")));
            };
            let Some(texts) = texts.get_mut(at) else { continue };
            if !texts.is_empty() && !found.parameter.is_many() {
                return Err(wrong(format!("/{name}: the parameter appears twice")));
            }
            texts.push(decoded(value, true, &name)?);
        }
        // Harmless: `texts` has one list for each parameter.
        let given = parameters.iter().zip(texts).filter(|(_, texts)| !texts.is_empty());
        Ok(Some(request_of(given.map(|(parameter, texts)| (&parameter.parameter, texts)))))
    }
}

fn decoded(text: &[u8], is_query: bool, name: &str) -> Result<String, Fault> {
    let decoded = kit::percent::decoded(text, is_query).into_owned();
    String::from_utf8(decoded).map_err(|_| wrong(format!("/{name}: it is not UTF-8")))
}

fn wrong(text: String) -> Fault {
    Fault::new(Kind::RequestInvalid, text.as_str()).with_errors(vec![text.into()])
}
