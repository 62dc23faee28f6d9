//! The accounting of exchanges: one record per exchange, written when its account is dropped, whether or not the exchange was completed.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fault::{Fault, Kind, Level, Side};
use grpc::{Outcome, Status};
use kit::clock::{self, Instant};
use message::{Protocol, Reply, RequestHead};
use plan::{AccessFields, Errors, Plan, Route};
use policy::{Exchange, ExchangeTrace};
use telemetry::access::{AccessEntry, AccessLog};
use telemetry::span::{Attribute, HexText, SpanIds, SpanQueue, Tracing};
use telemetry::trace::{Trace, TraceCandidate};
use telemetry::{EndedExchange, Record, RefusedExchange, SoapFault, StreamEnd, Telemetry};

use crate::line_fields::{LoggedExchange, LoggedHeaders};
use crate::{HeldRoute, problem, server_span, traced};
use telemetry::masked::masked;

/// The destinations of records. Each worker has one `Recorders` for each plan.
pub struct Recorders {
    telemetry: Arc<Telemetry>,
    pub access_log: Option<Arc<AccessLog>>,
    /// The query parameters that are credentials on any route. A request without a route may have any of them.
    secrets: Box<[String]>,
    /// Configured fields of the access log.
    fields: Arc<AccessFields>,
    /// The tracing, if the plan exports traces.
    pub tracing: Option<Rc<Tracing>>,
}

impl Recorders {
    pub fn of(
        plan: &Plan,
        telemetry: Arc<Telemetry>,
        access_log: Option<Arc<AccessLog>>,
        spans: Option<Arc<SpanQueue>>,
    ) -> Recorders {
        let routes = plan.table.routes().flat_map(|(_, route)| route.secrets.iter());
        let secrets: BTreeSet<&String> = routes.collect();
        let secrets = secrets.into_iter().cloned().collect();
        let fields =
            plan.access_log.as_ref().map_or_else(Default::default, |log| log.fields.clone());
        // Harmless: a plan with traces has a queue for them.
        let tracing = plan.traces.as_ref().zip(spans);
        let tracing =
            tracing.map(|(traces, queue)| Rc::new(Tracing::new(traces.settings.clone(), queue)));
        Recorders { telemetry, access_log, secrets, fields, tracing }
    }
}

/// One exchange, from its head to the end of its reply. Dropping it writes the record.
pub struct Account {
    pub ex: Exchange,
    pub request_bytes: u64,
    pub reply_bytes: u64,
    status: u16,
    route: Option<HeldRoute>,
    /// The request's data. It is kept for the access log, for the span of a sampled exchange, and for operators who watch requests.
    summary: Option<Box<RequestSummary>>,
    /// The counter for the bytes of the request's body, if the body counts itself.
    counted: Option<Rc<Cell<u64>>>,
    /// The time at which the exchange ended, if it ended before the account is dropped.
    ended: Option<Instant>,
    /// True if the trace of the policies answers an operator's request for a trace of a matching exchange.
    is_traced: bool,
    /// The headers that fields of the access log use. Empty if there are none.
    logged: LoggedHeaders,
    /// The attributes of the exchange's span that are known at its start. Empty if the exchange is not sampled.
    span_lines: Vec<Attribute>,
    recorders: Rc<Recorders>,
}

struct RequestSummary {
    time: Duration,
    method: Vec<u8>,
    host: Vec<u8>,
    target: Vec<u8>,
    user_agent: Option<Vec<u8>>,
    protocol: Protocol,
}

impl RequestSummary {
    /// Stands in for the data of a request whose head cannot be read.
    fn unread(ex: &Exchange) -> RequestSummary {
        RequestSummary {
            time: clock::wall().saturating_sub(ex.started.elapsed()),
            method: Vec::new(),
            host: Vec::new(),
            target: Vec::new(),
            user_agent: None,
            protocol: Protocol::Http11,
        }
    }
}

impl Account {
    /// Opens an account. The status is 499 until there is a reply.
    pub fn open(ex: Exchange, recorders: Rc<Recorders>) -> Account {
        Account {
            ex,
            request_bytes: 0,
            reply_bytes: 0,
            status: Kind::ClientGone.status(),
            route: None,
            summary: None,
            counted: None,
            ended: None,
            is_traced: false,
            logged: LoggedHeaders::default(),
            span_lines: Vec::new(),
            recorders,
        }
    }

    /// Records the request's data. Must be called before policies change the request.
    pub fn note_request(&mut self, head: &RequestHead) {
        if let Some(tracing) = &self.recorders.tracing {
            let trace = ExchangeTrace::of_request(tracing, &head.headers);
            if let Some(recorder) = &trace.recorder {
                self.span_lines = server_span::header_attributes(recorder, &head.headers);
            }
            self.ex.trace = Some(trace);
        }
        let is_watched = self.recorders.telemetry.tail().accepts_more(self.ex.caller.worker);
        if self.recorders.access_log.is_some() || self.sampled().is_some() || is_watched {
            self.summary = Some(Box::new(RequestSummary {
                time: clock::wall(),
                method: head.method().to_vec(),
                host: head.host().to_vec(),
                target: head.target().to_vec(),
                user_agent: head.headers.get("user-agent").map(<[u8]>::to_vec),
                protocol: head.protocol,
            }));
            self.logged.note(&self.recorders.fields, &head.headers, false);
        }
    }

    /// Records that the exchange ends now, and returns the time.
    pub fn end(&mut self) -> Instant {
        *self.ended.insert(clock::now())
    }

    /// Sets the counter that the request's body will use.
    pub fn count_request_body(&mut self, counted: Rc<Cell<u64>>) {
        self.counted = Some(counted);
    }

    pub(crate) fn routed(&mut self, route: &HeldRoute) {
        self.route = Some(route.clone());
    }

    /// The route, if one was found.
    pub fn route(&self) -> Option<&Arc<Route>> {
        self.route.as_ref()
    }

    /// The format of faults on the route, if one was found.
    pub(crate) fn errors(&self) -> Errors {
        self.route.as_ref().map_or(Errors::Problem, |route| route.errors)
    }

    /// Starts a trace of the policies if an operator requested, without conditions, a trace of the next exchange.
    pub(crate) fn begin_trace(&mut self) {
        if self.recorders.telemetry.tracer().answers_policies() {
            self.ex.notes().policies = Some(Box::default());
        }
    }

    /// Starts a trace of the policies if this exchange matches an operator's request for a trace. A route with a flow is left out, because
    /// the flow records its own trace.
    pub(crate) fn begin_asked_trace(&mut self, head: &RequestHead) {
        let tracer = self.recorders.telemetry.tracer();
        let Some(route) = self.route.as_ref().filter(|_| tracer.is_asked()) else { return };
        let candidate = TraceCandidate {
            route: &route.name,
            flow: None,
            path: head.path(),
            request_id: self.ex.id.as_str(),
        };
        let has_flow = route.view().get("flow").is_some();
        if !has_flow && !traced::is_asked(&self.ex) && tracer.takes(&candidate) {
            self.is_traced = true;
            self.ex.notes().policies = Some(Box::default());
        }
    }

    /// Delivers the trace of the policies to the operator who requested it.
    pub(crate) fn end_trace(&mut self) {
        if traced::is_asked(&self.ex)
            && let Some(trace) = traced::finished(self.route.as_deref(), &mut self.ex)
        {
            let tracer = self.recorders.telemetry.tracer();
            if self.is_traced {
                tracer.store(Trace {
                    route: trace.route.clone(),
                    request_id: self.ex.id.as_str().into(),
                    policies: Some(trace),
                    ..Trace::default()
                })
            } else {
                tracer.leave_policies(trace)
            }
        }
    }

    pub(crate) fn replied(&mut self, reply: &Reply) {
        self.status = reply.head.status;
        self.logged.note(&self.recorders.fields, &reply.head.headers, true);
    }

    pub(crate) fn panicked(&self) {
        self.recorders.telemetry.worker(self.ex.caller.worker).panics.add(1);
    }

    /// Records a fault that occurred after the head of the reply was sent. The status does not change.
    pub fn note_late_fault(&mut self, fault: Fault) {
        self.ex.fault = Some(fault);
    }

    /// The span of the exchange, if it is sampled.
    fn sampled(&self) -> Option<SpanIds> {
        self.ex.trace.as_ref().map(|trace| trace.span).filter(|span| span.sampled)
    }

    /// Records the span of the exchange, if it is sampled.
    fn end_span(&mut self) {
        let Some(trace) = self.ex.trace.as_ref().filter(|trace| trace.recorder.is_some()) else {
            return;
        };
        let unread;
        let summary = match self.summary.as_deref() {
            Some(summary) => summary,
            None => {
                unread = RequestSummary::unread(&self.ex);
                &unread
            }
        };
        let request = server_span::SpannedRequest {
            began: summary.time,
            method: &summary.method,
            host: &summary.host,
            target: &summary.target,
            user_agent: summary.user_agent.as_deref(),
            protocol: summary.protocol,
            status: self.status,
        };
        server_span::record(&self.ex, trace, &request, std::mem::take(&mut self.span_lines));
    }

    fn record(&self, duration: Duration) {
        self.recorders.telemetry.record(&Record {
            worker: self.ex.caller.worker,
            route: self.route.as_ref().map(|route| &*route.metrics),
            status: self.status,
            fault: self.ex.fault.as_ref().map(|fault| fault.kind.label()),
            grpc: self.call_ended(),
            duration,
            upstream: self.ex.totals.upstream_wait.get(),
            client: self.ex.totals.client_wait.get(),
            request_bytes: self.request_bytes,
            reply_bytes: self.reply_bytes,
            exemplar: self.sampled(),
        });
        if let Some((operation, fault)) = self.called() {
            operation.metrics.record(self.ex.caller.worker, fault);
        }
    }

    /// The operation that was called and its fault, if policies distinguish operations.
    fn called(&self) -> Option<(&plan::Operation, Option<SoapFault>)> {
        let notes = self.ex.notes.as_ref()?;
        let operation = self.route.as_ref()?.operation(notes.operation?)?;
        let own = self.ex.fault.as_ref().map(|fault| {
            if problem::blames_server(fault) { SoapFault::Server } else { SoapFault::Client }
        });
        let told = notes.soap_fault.as_ref().and_then(|told| told.get());
        Some((operation, own.or(told)))
    }

    /// The outcome of the call, if the exchange is a gRPC call: the status that was sent, or the one that its client
    /// derives.
    fn call_ended(&self) -> Option<Outcome> {
        let told = self.ex.grpc.as_ref()?.end.outcome.get();
        let guessed = || match &self.ex.fault {
            Some(fault) => Outcome::Status(fault.kind.grpc()),
            None => Outcome::Status(Status::of_http(self.status)),
        };
        Some(told.unwrap_or_else(guessed))
    }

    /// The name of the upstream of the exchange's destination.
    fn upstream(&self) -> Option<&str> {
        let divert = self.ex.notes.as_ref().and_then(|notes| notes.divert);
        self.route.as_ref()?.destination(divert).upstream()
    }

    /// Keeps a refusal by a policy, or by the gateway because of the client, for operators.
    fn keep_refusal(&self) {
        let Some(fault) = &self.ex.fault else { return };
        let policy = self.ex.notes.as_ref().and_then(|notes| notes.refused_by);
        let is_clients = fault.kind.side() == Side::Client && fault.kind != Kind::ClientGone;
        if policy.is_none() && !(is_clients && (400..500).contains(&self.status)) {
            return;
        }
        let refused = RefusedExchange {
            time: clock::wall(),
            request_id: self.ex.id.as_str().into(),
            route: self.route.as_ref().map(|route| route.name.as_str().into()),
            policy,
            status: self.status,
            fault: fault.kind.label(),
            cause: telemetry::cause_shown(&fault.cause),
            client: self.ex.client,
            subject: self.ex.identity.as_ref().map(|identity| (&*identity.subject).into()),
        };
        self.recorders.telemetry.refusals().keep(self.ex.caller.worker, refused);
    }

    /// Keeps the exchange for operators who watch requests.
    fn keep_for_tail(&self, duration: Duration) {
        let tail = self.recorders.telemetry.tail();
        if !tail.is_open() {
            return;
        }
        let time = clock::wall();
        tail.record(self.ex.caller.worker, time, || self.ended_exchange(time, duration));
    }

    /// Describes the exchange, if the request's data was noted.
    fn ended_exchange(&self, time: Duration, duration: Duration) -> Option<EndedExchange> {
        let summary = self.summary.as_ref()?;
        // Harmless: the method is only displayed.
        let method = String::from_utf8_lossy(&summary.method);
        // Harmless: the target is only displayed.
        let target = String::from_utf8_lossy(&summary.target);
        let fault = self.ex.fault.as_ref();
        Some(EndedExchange {
            time,
            request_id: self.ex.id.as_str().into(),
            client: self.ex.client,
            method: method.into(),
            path: telemetry::cause_shown(&target),
            route: self.route.as_ref().map(|route| route.name.as_str().into()),
            status: self.status,
            reply_bytes: self.reply_bytes,
            duration,
            upstream_wait: self.ex.totals.upstream_wait.get(),
            fault: fault.map(|fault| (fault.kind.label(), telemetry::cause_shown(&fault.cause))),
            subject: self.ex.identity.as_ref().map(|identity| (&*identity.subject).into()),
        })
    }

    fn log(&self, duration: Duration) {
        let Some(log) = &self.recorders.access_log else { return };
        let called = self.called();
        let stream = self.ex.notes.as_ref().and_then(|notes| notes.stream.as_deref());
        let unread;
        let summary = match self.summary.as_deref() {
            Some(summary) => summary,
            None => {
                unread = RequestSummary::unread(&self.ex);
                &unread
            }
        };
        let route = self.route.as_deref();
        let target =
            masked(&summary.target, route.map_or(&self.recorders.secrets, |route| &route.secrets));
        let ended = LoggedExchange {
            ex: &self.ex,
            headers: &self.logged,
            status: self.status,
            method: &summary.method,
            host: &summary.host,
            target: &summary.target,
            route: route.map(|route| route.name.as_str()),
        };
        let extra = ended.fields(&self.recorders.fields);
        let extra: Vec<_> = extra.iter().map(|(name, value)| (*name, value.extra())).collect();
        log.write(
            self.ex.caller.worker,
            &AccessEntry {
                time: summary.time,
                client: self.ex.client,
                method: &summary.method,
                host: (!summary.host.is_empty()).then_some(&summary.host),
                path: &target,
                protocol: summary.protocol.name(),
                status: self.status,
                request_bytes: self.request_bytes,
                reply_bytes: self.reply_bytes,
                duration,
                upstream_wait: self.ex.totals.upstream_wait.get(),
                client_wait: self.ex.totals.client_wait.get(),
                route: route.map(|r| r.name.as_str()),
                upstream: self.upstream(),
                upstream_target: self.ex.target.as_deref(),
                request_id: Some(self.ex.id.as_bytes()),
                trace: self.ex.trace.as_ref().map(|trace| trace.span),
                user_agent: summary.user_agent.as_deref(),
                tls: self.ex.caller.tls,
                fault: self.ex.fault.as_ref().map(|f| f.kind.label()),
                cause: self.ex.fault.as_ref().map(|f| &*f.cause),
                operation: called.map(|(operation, _)| &*operation.name),
                soap_fault: called.and_then(|(_, fault)| fault).map(SoapFault::label),
                subject: self.ex.identity.as_ref().map(|identity| &*identity.subject),
                retries: self.ex.totals.retries.get(),
                events: stream.map(|stream| stream.events.get()),
                stream_end: stream.and_then(|stream| stream.end.get()).map(StreamEnd::label),
                grpc_status: self.call_ended(),
                extra: &extra,
            },
        );
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let duration = self.ended.unwrap_or_else(clock::now).duration_since(self.ex.started);
        if let Some(counted) = &self.counted {
            self.request_bytes = counted.get();
        }
        if self.status == Kind::ClientGone.status() && self.ex.fault.is_none() {
            self.ex.fault =
                Some(Fault::new(Kind::ClientGone, "the exchange was aborted before its reply"));
        }
        if let (Some(call), None) = (&self.ex.grpc, &self.ex.fault) {
            let told = call.end.fault.take();
            self.ex.fault = told;
        }
        self.record(duration);
        self.log(duration);
        self.keep_refusal();
        self.end_span();
        self.keep_for_tail(duration);
        if let Some(fault) = &self.ex.fault {
            let route = self.route.as_ref().map_or("", |route| &route.name);
            let trace = self.ex.trace.as_ref().map(|trace| trace.span.trace_id_text());
            log_fault(fault, self.ex.id.as_str(), trace, route);
        }
    }
}

/// The maximum number of faults logged per second and worker. If an upstream is down, logging must not become the main load.
const LOGGED_MAX: u32 = 20;

thread_local! {
    /// The second of the last logged fault, and the number of faults in it.
    static LOGGED: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

fn log_fault(fault: &Fault, id: &str, trace: Option<HexText<32>>, route: &str) {
    let (label, cause) = (fault.kind.label(), &*fault.cause);
    // `None` without tracing, which leaves the field out of the log.
    let trace_id = trace.as_ref().map(HexText::as_str);
    let level = fault.level();
    if matches!(level, Level::Warn | Level::Error) && !may_log() {
        return;
    }
    match level {
        Level::Debug | Level::Info => {
            tracing::debug!(fault = label, route, request_id = id, trace_id, "{cause}")
        }
        Level::Warn => tracing::warn!(fault = label, route, request_id = id, trace_id, "{cause}"),
        Level::Error => tracing::error!(fault = label, route, request_id = id, trace_id, "{cause}"),
    }
}

fn may_log() -> bool {
    let second = clock::wall().as_secs();
    let (last, told) = LOGGED.get();
    let told = if last == second { told } else { 0 };
    if told == LOGGED_MAX {
        tracing::warn!(
            "further faults in this second are not logged; the access log and the metrics include them"
        );
    }
    LOGGED.set((second, told.saturating_add(1)));
    told < LOGGED_MAX
}
