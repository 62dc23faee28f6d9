//! `schedules.NAME`: flows that run at fixed intervals or times of day.

use crate::decode::keys;
use crate::flows::JsonTemplate;
use crate::values::{Spanned, Timeout};

keys! {
    /// A flow that runs on a schedule. It needs one of `every` and `cron`. There is never more than one run at a time.
    pub struct Schedule {
        /// The time between two runs, at least `100ms`. The first run is after this time.
        every: Option<Spanned<Timeout>>,
        /// The times of day: second, minute, hour, day, month, weekday, such as `0 */5 * * * *`.
        cron: Option<Spanned<String>>,
        /// The time zone of `cron`, such as `Europe/Berlin`.
        // Gateways in several time zones then behave alike.
        time_zone: Spanned<String> = Spanned::unwritten("UTC".to_owned()),
        /// The name of one of the `flows`.
        flow: Spanned<String>,
        /// The message that the flow gets, as a POST to `/`. Without it the message is empty.
        message: ScheduleMessage,
    }
}

keys! {
    /// The message of a schedule.
    pub struct ScheduleMessage {
        /// XML.
        xml: Option<Spanned<String>>,
        /// JSON.
        json: Option<Spanned<JsonTemplate>>,
        /// Text.
        text: Option<Spanned<String>>,
        /// A form, such as `a=1&b=2`.
        form: Option<Spanned<String>>,
    }
}
