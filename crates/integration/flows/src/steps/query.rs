//! The query of a call, or the fields of a form.

use expression::Template;
use fault::Fault;

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
                    push_encoded(name, &mut out);
                    out.push('=');
                    push_encoded(&run.fill(state, template)?, &mut out);
                }
                Ok(out)
            }
        }
    }
}

/// Appends a text as a part of a query: all but unreserved characters (RFC 3986, 2.3) as percent escapes.
fn push_encoded(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}
