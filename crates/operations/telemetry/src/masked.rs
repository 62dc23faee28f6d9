//! Removes credentials from the target of a request, for the access log.

use std::borrow::Cow;

use kit::percent;

/// Parts of names of parameters that are credentials, whatever the route uses.
const WORDS: [&[u8]; 11] = [
    b"password",
    b"passwd",
    b"secret",
    b"token",
    b"apikey",
    b"api_key",
    b"api-key",
    b"authorization",
    b"credential",
    b"signature",
    b"assertion",
];

/// Full names of such parameters.
const NAMES: [&[u8]; 4] = [b"jwt", b"pwd", b"sig", b"pass"];

/// The target with masked credentials. A star replaces the value of each parameter that is listed in `secrets` or whose name denotes a
/// credential, in any spelling. It also replaces each value that is a URL with such a parameter or with a user name. Some servers treat
/// `;` like `&`, and paths may have parameters.
pub fn masked<'t>(target: &'t [u8], secrets: &[String]) -> Cow<'t, [u8]> {
    let Some(first) = target.iter().position(|byte| matches!(byte, b'?' | b';')) else {
        return target.into();
    };
    let mut out = Vec::with_capacity(target.len());
    let (path, mut rest) = target.split_at_checked(first).unwrap_or((target, &[]));
    out.extend_from_slice(path);
    let (mut in_query, mut is_changed) = (false, false);
    while let Some((separator, behind)) = rest.split_first() {
        out.push(*separator);
        in_query |= *separator == b'?';
        let ends = |byte: &u8| matches!(byte, b'?' | b'&' | b';') || !in_query && *byte == b'/';
        let end = behind.iter().position(ends).unwrap_or(behind.len());
        let (piece, next) = behind.split_at_checked(end).unwrap_or((behind, &[]));
        rest = next;
        let equals = piece.iter().position(|byte| *byte == b'=');
        let (name, value) = piece.split_at_checked(equals.unwrap_or(end)).unwrap_or((piece, &[]));
        if is_masked(name, value, secrets) {
            is_changed = true;
            out.extend_from_slice(name);
            out.extend_from_slice(b"=*");
        } else {
            out.extend_from_slice(piece)
        }
    }
    if is_changed { out.into() } else { target.into() }
}

/// Returns true if the value of a parameter is masked. `value` begins with the `=`, if there is one.
fn is_masked(name: &[u8], value: &[u8], secrets: &[String]) -> bool {
    let plain = percent::decoded(name, true);
    let is_read =
        secrets.iter().any(|secret| secret.as_bytes().eq_ignore_ascii_case(plain.trim_ascii()));
    // A name that still has an escape counts as a credential, since a server may decode it again.
    is_read
        || value.len() > 1
            && (plain.contains(&b'%') || is_credential(&plain) || holds_credential(value))
}

fn is_credential(name: &[u8]) -> bool {
    NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
        || (0..name.len()).any(|at| {
            let rest = name.get(at..).unwrap_or_default();
            WORDS.iter().any(|word| {
                rest.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
            })
        })
}

/// True for an encoded URL or form with a credential in it.
fn holds_credential(value: &[u8]) -> bool {
    if !value.contains(&b'%') && !value.contains(&b'@') {
        return false;
    }
    let once = percent::decoded(value.get(1..).unwrap_or_default(), true);
    let twice = percent::decoded(&once, true);
    let has_user = twice.windows(3).position(|part| part == b"://").is_some_and(|at| {
        let host = twice.get(at + 3..).unwrap_or_default();
        let end = host.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
        host.get(..end.unwrap_or(host.len())).is_some_and(|host| host.contains(&b'@'))
    });
    has_user
        || twice.split(|byte| matches!(byte, b'?' | b'&' | b';' | b'#')).any(|piece| {
            let equals = piece.iter().position(|byte| *byte == b'=');
            equals.is_some_and(|at| piece.get(..at).is_some_and(is_credential))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_a_target_are_masked() {
        let secrets = ["ticket".to_owned(), "k".to_owned(), "hub.callback".to_owned()];
        for (target, told) in [
            ("/a?ticket=x.y.z&b=1", "/a?ticket=*&b=1"),
            ("/a?b=ticket&k=1&K=2&kk=3", "/a?b=ticket&k=*&K=*&kk=3"),
            ("/a?k", "/a?k=*"),
            ("/a?%6b=1&x%20y=2&z=%6b", "/a?%6b=*&x%20y=2&z=%6b"),
            ("/a?%256b=1&T%69cket=2", "/a?%256b=*&T%69cket=*"),
            ("/a?b=1;k=2?k=3", "/a?b=1;k=*?k=*"),
            ("/a;k=1/b;c=2/?d=3/k=4", "/a;k=*/b;c=2/?d=3/k=4"),
            (
                "/a?hub.secret=s&HUB%2ESECRET=t&hub.topic=u",
                "/a?hub.secret=*&HUB%2ESECRET=*&hub.topic=u",
            ),
            ("/a?hub.callback=https%3A%2F%2Fx%2Fy", "/a?hub.callback=*"),
            (
                "/a?Access_Token=1&X-Amz-Signature=2&sig=3&design=4",
                "/a?Access_Token=*&X-Amz-Signature=*&sig=*&design=4",
            ),
            ("/a?next=https%3A%2F%2Fx%3Ftoken%3D1", "/a?next=*"),
            ("/a?next=https%253A%252F%252Fx%253Ftoken%253D1", "/a?next=*"),
            ("/a?next=https://u:p@x/&mail=a@b", "/a?next=*&mail=a@b"),
            ("/a?token=&tokens", "/a?token=&tokens"),
            ("/a?", "/a?"),
            ("/a", "/a"),
            ("", ""),
        ] {
            let shown = masked(target.as_bytes(), &secrets);
            assert_eq!(String::from_utf8_lossy(&shown), told, "{target}");
        }
        assert_eq!(&*masked(b"/a?ticket=1&b=2", &[]), b"/a?ticket=1&b=2");
    }
}
