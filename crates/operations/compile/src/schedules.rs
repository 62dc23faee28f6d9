//! Compiles `schedules`.

use std::sync::Arc;
use std::time::Duration;

use ::flows::FlowEnd;
use bytes::Bytes;
use config::{Config, Report, Schedule, ScheduleMessage, Spanned};
use cron::Cron;
use plan::{Destination, ScheduleControl, Timing};

use crate::flows::Flows;
use crate::names;
use crate::policy_builder::PolicyBuilder;

/// The shortest interval of a schedule.
const EVERY_MIN: Duration = Duration::from_millis(100);

pub(crate) fn compile(
    config: &Config,
    flows: &Flows,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Vec<Arc<plan::Schedule>> {
    let mut schedules = Vec::new();
    for (name, schedule) in config.schedules.iter() {
        let keys = &schedule.value;
        let timing = timing(schedule, report);
        let message = message(&keys.message, report);
        if keys.flow.intact {
            names::known("flow", &keys.flow, &config.flows, report);
        }
        let flow = flows.get(&keys.flow.value);
        let (Some(timing), Some((content_type, body)), Some(flow)) = (timing, message, flow) else {
            continue;
        };
        let end = FlowEnd {
            flow: flow.clone(),
            route: name.value.as_str().into(),
            slots: flows.slots.clone(),
            parameters: Arc::default(),
        };
        let control = format!("what operators do to the schedule {}", name.value);
        schedules.push(Arc::new(plan::Schedule {
            name: name.value.clone(),
            timing,
            destination: Destination::answerer(end),
            content_type,
            body,
            metrics: builder.telemetry.schedule(&name.value),
            control: builder.reuse_or_build(&control, || Arc::new(ScheduleControl::default())),
        }));
    }
    schedules
}

fn timing(schedule: &Spanned<Schedule>, report: &mut Report) -> Option<Timing> {
    let Schedule { every, cron, time_zone, .. } = &schedule.value;
    match (every, cron) {
        (Some(every), None) if every.value.0 < EVERY_MIN => {
            report.error(every.at, "the interval is too short", "write at least `100ms`");
            None
        }
        (Some(every), None) => {
            if time_zone.at != config::At::NOWHERE {
                let what = "`time_zone` has no effect on `every`";
                report.warn(time_zone.at, what, "remove it, or write `cron`");
            }
            Some(Timing::Every(every.value.0))
        }
        (None, Some(cron)) => cron_of(cron, time_zone, report),
        (Some(_), Some(cron)) => {
            report.error(cron.at, "`every` and `cron` cannot be combined", "remove one of the two");
            None
        }
        (None, None) => {
            if schedule.intact {
                let help = "write `every: 10s` or `cron: \"0 */5 * * * *\"`";
                report.error(schedule.at, "a schedule needs `every` or `cron`", help);
            }
            None
        }
    }
}

fn cron_of(
    text: &Spanned<String>,
    time_zone: &Spanned<String>,
    report: &mut Report,
) -> Option<Timing> {
    let Ok(read) = Cron::parse(&text.value, &time_zone.value) else {
        let what = format!("there is no time zone `{}`", time_zone.value.escape_debug());
        report.error(time_zone.at, what, "write a name such as `Europe/Berlin` or `UTC`");
        return None;
    };
    match read {
        Ok(cron) if cron.next(kit::clock::wall()).is_none() => {
            let what = "there is no such day";
            report.error(text.at, what, "write days that exist in the months");
            None
        }
        Ok(cron) => Some(Timing::Cron(Box::new(cron), text.value.clone())),
        Err(malformed) => {
            let help = "write six fields: second, minute, hour, day, month, weekday, such as `0 */5 * * * *`";
            report.error(text.at, malformed.to_string(), help);
            None
        }
    }
}

fn message(
    message: &ScheduleMessage,
    report: &mut Report,
) -> Option<(Option<&'static str>, Bytes)> {
    let ScheduleMessage { xml, json, text, form } = message;
    let json = json.as_ref().map(|json| (json.at, &json.value.0));
    let written = [
        ("application/xml", xml.as_ref().map(|xml| (xml.at, &xml.value))),
        ("application/json", json),
        ("text/plain; charset=utf-8", text.as_ref().map(|text| (text.at, &text.value))),
        ("application/x-www-form-urlencoded", form.as_ref().map(|form| (form.at, &form.value))),
    ];
    // Harmless: only keys that are written count, so the others are skipped.
    let mut written = written.into_iter().filter_map(|(kind, text)| Some((kind, text?)));
    let Some((kind, (at, text))) = written.next() else { return Some((None, Bytes::new())) };
    if written.next().is_some() {
        report.error(
            at,
            "a message can have only one kind of body",
            "keep one of `xml`, `json`, `text` and `form`",
        );
        return None;
    }
    if kind == "application/xml"
        && let Err(error) = xml::Document::parse(text.as_bytes(), &xml::Options::default())
    {
        report.error(at, format!("this is not XML: {error}"), "write one document");
        return None;
    }
    Some((Some(kind), text.clone().into()))
}
