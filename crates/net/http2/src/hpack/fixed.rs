//! The static table (RFC 7541, appendix A).

/// Names and values. The first entry has the index 1.
pub(super) static FIXED: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Returns the index of the first entry with this name, which must be in lower case. Pseudo-headers are not found.
pub(super) fn index_of(name: &[u8]) -> Option<usize> {
    // Replies have few lines, and most of their names are in the table. For each length, at most a few names must be compared.
    let named = BY_LENGTH.get(name.len())?;
    let at = named.iter().take_while(|at| **at != 0);
    let mut found = at.filter(|at| {
        // Most names of one length differ in their last letter. Comparing it first avoids a call.
        let is_name = |known: &[u8]| known.last() == name.last() && known == name;
        FIXED.get(usize::from(**at) - 1).is_some_and(|(known, _)| is_name(known.as_bytes()))
    });
    found.next().map(|at| usize::from(*at))
}

const LONGEST_NAME: usize = "access-control-allow-origin".len();

/// The indices of the names of each length, without pseudo-headers. Unused places are 0.
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time, where an index out of bounds is an error"
)]
static BY_LENGTH: [[u8; 8]; LONGEST_NAME + 1] = {
    let mut table = [[0; 8]; LONGEST_NAME + 1];
    let mut at = FIXED.len();
    while at > 14 {
        let len = FIXED[at - 1].0.len();
        let mut place = 0;
        while table[len][place] != 0 {
            place += 1;
        }
        table[len][place] = at as u8;
        at -= 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found() {
        for (at, (name, _)) in FIXED.iter().enumerate().skip(14) {
            assert_eq!(index_of(name.as_bytes()), Some(at + 1), "{name}");
        }
        for other in
            ["", "x", ":status", "access-control-allow-origiq", "a-name-that-is-longer-than-all"]
        {
            assert_eq!(index_of(other.as_bytes()), None, "{other}");
        }
    }
}
