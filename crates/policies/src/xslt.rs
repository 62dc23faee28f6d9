//! `xslt`: a message transformed by a stylesheet, on its way to the upstream or back.
//!
//! Owns the run's budgets and deadline, the clean-up of empty namespaces, and the content type of what came out. Stylesheets
//! come compiled, for our own engine or for Saxon; all else is the same for both.

mod feed;
mod label;
mod run;
mod spoken;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use bytes::Bytes;
use fault::Fault;
use kit::SharedAlarm;
use message::{Gathered, Headers, ReplyHead, RequestHead};
use policy::{Decision, Exchange, OnWhole, Onward, Policy, Step};
use tokio::time::timeout;
use xml::Shelf;
use xslt::{Parameter, Style, Stylesheet};

use crate::body_lines;
use crate::charset;
use crate::soap::{self, Codings, Failed};
use crate::supply::Supply;
use run::{Made, Refused};

/// Which side it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Request,
    Response,
}

/// A compiled stylesheet.
pub enum Sheet {
    /// For our own engine: XSLT 1.0.
    Native(Box<Stylesheet>),
    /// For Saxon, its parameters included.
    Saxon(saxon::Stylesheet),
}

/// The stylesheet of a policy.
pub enum Sheets {
    /// As it was compiled with the configuration; or why it was not, with which each message is refused.
    Fixed(Result<Arc<Sheet>, Failed>),
    /// Fetched and compiled beside the requests.
    Supplied(Arc<Supply<Sheet>>),
}

/// A transformation.
pub struct Settings {
    pub sheet: Sheets,
    /// For our own engine.
    pub parameters: Vec<Parameter>,
    /// How our own engine writes XML.
    pub style: Style,
    /// Takes every ` xmlns=""` out of the result.
    pub strip_empty_namespaces: bool,
    /// It stands before the validation of its side, or where there is none behind it.
    pub before: bool,
    pub verbose: bool,
    /// A reply other than 200 is let through, because a policy above makes a fault of it.
    pub errors_pass: bool,
    pub codings: Codings,
    /// How long Saxon may take, the wait for it included.
    pub timeout: Duration,
    /// Of messages that Saxon was told; nothing at first.
    pub known: Known,
}

/// What is known of earlier messages.
#[derive(Default)]
pub struct Known(Shelf<feed::Known>);

/// The policy.
pub fn policy(on: On, settings: Settings) -> Policy {
    let (request, response): (Option<Step<_>>, Option<Step<_>>) = match on {
        On::Request => (Some(Step::Whole(Box::new(settings))), None),
        On::Response => (None, Some(Step::Whole(Box::new(settings)))),
    };
    Policy { name: "xslt", request, response }
}

impl Settings {
    fn step(&self, on: On) -> &'static str {
        match (on, self.before) {
            (On::Request, true) => "Request - XSLT transformation failed (before XSD validation)",
            (On::Request, false) => "Request - XSLT transformation failed (after XSD validation)",
            (On::Response, true) => "Response - XSLT transformation failed (before XSD validation)",
            (On::Response, false) => "Response - XSLT transformation failed (after XSD validation)",
        }
    }

    /// By whichever engine the stylesheet is for. Ready at once but for Saxon.
    fn transformed<'a>(
        &'a self,
        ex: &Exchange,
        headers: &Headers,
        body: &Gathered,
    ) -> Decision<'a, Result<Made, Refused>> {
        let json = label::is_json(headers, &body.bytes);
        let alarm = ex.alarm.clone();
        let settled = charset::settled(headers, &body.bytes);
        let message = settled.map_or_else(|| body.bytes.clone(), Bytes::from);
        match &self.sheet {
            Sheets::Fixed(Ok(sheet)) => self.by(sheet, alarm, message, json),
            Sheets::Fixed(Err(why)) => Decision::Ready(Err(why.clone().into())),
            Sheets::Supplied(supply) => {
                if let (true, Ok(serving)) = (supply.is_ready(), supply.current())
                    && let Some(Sheet::Native(stylesheet)) = serving.as_deref()
                {
                    return Decision::Ready(self.natively(stylesheet, &message));
                }
                Decision::Waits(Box::pin(async move {
                    if !supply.is_ready() {
                        let _late = timeout(supply.patience(), supply.settled()).await;
                    }
                    self.by_supplied(supply, alarm, message, json).await
                }))
            }
        }
    }

    async fn by_supplied(
        &self,
        supply: &Supply<Sheet>,
        alarm: SharedAlarm,
        message: Bytes,
        json: bool,
    ) -> Result<Made, Refused> {
        let serving = supply.current()?;
        // For as long as Saxon takes, another one may come into service.
        let serving = Guard::into_inner(serving);
        match &serving {
            Some(sheet) => match self.by(sheet, alarm, message, json) {
                Decision::Ready(made) => made,
                Decision::Waits(made) => made.await,
            },
            None => Err(Failed::server("there is no stylesheet").into()),
        }
    }

    fn by<'a>(
        &'a self,
        sheet: &'a Sheet,
        alarm: SharedAlarm,
        message: Bytes,
        json: bool,
    ) -> Decision<'a, Result<Made, Refused>> {
        match sheet {
            Sheet::Saxon(stylesheet) => Decision::Waits(Box::pin(async move {
                self.by_saxon(alarm, stylesheet, &message, json).await
            })),
            Sheet::Native(stylesheet) => Decision::Ready(self.natively(stylesheet, &message)),
        }
    }
}

/// The result takes the message's place.
fn replace(headers: &mut Headers, body: &mut Gathered, made: Made) -> Result<(), Fault> {
    body.bytes = made.bytes;
    body_lines::replaced(headers);
    label::label(headers, &body.bytes, made.charset)
}

impl OnWhole<RequestHead> for Settings {
    fn bytes_max(&self) -> usize {
        self.codings.bytes_max
    }

    fn on_whole<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut Gathered,
    ) -> Decision<'a> {
        let speech = spoken::heard(ex, &body.bytes);
        let made = self.transformed(ex, &head.headers, body);
        let mut take = move |made: Result<Made, Refused>| {
            let refused =
                |failed| soap::refused_request(self.step(On::Request), failed, self.verbose);
            let made = made.map_err(|why| why.fault(refused))?;
            spoken::note(ex, speech);
            replace(&mut head.headers, body, made).map(|()| Onward::Next)
        };
        match made {
            Decision::Ready(made) => Decision::Ready(take(made)),
            Decision::Waits(made) => Decision::Waits(Box::pin(async move { take(made.await) })),
        }
    }
}

impl Settings {
    /// Makes a reply's body one that can be transformed. False: it is not for this policy.
    fn opened(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: &mut Gathered,
    ) -> Result<bool, Fault> {
        // A fault of ours is no message of the upstream's.
        let above = self.errors_pass && head.status != 200;
        if ex.fault.is_some() || above {
            return Ok(false);
        }
        if soap::has_no_body(ex, head, body) {
            // It tells of a body that would have been transformed.
            if ex.notes().asked_head || head.status == 304 {
                body_lines::replaced(&mut head.headers);
            }
            return Ok(false);
        }
        let taken_off = self.codings.take_off(ex, head, body);
        taken_off.map_err(|refused| refused.fault(self.verbose, head.status))?;
        Ok(true)
    }
}

impl OnWhole<ReplyHead> for Settings {
    fn bytes_max(&self) -> usize {
        self.codings.bytes_max
    }

    fn on_whole<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut Gathered,
    ) -> Decision<'a> {
        match self.opened(ex, head, body) {
            Ok(true) => {}
            passed => return Decision::Ready(passed.map(|_| Onward::Next)),
        }
        let made = self.transformed(ex, &head.headers, body);
        let mut take = move |made: Result<Made, Refused>| {
            let (step, status) = (self.step(On::Response), head.status);
            let refused = |failed| soap::refused_reply(step, failed, self.verbose, status);
            replace(&mut head.headers, body, made.map_err(|why| why.fault(refused))?)?;
            self.codings.put_on(ex, head, body).map(|()| Onward::Next)
        };
        match made {
            Decision::Ready(made) => Decision::Ready(take(made)),
            Decision::Waits(made) => Decision::Waits(Box::pin(async move { take(made.await) })),
        }
    }
}
