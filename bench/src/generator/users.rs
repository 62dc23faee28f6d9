//! The users of one thread. Each sends a request, waits for the reply, pauses, and sends the next request (a closed loop).
//!
//! Owns the connections of its users, the ramp, pauses and timeouts. It runs on one thread with one epoll, and shares nothing with other
//! threads except for the [`Control`].

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use super::check::{Check, Seen};
use super::compiled::{Compiled, Turn};
use super::control::Control;
use super::load::{Group, Load, Requests, Template};
use super::log::SampleLog;
use super::outcome::{ErrorKind, LabelOutcome, Users};
use super::recorder::{Recorder, Sample, Shape};
use super::reply::{Inquiry, Progress, Reader};
use super::wire::{Arrival, Dialer, Wire};

/// The users of one thread.
pub(super) struct Crowd<'l> {
    load: &'l Load,
    control: &'l Control,
    dialer: Dialer,
    groups: Vec<Loop<'l>>,
    users: Vec<User>,
    recorders: Vec<Recorder>,
    log: Option<SampleLog<'l>>,
    poll: Poll,
    clock: Clock,
    /// The number of the next request. Threads use different numbers.
    number: u64,
    number_step: u64,
    presence: Presence,
}

/// The start of the load, and the latest reading of the clock.
#[derive(Clone, Copy)]
struct Clock {
    start: Instant,
    now: Duration,
}

/// A group, with the users of this thread.
struct Loop<'l> {
    group: &'l Group,
    requests: Vec<Sending>,
    /// The order in which requests are sent, according to their weights.
    order: Vec<usize>,
    /// The indices of this thread's users of the group.
    members: std::ops::Range<usize>,
    /// The number of active users among them.
    active: usize,
    /// The users who pause, sorted by the end of their pause.
    pausing: VecDeque<(Duration, usize)>,
}

struct Sending {
    recorder: usize,
    request: Compiled,
    check: Check,
    is_head: bool,
}

struct User {
    number: u64,
    group: usize,
    state: State,
    wire: Option<Wire>,
    reader: Reader,
    seen: Seen,
    /// The current request.
    turn: Turn,
    request: usize,
    request_bytes: usize,
    begin: Duration,
    /// The number of requests that it has sent.
    count: usize,
    /// The number of consecutive connections that failed.
    refused: u32,
    pause_end: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not active yet, or no longer active.
    Away,
    Connecting,
    Waiting,
    Pausing,
}

/// What epoll reported for a connection.
#[derive(Clone, Copy)]
struct Ready {
    is_writable: bool,
    /// Whether the server will send nothing more.
    is_ending: bool,
}

/// Integrates the number of users over time.
#[derive(Default)]
struct Presence {
    now: usize,
    since: Duration,
    warm_up: Duration,
    measured: Duration,
}

const SCRATCH_BYTES: usize = 256 << 10;
const EVENTS_MAX: usize = 1024;
/// The interval of checks of the ramp and the timeouts.
const TICK: Duration = Duration::from_millis(5);
/// Maximum pause after connections that failed. The pause grows, so that an unreachable target is not tried continuously.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(1);
/// The pause after the first connection that failed.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);
/// Maximum length of the order of a group's requests.
const ORDER_MAX: usize = 4096;

impl<'l> Crowd<'l> {
    /// Creates the users of one of the load's threads.
    pub(super) fn new(
        load: &'l Load,
        requests: &'l Requests,
        thread: u32,
        control: &'l Control,
        log: Option<SampleLog<'l>>,
    ) -> Result<Crowd<'l>, String> {
        let shape = Shape::of(load);
        let (mut recorders, mut labels) = (Vec::new(), Vec::<&str>::new());
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        let mut first = 0;
        for (number, group) in requests.groups.iter().enumerate() {
            let mut sending = Vec::new();
            for template in &group.requests {
                let known = labels.iter().position(|label| *label == template.label);
                let recorder = known.unwrap_or_else(|| {
                    labels.push(&template.label);
                    recorders.push(Recorder::new(template.label.clone(), group.think, shape));
                    recorders.len() - 1
                });
                sending.push(Sending::new(load, requests, template, recorder));
            }
            let begin = users.len();
            for user in (0..group.users_max()).filter(|user| user % load.threads == thread) {
                let of = u64::from(load.share.of);
                let user = u64::from(load.share.part) + (first + u64::from(user)) * of;
                users.push(User::new(user, number));
            }
            first += u64::from(group.users_max());
            groups.push(Loop {
                group,
                requests: sending,
                order: order(&group.requests)?,
                members: begin..users.len(),
                active: 0,
                pausing: VecDeque::new(),
            });
        }
        let dialer = Dialer::new(&load.target)?;
        let poll = Poll::new().map_err(|error| error.to_string())?;
        let clock = Clock { start: control.start(), now: Duration::ZERO };
        let number_step = u64::from(load.share.of) * u64::from(load.threads);
        let number = u64::from(load.share.part) * u64::from(load.threads) + u64::from(thread);
        let presence = Presence::default();
        Ok(Crowd {
            load,
            control,
            dialer,
            groups,
            users,
            recorders,
            log,
            poll,
            clock,
            number,
            number_step,
            presence,
        })
    }

    /// Runs the load until it ends or is stopped. Calls `at_warm_up` at the end of the warm-up.
    pub(super) fn run(&mut self, mut at_warm_up: impl FnMut()) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut scratch = vec![0; SCRATCH_BYTES];
        let mut is_warm = false;
        let mut next_tick = Duration::ZERO;
        loop {
            self.clock.read();
            if !is_warm && self.clock.now >= self.load.warm_up {
                is_warm = true;
                at_warm_up();
            }
            if self.clock.now >= next_tick {
                next_tick = self.clock.now + TICK;
                self.follow_ramp();
                self.end_late();
                self.count();
            }
            self.end_pauses();
            if self.control.is_stopped() || self.is_over() {
                return Ok(());
            }
            let wait = self.wait(next_tick);
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            self.clock.read();
            for event in &events {
                let ready = Ready {
                    is_writable: event.is_writable() || event.is_error(),
                    is_ending: event.is_read_closed(),
                };
                self.advance(event.token().0, ready, &mut scratch);
            }
        }
    }

    /// Returns what was measured.
    pub(super) fn finish(mut self) -> (Vec<LabelOutcome>, Users, Option<String>) {
        self.presence.change(0, self.clock.now, self.load);
        let seconds = |time: Duration| time.as_secs_f64();
        let ran = self.clock.now.min(self.load.duration);
        let warm_up = seconds(self.load.warm_up.min(ran));
        let measured = seconds(ran) - warm_up;
        let mean = |area: Duration, time: f64| if time > 0.0 { seconds(area) / time } else { 0.0 };
        let users = Users {
            warm_up: mean(self.presence.warm_up, warm_up),
            measured: mean(self.presence.measured, measured),
        };
        self.count();
        let failed = self.log.and_then(SampleLog::finish);
        (self.recorders.into_iter().map(Recorder::finish).collect(), users, failed)
    }

    fn count(&mut self) {
        for recorder in &mut self.recorders {
            self.control.count_of(recorder);
        }
    }

    /// Returns true after the end of the load, once no request is in progress.
    fn is_over(&self) -> bool {
        let is_busy = |user: &User| matches!(user.state, State::Connecting | State::Waiting);
        self.clock.now >= self.load.duration && !self.users.iter().any(is_busy)
    }

    fn wait(&self, next_tick: Duration) -> Duration {
        let pauses = self.groups.iter().filter_map(|group| Some(group.pausing.front()?.0));
        let next = pauses.fold(next_tick, Duration::min);
        next.saturating_sub(self.clock.now)
    }

    /// Activates or deactivates users as the stages require.
    fn follow_ramp(&mut self) {
        let is_over = self.clock.now >= self.load.duration;
        for at in 0..self.groups.len() {
            let Some(group) = self.groups.get(at) else { return };
            let users = group.group.users_at(self.clock.now).round();
            // The stages are for the users of all threads. This thread has every `threads`th of them.
            let wanted = if is_over {
                0
            } else {
                share(users, group.group.users_max(), group.members.len())
            };
            let (first, active) = (group.members.start, group.active);
            if let Some(group) = self.groups.get_mut(at) {
                group.active = wanted;
            }
            for user in first + active..first + wanted {
                self.come(user);
            }
            for user in first + wanted..first + active {
                self.leave_if_idle(user);
            }
        }
        let present = self.users.iter().filter(|user| user.state != State::Away).count();
        if present != self.presence.now {
            self.presence.change(present, self.clock.now, self.load);
        }
    }

    fn come(&mut self, at: usize) {
        if self.users.get(at).is_some_and(|user| user.state == State::Away) {
            self.begin(at);
        }
    }

    fn leave_if_idle(&mut self, at: usize) {
        if let Some(user) = self.users.get_mut(at).filter(|user| user.state == State::Pausing) {
            user.state = State::Away;
            user.wire = None;
        }
    }

    /// Returns true while the stages require this user.
    fn is_wanted(&self, at: usize) -> bool {
        let Some(user) = self.users.get(at) else { return false };
        let group = self.groups.get(user.group);
        self.clock.now < self.load.duration
            && group.is_some_and(|group| at < group.members.start + group.active)
    }

    /// Begins the user's next request, and opens a connection if there is none.
    fn begin(&mut self, at: usize) {
        let Some(user) = self.users.get_mut(at) else { return };
        let Some(group) = self.groups.get(user.group) else { return };
        let turn = user.count.wrapping_add(usize::try_from(user.number).unwrap_or(0));
        user.request = group.order.get(turn % group.order.len().max(1)).copied().unwrap_or(0);
        user.count += 1;
        user.turn = Turn { number: self.number, user: user.number, seed: self.load.seed };
        self.number = self.number.wrapping_add(self.number_step);
        user.begin = self.clock.now;
        user.request_bytes = 0;
        user.reader.reset();
        user.seen.reset();
        if user.wire.is_some() {
            user.state = State::Waiting;
            return self.send(at);
        }
        user.state = State::Connecting;
        match self.dialer.dial(self.poll.registry(), Token(at)) {
            Ok(wire) => user.wire = Some(wire),
            Err(kind) => self.end(at, Err(kind)),
        }
    }

    fn send(&mut self, at: usize) {
        let Some(user) = self.users.get_mut(at) else { return };
        let group = self.groups.get_mut(user.group);
        let sending = group.and_then(|group| group.requests.get_mut(user.request));
        let (Some(sending), Some(wire)) = (sending, &mut user.wire) else { return };
        let bytes = sending.request.of(&user.turn);
        user.request_bytes = bytes.len();
        if let Err(kind) = wire.send(bytes) {
            self.end(at, Err(kind));
        }
    }

    /// Processes what has been received for a user, and sends what could not be sent before.
    fn advance(&mut self, at: usize, ready: Ready, scratch: &mut [u8]) {
        match self.try_advance(at, ready, scratch) {
            Ok(Some(result)) => self.end(at, result),
            Ok(None) => {}
            Err(kind) => self.end(at, Err(kind)),
        }
    }

    fn try_advance(
        &mut self,
        at: usize,
        ready: Ready,
        scratch: &mut [u8],
    ) -> Result<Option<Result<(), ErrorKind>>, ErrorKind> {
        let Some(user) = self.users.get_mut(at) else { return Ok(None) };
        let Some(wire) = &mut user.wire else { return Ok(None) };
        if user.state == State::Connecting {
            if !wire.is_connected()? {
                return Ok(None);
            }
            user.state = State::Waiting;
            self.send(at);
        } else if ready.is_writable {
            wire.flush()?;
        }
        let Some(user) = self.users.get_mut(at) else { return Ok(None) };
        let Some(wire) = &mut user.wire else { return Ok(None) };
        let group = self.groups.get_mut(user.group);
        let sending = group.and_then(|group| group.requests.get_mut(user.request));
        let Some(sending) = sending else { return Ok(None) };
        let is_waiting = user.state == State::Waiting;
        let (reader, seen, turn) = (&mut user.reader, &mut user.seen, &user.turn);
        let Sending { request, check, is_head, .. } = sending;
        let headers = std::mem::take(&mut check.headers);
        let wanted = Inquiry { headers: &headers, is_head: *is_head };
        let mut progress = Progress::Partial;
        let arrival = wire.read(ready.is_ending, scratch, |bytes| {
            // The server must not send anything while no request is in progress.
            if !is_waiting || progress != Progress::Partial {
                return Err(ErrorKind::Protocol);
            }
            progress = reader.take(bytes, &wanted, |head, piece| {
                check.take(seen, piece, head.is_gzip, request, turn);
            })?;
            Ok(())
        });
        check.headers = headers;
        let arrival = arrival?;
        if !is_waiting {
            // The server may close a connection while its user pauses. The next request opens another.
            if arrival == Arrival::Closed {
                user.wire = None;
            }
            return Ok(None);
        }
        let head = match (progress, arrival) {
            (Progress::Whole(head), _) => head,
            (Progress::Partial, Arrival::Drained) => return Ok(None),
            (Progress::Partial, Arrival::Closed) => reader.close().ok_or(ErrorKind::Closed)?,
        };
        if head.closes || arrival == Arrival::Closed {
            user.wire = None;
        }
        let is_right = check.finish(seen, head.is_gzip, request, turn) && head.has_expected;
        Ok(Some(match (head.status == check.status, is_right) {
            (true, true) => Ok(()),
            (true, false) => Err(ErrorKind::Content),
            (false, _) => Err(ErrorKind::Status),
        }))
    }

    /// Counts the request that has ended, and begins the user's pause or its next request.
    fn end(&mut self, at: usize, result: Result<(), ErrorKind>) {
        self.clock.read();
        let Some(user) = self.users.get_mut(at) else { return };
        if matches!(user.state, State::Away | State::Pausing) {
            // Bytes without a request are not a sample. The connection is not used again.
            user.wire = None;
            return;
        }
        let has_reply = !matches!(result, Err(kind) if !kind.has_reply());
        let sample = Sample {
            begin: user.begin,
            end: self.clock.now,
            result,
            status: has_reply.then(|| user.reader.head().status),
            sent_bytes: user.request_bytes as u64,
            received_bytes: user.reader.received_bytes,
        };
        if !has_reply {
            user.wire = None;
        }
        // A connection that ended without a reply counts too, so that the users of a broken target do not try it continuously.
        let refused = if has_reply { 0 } else { user.refused.saturating_add(1) };
        user.refused = refused;
        let (group, number) = (user.group, user.number);
        let sending = self.groups.get(group).and_then(|group| group.requests.get(user.request));
        let recorder = sending.and_then(|sending| self.recorders.get_mut(sending.recorder));
        if let Some(recorder) = recorder {
            recorder.record(&sample);
            if let Some(log) = &mut self.log {
                log.write(recorder.label(), number, self.presence.now, &sample);
            }
        }
        self.pause(at, group, refused);
    }

    fn pause(&mut self, at: usize, group: usize, refused: u32) {
        let is_wanted = self.is_wanted(at);
        let Some(user) = self.users.get_mut(at) else { return };
        let Some(group) = self.groups.get_mut(group) else { return };
        if !is_wanted {
            user.state = State::Away;
            user.wire = None;
            return;
        }
        let mut pause = group.group.think;
        if refused > 0 {
            let factor = 1 << (refused - 1).min(10);
            pause = pause.max((REFUSED_PAUSE * factor).min(REFUSED_PAUSE_MAX));
        }
        if pause.is_zero() {
            return self.begin(at);
        }
        user.state = State::Pausing;
        let end = self.clock.now + pause;
        user.pause_end = end;
        // The pauses of a group are equally long unless connections fail, so this is nearly always the end of the queue.
        let place = group.pausing.partition_point(|(other, _)| *other <= end);
        group.pausing.insert(place, (end, at));
    }

    fn end_pauses(&mut self) {
        for group in 0..self.groups.len() {
            while let Some((end, at)) = self
                .groups
                .get_mut(group)
                .and_then(|group| group.pausing.pop_front_if(|(end, _)| *end <= self.clock.now))
            {
                // If the user has left during its pause, and possibly come back, its state or the end of its pause differs.
                let is_its_end =
                    |user: &User| user.state == State::Pausing && user.pause_end == end;
                if !self.users.get(at).is_some_and(is_its_end) {
                    continue;
                }
                if self.is_wanted(at) { self.begin(at) } else { self.leave_if_idle(at) }
            }
        }
    }

    /// Ends requests that take too long.
    fn end_late(&mut self) {
        for at in 0..self.users.len() {
            let Some(user) = self.users.get(at) else { return };
            let waited = self.clock.now.saturating_sub(user.begin);
            let is_handshaking = || user.wire.as_ref().is_some_and(Wire::is_handshaking);
            match user.state {
                State::Connecting if waited >= self.load.connect_max => {
                    self.end(at, Err(ErrorKind::ConnectTimeout));
                }
                State::Waiting if waited >= self.load.connect_max && is_handshaking() => {
                    self.end(at, Err(ErrorKind::ConnectTimeout));
                }
                State::Waiting if waited >= self.load.response_max => {
                    self.end(at, Err(ErrorKind::ResponseTimeout));
                }
                State::Away | State::Connecting | State::Waiting | State::Pausing => {}
            }
        }
    }
}

impl Sending {
    fn new(load: &Load, requests: &Requests, template: &Template, recorder: usize) -> Sending {
        Sending {
            recorder,
            request: Compiled::request(&load.target, template, &requests.tables),
            check: Check::new(&template.expected, &requests.tables),
            is_head: template.method == "HEAD",
        }
    }
}

impl User {
    fn new(number: u64, group: usize) -> User {
        User {
            number,
            group,
            state: State::Away,
            wire: None,
            reader: Reader::default(),
            seen: Seen::default(),
            turn: Turn::default(),
            request: 0,
            request_bytes: 0,
            begin: Duration::ZERO,
            count: 0,
            refused: 0,
            pause_end: Duration::ZERO,
        }
    }
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the generator's own clock")]
    fn read(&mut self) {
        self.now = Instant::now().saturating_duration_since(self.start);
    }
}

impl Presence {
    fn change(&mut self, users: usize, at: Duration, load: &Load) {
        let within = |begin: Duration, end: Duration| {
            at.min(end).saturating_sub(self.since.max(begin)).mul_f64(self.now as f64)
        };
        let warm_up = within(Duration::ZERO, load.warm_up);
        let measured = within(load.warm_up, load.duration);
        self.warm_up += warm_up;
        self.measured += measured;
        (self.now, self.since) = (users, at);
    }
}

/// Returns how many of a thread's users are active if `users` of `all` users are active.
fn share(users: f64, all: u32, members: usize) -> usize {
    let part = users / f64::from(all.max(1)) * members as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let users = part.round() as usize;
    users.min(members)
}

/// Returns the order in which requests are sent: each as often as its weight says, and evenly spread.
fn order(templates: &[Template]) -> Result<Vec<usize>, String> {
    let whole: u64 = templates.iter().map(|template| u64::from(template.weight)).sum();
    let length = usize::try_from(whole).ok().filter(|whole| *whole <= ORDER_MAX);
    let length = length.ok_or_else(|| format!("weights must add up to at most {ORDER_MAX}"))?;
    let whole = i64::try_from(whole).map_err(|error| error.to_string())?;
    let mut credits = vec![0; templates.len()];
    let mut order = Vec::with_capacity(length);
    for _ in 0..length {
        for (credit, template) in credits.iter_mut().zip(templates) {
            *credit += i64::from(template.weight);
        }
        let most = (0..credits.len()).rev().max_by_key(|at| credits.get(*at)).unwrap_or(0);
        if let Some(credit) = credits.get_mut(most) {
            *credit -= whole;
        }
        order.push(most);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::load::Expected;
    use crate::generator::text::Text;

    #[test]
    fn requests_are_sent_as_often_as_their_weights_say() {
        let template = |weight| Template {
            label: "a".to_owned(),
            weight,
            method: "GET".to_owned(),
            path: Text::same("/"),
            headers: Vec::new(),
            body: Text::default(),
            expected: Expected::default(),
        };
        let of = |weights: &[u32]| {
            order(&weights.iter().map(|weight| template(*weight)).collect::<Vec<_>>())
        };
        assert_eq!(of(&[1]).unwrap(), [0]);
        assert_eq!(of(&[1, 1]).unwrap(), [0, 1]);
        assert_eq!(of(&[3, 1]).unwrap(), [0, 0, 1, 0]);
        assert!(of(&[u32::MAX, 1]).unwrap_err().contains("at most"));
    }

    #[test]
    fn each_thread_has_its_share_of_the_ramp() {
        for (users, all, members, expected) in
            [(0.0, 10, 5, 0), (5.0, 10, 5, 3), (10.0, 10, 5, 5), (1.0, 1, 1, 1), (1.0, 1, 0, 0)]
        {
            assert_eq!(share(users, all, members), expected, "{users} of {all}");
        }
    }
}
