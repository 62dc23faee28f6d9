//! `tidegate ctl tail`: prints the exchanges of a running gateway as they end, one line of JSON each.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::ask::{self, AdminRequest, Gateway};
use crate::log;

/// The interval of requests to the gateway.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Prints exchanges for `time`, or until the program is stopped. If a route is given, only its exchanges are printed.
pub(crate) fn tail(
    gateway: &Gateway,
    route: Option<&str>,
    time: Option<Duration>,
) -> anyhow::Result<ExitCode> {
    let begun = kit::clock::now();
    let (mut path, mut left_out) = ("/tail".to_owned(), 0);
    loop {
        let question = AdminRequest { request: &format!("GET {path}"), headers: &[], body: b"" };
        let answer = match gateway.ask(&question) {
            Ok(answer) if answer.status == 200 => answer,
            Ok(answer) => return ask::report_answer(&answer),
            Err(why) => return Ok(ask::report_no_access(&why)),
        };
        let told = answer.json()?;
        let exchanges = told.get("exchanges").and_then(Value::as_array);
        // Harmless: an answer without exchanges has none.
        for exchange in exchanges.into_iter().flatten() {
            let its = exchange.get("route").and_then(Value::as_str);
            if route.is_none_or(|route| its == Some(route)) {
                log::write_out(&exchange.to_string())?;
            }
        }
        let number = |name: &str| told.get(name).and_then(Value::as_u64);
        let more = number("left_out").filter(|more| *more > left_out);
        if let Some(more) = more {
            log::say_error(&format!("{} exchanges were left out", more - left_out));
            left_out = more;
        }
        let next = number("next").map_or_else(String::new, |next| format!("?after={next}"));
        path = format!("/tail{next}");
        if time.is_some_and(|time| begun.elapsed() >= time) {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
