//! Answers requests of expressions: variables, functions, keys.

use std::rc::Rc;

use xpath::{Call, DocId, ErrorKind, Host, Node, Value};

use super::{DocumentsHandle, Machine, Reach, State, dynamic};
use crate::error::Error;
use crate::program::GLOBAL;

impl Host for Machine<'_> {
    fn variable(&mut self, number: u32, call: &mut Call<'_>) -> Result<Value, ErrorKind> {
        if number & GLOBAL == 0 {
            let place = self.memory.locals.get((self.now.base + number) as usize);
            return place.cloned().ok_or_else(|| ErrorKind::Host("an unknown variable".into()));
        }
        let number = number & !GLOBAL;
        if let Some(State::Done(value)) = self.memory.globals.get(number as usize) {
            return Ok(value.clone());
        }
        let mut reach =
            Reach { documents: DocumentsHandle::Lent(call.documents), budget: &mut *call.budget };
        self.global(number, &mut reach).map_err(|error| self.keep(error))
    }

    fn call(
        &mut self,
        number: u32,
        arguments: &mut Vec<Value>,
        call: &mut Call<'_>,
    ) -> Result<Value, ErrorKind> {
        let Some(site) = self.given.program.calls.get(number as usize).copied() else {
            return Err(ErrorKind::Host("an unknown function".into()));
        };
        self.function(site, arguments, call).map_err(|error| self.keep(error))
    }

    fn key(
        &mut self,
        number: u32,
        value: &str,
        doc: DocId,
        call: &mut Call<'_>,
    ) -> Result<Rc<[Node]>, ErrorKind> {
        let mut reach =
            Reach { documents: DocumentsHandle::Lent(call.documents), budget: &mut *call.budget };
        self.keyed(number, value, doc, &mut reach).map_err(|error| self.keep(error))
    }
}

impl Machine<'_> {
    /// Stores an error while it passes through an expression, which can only carry its text.
    fn keep(&mut self, error: Error) -> ErrorKind {
        let text = error.kind.to_string();
        self.failed = Some(error);
        ErrorKind::Host(text.into())
    }

    /// Returns the value of a global variable. It is evaluated on first use, after the globals that it refers to.
    fn global(&mut self, number: u32, reach: &mut Reach<'_>) -> Result<Value, Error> {
        let globals = &self.given.program.globals;
        // A chain of globals can have any length, so it is processed with an explicit stack instead of recursion.
        let mut path = vec![(number, 0)];
        while let Some((number, next)) = path.last_mut() {
            let needs = globals.get(*number as usize).map(|g| g.needs.as_slice());
            let need = needs.unwrap_or(&[]).get(*next).copied();
            *next += 1;
            match need {
                Some(need) => {
                    let fresh =
                        matches!(self.memory.globals.get(need as usize), Some(State::Fresh));
                    if fresh && !path.iter().any(|(on, _)| *on == need) {
                        path.push((need, 0));
                    }
                }
                None => {
                    let number = *number;
                    path.pop();
                    self.make_global(number, reach)?;
                }
            }
        }
        match self.memory.globals.get(number as usize) {
            Some(State::Done(value)) => Ok(value.clone()),
            Some(State::Fresh | State::Busy) | None => {
                Err(dynamic("a global variable without a value"))
            }
        }
    }

    fn make_global(&mut self, number: u32, reach: &mut Reach<'_>) -> Result<(), Error> {
        let Some(global) = self.given.program.globals.get(number as usize) else {
            return Ok(());
        };
        let state = self.memory.globals.get_mut(number as usize);
        match state {
            Some(State::Done(_)) | None => return Ok(()),
            Some(State::Busy) => {
                let what = format!("the variable `{}` depends on itself", global.name.local);
                let at = self.at(Some(global.place));
                return Err(Error { at, ..dynamic(what) });
            }
            Some(state) => *state = State::Busy,
        }
        let focus = xpath::Focus::of(reach.documents.get().root());
        let made = self.run_entry(global.entry, focus, Vec::new(), reach);
        if let Some(state) = self.memory.globals.get_mut(number as usize) {
            *state = match &made {
                Ok(value) => State::Done(value.clone()),
                Err(_) => State::Fresh,
            };
        }
        made.map(drop)
    }
}
