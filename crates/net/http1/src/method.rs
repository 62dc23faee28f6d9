//! Registered methods, and methods that are refused.

/// Returns true if a gateway must not serve this method: CONNECT would make it a proxy for any target, and TRACE would show clients the
/// headers that intermediaries add to their requests.
pub fn is_refused_method(method: &[u8]) -> bool {
    matches!(method, b"CONNECT" | b"TRACE")
}

/// Returns true if this is a method of the IANA registry. Methods are case-sensitive: `get` is not one.
pub fn is_registered_method(method: &[u8]) -> bool {
    // Nearly all requests have one of these, so they are checked before the long list.
    if matches!(method, b"GET" | b"POST" | b"PUT" | b"HEAD" | b"DELETE" | b"OPTIONS" | b"PATCH") {
        return true;
    }
    const OTHERS: &str = "ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY LABEL LINK LOCK \
        MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PROPFIND \
        PROPPATCH QUERY REBIND REPORT SEARCH TRACE UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE \
        UPDATEREDIRECTREF VERSION-CONTROL";
    OTHERS.split(' ').any(|other| other.as_bytes() == method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_methods_are_recognised_with_their_case() {
        for method in ["GET", "PATCH", "TRACE", "PROPFIND", "ACL", "VERSION-CONTROL"] {
            assert!(is_registered_method(method.as_bytes()), "{method}");
        }
        for method in ["", "get", "GETX", "FOOBAR", "ACL BIND", "PURGE"] {
            assert!(!is_registered_method(method.as_bytes()), "{method}");
        }
    }
}
