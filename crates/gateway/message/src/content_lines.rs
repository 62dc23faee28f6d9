//! Methods whose requests have no meaningful content, and the header lines that describe content.

use crate::Headers;

/// Returns true for methods whose content has no meaning (RFC 9110, 9.3). A service that ignores the content of such a request would take
/// it for the next request on the connection.
pub fn ignores_content(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"DELETE" | b"OPTIONS" | b"TRACE")
}

impl Headers {
    /// Removes the header lines that describe a body, in any spelling: `Content-Type` and similar, digests, `Trailer`.
    pub fn remove_content_lines(&mut self) {
        const PREFIX: &[u8] = b"content-";
        const OTHERS: [&[u8]; 3] = [b"digest", b"repr-digest", b"trailer"];
        self.retain(|name, _| {
            let prefix = name.get(..PREFIX.len()).unwrap_or(b"");
            !http1::is_alias(prefix, PREFIX)
                && !OTHERS.iter().any(|other| http1::is_alias(name, other))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_describe_content_are_removed() {
        let mut headers = Headers::new();
        for name in ["Content-Type", "content_encoding", "Content-Digest", "Digest", "Trailer"] {
            headers.add(name, b"a").unwrap();
        }
        for name in ["Accept", "Content", "X-Content-Type", "Contents"] {
            headers.add(name, b"b").unwrap();
        }
        headers.remove_content_lines();
        let left: Vec<&[u8]> = headers.iter().map(|(name, _)| name).collect();
        assert_eq!(left, [&b"Accept"[..], b"Content", b"X-Content-Type", b"Contents"]);
    }
}
