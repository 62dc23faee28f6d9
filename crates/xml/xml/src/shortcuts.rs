//! One switch for all that is skipped, reused or remembered when XML is read: docs/adr/0025 has the list. The outcome is the same with and
//! without shortcuts; a difference is a defect of a shortcut.

use std::sync::atomic::{AtomicU8, Ordering};

/// `off` in this variable of the environment turns the shortcuts of a process off.
const VARIABLE: &str = "TIDEGATE_XML_SHORTCUTS";

const UNKNOWN: u8 = 0;
const ON: u8 = 1;
const OFF: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Returns whether shortcuts may be taken. This is called once for each document, and for each new tag.
pub fn shortcuts() -> bool {
    match STATE.load(Ordering::Relaxed) {
        UNKNOWN => {
            let on = std::env::var_os(VARIABLE).is_none_or(|value| value != "off");
            set_shortcuts(on);
            on
        }
        state => state == ON,
    }
}

/// Turns the shortcuts of the process on or off, for comparisons of both.
pub fn set_shortcuts(on: bool) {
    STATE.store(if on { ON } else { OFF }, Ordering::Relaxed);
}
