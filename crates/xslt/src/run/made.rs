//! Elements, attributes and instructions whose names are made in the run (XSLT 1.0, 7.1.2 and 7.1.3).

use super::{Machine, Reach, dynamic};
use crate::compile::{is_ncname, split_qname};
use crate::error::Error;
use crate::program::{Avt, Made, Named};

impl Machine<'_> {
    pub(super) fn start_made(&mut self, made: &Made, reach: &mut Reach<'_>) -> Result<(), Error> {
        let name = self.made_name(made, true, reach)?;
        self.top()?.start(&name.prefix, &name.local, &name.uri);
        Ok(())
    }

    pub(super) fn end_attribute(
        &mut self,
        made: &Made,
        reach: &mut Reach<'_>,
    ) -> Result<(), Error> {
        let value = self.kept_text()?;
        let name = self.made_name(made, false, reach)?;
        self.top()?.attribute(&name.prefix, &name.local, &name.uri, &value);
        Ok(())
    }

    pub(super) fn end_instruction(
        &mut self,
        name: &Avt,
        reach: &mut Reach<'_>,
    ) -> Result<(), Error> {
        let text = self.kept_text()?;
        let target = self.avt(name, reach)?;
        let target = target.trim();
        if !is_ncname(target) || target.eq_ignore_ascii_case("xml") {
            return Err(dynamic(format!("`{target}` cannot name a processing instruction")));
        }
        self.top()?.instruction(target, &text);
        Ok(())
    }

    fn made_name(
        &mut self,
        made: &Made,
        element: bool,
        reach: &mut Reach<'_>,
    ) -> Result<Named, Error> {
        let name = self.avt(&made.name, reach)?;
        let name = name.trim();
        let Some((prefix, local)) = split_qname(name) else {
            return Err(dynamic(format!("`{name}` is not a name")));
        };
        let named = |prefix: &str, uri: &str| Named {
            prefix: prefix.into(),
            local: local.into(),
            uri: uri.into(),
        };
        if let Some(namespace) = &made.namespace {
            let uri = self.avt(namespace, reach)?;
            let prefix = if uri.is_empty() || prefix == "xmlns" { "" } else { prefix };
            return Ok(named(prefix, &uri));
        }
        if !element && name == "xmlns" {
            return Err(dynamic("an attribute cannot be named xmlns"));
        }
        if prefix == "xml" {
            return Ok(named("xml", xml::XML_NAMESPACE));
        }
        let scope = self.given.program.scopes.get(made.scope as usize);
        let found = scope.and_then(|scope| scope.iter().find(|(known, _)| **known == *prefix));
        match (found, prefix) {
            (_, "") if !element => Ok(named("", "")),
            (Some((_, uri)), _) => Ok(named(prefix, uri)),
            (None, "") => Ok(named("", "")),
            (None, _) => Err(dynamic(format!("the prefix `{prefix}` is not declared"))),
        }
    }
}
