//! Removes header lines that describe the bytes of a body and become wrong when the body changes.

use message::{Headers, Names};

/// Headers that describe the exact bytes of a body: digests (RFC 9530, RFC 3230, RFC 1864), and the offer of range requests.
const OF_BYTES: Names<5> = Names::new(
    ["content-digest", "repr-digest", "digest", "content-md5", "accept-ranges"],
    "content-digest\nrepr-digest\ndigest\ncontent-md5\naccept-ranges",
);

/// The headers of [`OF_BYTES`] and the entity tag.
const OF_DOCUMENT: Names<6> = Names::new(
    ["content-digest", "repr-digest", "digest", "content-md5", "accept-ranges", "etag"],
    "content-digest\nrepr-digest\ndigest\ncontent-md5\naccept-ranges\netag",
);

/// Called when another document replaces the body. The entity tag of the old document does not identify versions of the new one.
pub(crate) fn replaced(headers: &mut Headers) {
    headers.remove_all(&OF_DOCUMENT);
}

/// Called when parts of the document were changed. A strong entity tag is removed; a weak one stays valid, since it does not describe the
/// bytes.
pub(crate) fn edited(headers: &mut Headers) {
    forget_digests(headers);
    if has_strong_tag(headers) {
        headers.remove("etag");
    }
}

/// Called when the content coding was changed.
pub(crate) fn recoded(headers: &mut Headers) {
    forget_digests(headers);
    weaken(headers);
}

/// Turns a strong entity tag into a weak one, since the bytes are no longer those of the upstream.
pub(crate) fn weaken(headers: &mut Headers) {
    let strong = headers.get("etag").filter(|_| has_strong_tag(headers));
    if let Some(tag) = strong.map(|tag| [b"W/", tag].concat()) {
        headers.remove("etag");
        headers.add_known("ETag", &tag);
    }
}

fn forget_digests(headers: &mut Headers) {
    headers.remove_all(&OF_BYTES);
}

fn has_strong_tag(headers: &Headers) -> bool {
    headers.get("etag").is_some_and(|tag| !tag.starts_with(b"W/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_list_have_the_same_names() {
        assert_eq!(OF_BYTES.each().join("\n"), OF_BYTES.all());
        assert_eq!(OF_DOCUMENT.each().join("\n"), OF_DOCUMENT.all());
        assert_eq!([OF_BYTES.all(), "etag"].join("\n"), OF_DOCUMENT.all());
    }

    #[test]
    fn lines_about_the_bytes_are_removed_and_others_stay() {
        type Change = fn(&mut Headers);
        const STRONG: &[u8] = b"\"a\"";
        const WEAK: &[u8] = b"W/\"a\"";
        for (change, of_strong, of_weak) in [
            (replaced as Change, None, None),
            (edited, None, Some(WEAK)),
            (recoded, Some(WEAK), Some(WEAK)),
        ] {
            for (tag, expected) in [(STRONG, of_strong), (WEAK, of_weak)] {
                let mut headers = Headers::new();
                for name in OF_BYTES.each().into_iter().chain(["x-a"]) {
                    headers.add(&name.to_ascii_uppercase(), b"a").unwrap();
                }
                headers.add("ETag", tag).unwrap();
                change(&mut headers);
                assert_eq!(headers.get("etag"), expected);
                let left: Vec<&[u8]> = headers.iter().map(|(name, _)| name).collect();
                assert!(left.contains(&&b"X-A"[..]) && left.len() <= 2, "{left:?}");
            }
        }
    }
}
