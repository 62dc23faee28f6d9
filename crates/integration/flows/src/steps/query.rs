//! The query of a call, or the fields of a form.

use expression::Template;
use fault::Fault;
use kit::percent;

use crate::state::{Run, State};

/// The query of a call, or the fields of a form.
pub enum Query {
    Whole(Template),
    /// Names with their values. Neither is encoded yet.
    Parameters(Vec<(Box<str>, Template)>),
}

impl Query {
    /// The templates of its parts.
    pub(crate) fn templates(&self) -> Vec<&Template> {
        match self {
            Query::Whole(template) => vec![template],
            Query::Parameters(all) => all.iter().map(|(_, template)| template).collect(),
        }
    }

    pub(crate) fn fill(&self, run: &Run<'_>, state: &State) -> Result<String, Fault> {
        match self {
            Query::Whole(template) => run.fill(state, template),
            Query::Parameters(all) => {
                let mut out = String::new();
                for (name, template) in all {
                    let joint = if out.is_empty() { "" } else { "&" };
                    out.push_str(joint);
                    let value = run.fill(state, template)?;
                    out.push_str(&percent::encoded(name.as_bytes(), b""));
                    out.push('=');
                    out.push_str(&percent::encoded(value.as_bytes(), b""));
                }
                Ok(out)
            }
        }
    }
}
