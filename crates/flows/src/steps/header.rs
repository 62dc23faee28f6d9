//! `header`: lines of the message.

use std::rc::Rc;

use expression::{Slot, Template};
use fault::{Fault, Kind};
use message::Headers;

use crate::message::is_of_body;
use crate::state::{Run, State};

/// Changes to header lines, `remove` first, then `set` and `add`.
#[derive(Default)]
pub struct Header {
    pub remove: Vec<Box<str>>,
    pub set: Vec<(Box<str>, Template)>,
    pub add: Vec<(Box<str>, Template)>,
}

impl Header {
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.set.iter().chain(&self.add).flat_map(|(_, template)| template.slots()).collect()
    }
}

/// Changes the message's lines, and with them those that later calls send.
pub(crate) fn edit(edit: &Header, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    for name in &edit.remove {
        state.message.lines.remove(name);
        Rc::make_mut(&mut state.request_lines).remove(name);
        forget_withheld(name, state);
    }
    for (name, template) in &edit.set {
        let value = run.fill(state, template)?;
        set(&mut state.message.lines, name, &value)?;
        if !is_of_body(name) {
            set(Rc::make_mut(&mut state.request_lines), name, &value)?;
            forget_withheld(name, state);
        }
    }
    for (name, template) in &edit.add {
        let value = run.fill(state, template)?;
        add(&mut state.message.lines, name, &value)?;
        if !is_of_body(name) {
            add(Rc::make_mut(&mut state.request_lines), name, &value)?;
        }
    }
    Ok(())
}

/// The flow has decided about a line of the client.
fn forget_withheld(name: &str, state: &mut State) {
    if let Some(withheld) = &mut state.withheld_lines
        && withheld.contains(name)
    {
        Rc::make_mut(withheld).remove(name);
    }
}

pub(crate) fn set(lines: &mut Headers, name: &str, value: &str) -> Result<(), Fault> {
    lines.remove(name);
    add(lines, name, value)
}

fn add(lines: &mut Headers, name: &str, value: &str) -> Result<(), Fault> {
    lines.add(name, value.trim().as_bytes()).map_err(|_| {
        Fault::new(Kind::Template, format!("the value of the header {name} cannot be sent"))
    })
}
