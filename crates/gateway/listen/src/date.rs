//! The `Date` header (RFC 9110, 6.6.1), formatted once a second.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use kit::clock;

thread_local! {
    static NOW: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

/// Appends `Date: ...` with its line end.
pub(crate) fn write_to(out: &mut Vec<u8>) {
    with(|date| {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date.as_bytes());
        out.extend_from_slice(b"\r\n");
    });
}

/// Passes the value to a function.
pub(crate) fn with<R>(work: impl FnOnce(&str) -> R) -> R {
    NOW.with_borrow_mut(|(second, date)| {
        let now = clock::wall().as_secs();
        if *second != now {
            *second = now;
            *date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now));
        }
        work(date)
    })
}

#[cfg(test)]
mod tests {
    use kit::fake;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_date_is_written_anew_when_the_second_changes_in_either_direction() {
        for (millis, expected) in [
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778_000, "Sun, 06 Nov 1994 08:49:38 GMT"),
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            fake::wall(Duration::from_millis(millis));
            let mut out = Vec::new();
            write_to(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("Date: {expected}\r\n"));
        }
    }
}
