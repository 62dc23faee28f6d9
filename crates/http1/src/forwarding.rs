//! Lines by which one proxy tells the next who asks and for what.

use crate::token::is_alias;

/// Whether a line says something about the client or its request that only a trusted proxy may say: who asks, which host,
/// scheme or path it asked for. Servers and frameworks believe each of these somewhere. All of `X-Forwarded-*` counts, and so do
/// spellings with underscores.
pub fn is_forwarding(name: &[u8]) -> bool {
    const FAMILY: &[u8] = b"x-forwarded-";
    let is = |other: &[u8]| is_alias(name, other);
    // Told apart by length first: of the lines of an ordinary head only one or two need a comparison.
    match name.len() {
        9 => is(b"forwarded") || is(b"x-real-ip"),
        11 => is(b"x-client-ip"),
        13 => is(b"x-rewrite-url"),
        14 => is(b"x-original-url") || is(b"true-client-ip"),
        15 if is(b"x-original-host") => true,
        19 if is(b"x-cluster-client-ip") => true,
        _ => name.get(..FAMILY.len()).is_some_and(|start| is_alias(start, FAMILY)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_the_client() {
        for name in [
            "Forwarded",
            "X-Forwarded-For",
            "x_forwarded_for",
            "X-Forwarded-Client-Cert",
            "X-Forwarded-Prefix",
            "X-Real-IP",
            "X_Real_IP",
            "X-Client-IP",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-Original-Host",
            "True-Client-IP",
            "X-Cluster-Client-IP",
        ] {
            assert!(is_forwarding(name.as_bytes()), "{name}");
        }
        for name in ["Forward", "X-Forward-For", "X-Forwarded", "X-Request-Id", "Via", "X-User"] {
            assert!(!is_forwarding(name.as_bytes()), "{name}");
        }
    }
}
