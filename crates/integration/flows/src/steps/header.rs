//! `header`: changes header lines of the message.

use std::rc::Rc;

use expression::Template;
use fault::{Fault, Kind};
use message::Headers;

use crate::levels::{ActionNeeds, Levels};
use crate::message::is_of_body;
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, ended};

/// Changes to header lines, `remove` first, then `set` and `add`.
#[derive(Default)]
pub struct Header {
    pub remove: Vec<Box<str>>,
    pub set: Vec<(Box<str>, Template)>,
    pub add: Vec<(Box<str>, Template)>,
}

impl Action for Header {
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds {
        let values = || self.set.iter().chain(&self.add).map(|(_, template)| template);
        ActionNeeds {
            slots: values().flat_map(Template::slots).collect(),
            levels: levels.templates(values()),
            ..ActionNeeds::default()
        }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        ended(edit(self, run, state))
    }
}

/// Changes the message's lines, and with them those that later calls send.
fn edit(edit: &Header, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
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

/// Drops a withheld line of the client, because the flow has removed or replaced it.
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
