//! Expressions of artifacts as expressions of flows: XPath, JSONPath, and the `${...}` of newer versions.
//!
//! Owns the choice of a text's language and the meaning of names. Each result is compiled as a flow expression, which
//! proves that the gateway can read the output.

use expression::{Expression, Language, NameKind, Names, Slot};
use serde_json::json;

use super::converter::{Converter, Side};
use super::dollar;
use super::element::Element;
use super::known::{self, ConversionResult};
use super::soap_action;
use super::value::{Value, escaped, header, member, quoted};
use super::xpath_text::{self, NameResolver, XPathType};

impl<'a> Converter<'a> {
    /// Returns the value of an element from its `expression` attribute, or else from its `literal` attribute.
    pub(super) fn value(
        &mut self,
        element: &Element<'a>,
        literal: &str,
        expression: &str,
    ) -> Result<Option<Value>, String> {
        if let Some(text) = element.attribute(expression) {
            return self.expression(element, text).map(Some);
        }
        match element.raw(literal) {
            Some(text) => self.literal(element, text).map(Some),
            None => Ok(None),
        }
    }

    /// Converts a text. In newer versions, a text that is a single `${...}` or `{...}` is an expression.
    pub(super) fn literal(&mut self, element: &Element<'a>, text: &str) -> Result<Value, String> {
        let whole = text.trim();
        let braced = whole.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if whole.starts_with("${") && whole.ends_with('}') && whole.matches("${").count() == 1 {
            return self.expression(element, whole);
        }
        match braced.filter(|inner| inner.starts_with(['$', '/']) || inner.contains('(')) {
            Some(inner) if !inner.contains('{') => self.expression(element, inner),
            _ => Ok(Value::Literal(text.to_owned())),
        }
    }

    /// An expression in any language of Synapse.
    pub(super) fn expression(
        &mut self,
        element: &Element<'a>,
        text: &str,
    ) -> Result<Value, String> {
        let text = text.trim();
        let braced = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        let json =
            text.strip_prefix("json-eval(").and_then(|rest| rest.trim_end().strip_suffix(')'));
        let value = if let Some(inner) = braced {
            dollar::value(self, element, inner)?
        } else if let Some(path) = json {
            self.json_path(path)?
        } else if text == "$" || text.starts_with("$.") || text.starts_with("$[") {
            self.json_path(text)?
        } else {
            self.xpath(element, text)?
        };
        self.compiles(&value)?;
        Ok(value)
    }

    pub(super) fn xpath(&mut self, element: &Element<'a>, text: &str) -> Result<Value, String> {
        let mut meaning = XPathNames { converter: self, element: *element };
        let (text, gives) = xpath_text::rewrite(text, &mut meaning)?;
        Ok(Value::Path(text, gives))
    }

    fn json_path(&mut self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let rest = text.strip_prefix('$').unwrap_or(text).trim_end_matches('.');
        let dot = if rest.is_empty() || rest.starts_with(['.', '[']) { "" } else { "." };
        Ok(Value::Path(format!("$body{dot}{rest}"), XPathType::Other))
    }

    /// Checks that a result compiles in the expression language of flows.
    fn compiles(&self, value: &Value) -> Result<(), String> {
        let (text, language) = match value {
            Value::Literal(_) => return Ok(()),
            Value::Path(text, _) => (text, Value::language(text)),
            Value::Cel(text) => (text, Language::Cel),
        };
        let names = FlowNames { namespaces: &self.flow.namespaces };
        let compiled = Expression::compile(text, language, &names);
        compiled.map(drop).map_err(|error| format!("`{text}` has no counterpart: {}", error.kind))
    }

    /// The value as a part of a template that makes a text.
    pub(super) fn text_placeholder(&mut self, value: &Value) -> String {
        self.placeholder(&value.as_text())
    }

    /// The value as a part of a template. CEL is put into a variable first.
    pub(super) fn placeholder(&mut self, value: &Value) -> String {
        match value {
            Value::Literal(text) => escaped(text),
            Value::Path(text, _) => format!("{{{{ {text} }}}}"),
            Value::Cel(_) => {
                self.computed += 1;
                let name = self.out.variable(&format!("computed_{}", self.computed));
                self.before.push(json!({ "set": { name.clone(): value.expression() } }));
                format!("{{{{ ${name} }}}}")
            }
        }
    }

    /// A text with `${...}` in it as a template.
    pub(super) fn template(&mut self, element: &Element<'a>, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((front, behind)) = rest.split_once("${") {
            out.push_str(&escaped(front));
            let (inner, after) =
                dollar::close(behind).ok_or_else(|| format!("`${{` has no `}}` in `{text}`"))?;
            let value = dollar::value(self, element, inner)?;
            self.compiles(&value)?;
            out.push_str(&self.placeholder(&value));
            rest = after;
        }
        out.push_str(&escaped(rest));
        Ok(out)
    }

    /// Translates a name of a scope: `$ctx:NAME`, `get-property('SCOPE', 'NAME')`.
    pub(super) fn named(&mut self, scope: &str, name: &str) -> Result<String, String> {
        match scope {
            "default" | "synapse" | "ctx" | "operation" => self.own(name),
            "transport" | "trp" => {
                if name.eq_ignore_ascii_case("SOAPAction") && self.artifacts.sets_action {
                    self.note("Tidegate uses the action that was set; Synapse uses the header that was received");
                }
                header(name)
            }
            "axis2" | "axis2-client" => match name {
                "HTTP_METHOD" | "REST_METHOD" => Ok("$method".to_owned()),
                "HTTP_SC" => Ok("$status".to_owned()),
                "messageType" | "ContentType" => Ok("$headers.content-type".to_owned()),
                _ => Err(format!("the property `{name}` of axis2 has no counterpart")),
            },
            "url" => member("query", name),
            "func" => match self.flow.template {
                Some(template) => {
                    let variable = self.out.variable(&format!("{template}.{name}"));
                    Ok(format!("${variable}"))
                }
                None => Err(format!("`$func:{name}` is used outside a template")),
            },
            "system" | "env" | "environment" | "file" | "registry" => Err(format!(
                "the {scope} property `{name}` is read at run time; write `${{NAME}}` or `${{file:PATH}}` where it is used"
            )),
            _ => Err(format!("the scope `{scope}` has no counterpart")),
        }
    }

    /// A property of the message itself.
    fn own(&mut self, name: &str) -> Result<String, String> {
        let is_set = self.artifacts.set.contains(name) || self.flow.made.contains(name);
        if let Some(parameter) = name.strip_prefix("uri.var.").filter(|_| !is_set) {
            let query = self.flow.query_names.iter().find(|(variable, _)| variable == parameter);
            return match query {
                Some((_, key)) => member("query", key),
                None => self.path_parameter(parameter),
            };
        }
        if let Some(parameter) = name.strip_prefix("query.param.").filter(|_| !is_set) {
            return member("query", parameter);
        }
        let row = if is_set { None } else { known::conversion("name", name) };
        match row {
            Some(ConversionResult::Refused(why)) => {
                return Err(format!("the property `{name}`: {why}"));
            }
            Some(ConversionResult::Differs(how)) => self.note(how),
            Some(ConversionResult::Same | ConversionResult::MayDiffer(_)) | None => {}
        }
        let literal = |text: Option<String>| {
            let text = text
                .ok_or_else(|| format!("`{name}` has no value outside an API or proxy service"))?;
            quoted(&text).ok_or_else(|| format!("the text of `{name}` has both kinds of quotes"))
        };
        let known = match name {
            "ERROR_CODE" if self.flow.in_on_fail => "''",
            "ERROR_CODE" => "$error.code",
            "ERROR_MESSAGE" if self.flow.in_on_fail => "$error.detail",
            "ERROR_MESSAGE" => "$error.message",
            "ERROR_DETAIL" | "ERROR_EXCEPTION" => "$error.detail",
            "To" if !is_set => return self.request_path(),
            "REST_API_CONTEXT" if !is_set => return literal(self.flow.api.clone().map(|it| it.0)),
            "REST_API_VERSION" if !is_set => return literal(self.flow.api.clone().map(|it| it.1)),
            "proxy.name" if !is_set => return literal(self.flow.proxy.clone()),
            _ if !is_set && self.artifacts.entries.contains_key(name) => {
                return literal(Some(self.entry(name)?));
            }
            "REST_METHOD" | "HTTP_METHOD" if !is_set => "$method",
            "MessageID" if !is_set => "concat('urn:uuid:', $request.id)",
            "SERVER_IP" if !is_set => "$request.local_address",
            "Action" | "WSAction" | "SOAPAction" if !is_set => return Ok(soap_action::expression()),
            _ if is_set => {
                let variable = self.out.variable(name);
                return Ok(format!("${variable}"));
            }
            _ => return Err(format!("nothing among the artifacts sets the property `{name}`")),
        };
        Ok(known.to_owned())
    }

    /// Returns the path and query of a request, if the route does not change them.
    fn request_path(&self) -> Result<String, String> {
        let is_request = self.flow.side == Side::Request && !self.flow.in_branch;
        if is_request && self.flow.is_whole {
            Ok("$request.path".to_owned())
        } else {
            Err("`To` is known only in requests to a proxy, `main` or an API resource that accepts POST, and outside branches".to_owned())
        }
    }

    /// The text of a local entry.
    fn entry(&self, name: &str) -> Result<String, String> {
        let is_markup =
            self.artifacts.entries.get(name).is_some_and(|it| !it.children().is_empty());
        if is_markup {
            return Err(format!(
                "the local entry `{name}` is XML, which an expression cannot contain"
            ));
        }
        self.artifacts.resource(name)?.text()
    }

    /// A parameter of the path, which the path of the resource must have. Not checked in a sequence that several flows may run.
    fn path_parameter(&self, name: &str) -> Result<String, String> {
        let path = member("path", name)?;
        let has = match &self.flow.resource {
            Some(resource) => resource.path.contains(&format!("{{{{ {path} }}}}")),
            None => !self.flow.expanding.is_empty(),
        };
        if has {
            Ok(path)
        } else {
            Err(format!("nothing sets `uri.var.{name}`, and no path has it"))
        }
    }

    /// Returns the flow's prefix for the namespace to which `prefix` is bound at this element. Adds it if needed.
    fn prefix(&mut self, element: &Element<'a>, prefix: &str) -> Result<String, String> {
        let uri = element.namespace(prefix);
        let uri = uri.ok_or_else(|| format!("the prefix `{prefix}` is not declared"))?;
        let known = &mut self.flow.namespaces;
        if let Some((prefix, _)) = known.iter().find(|(_, known)| known == uri) {
            return Ok(prefix.clone());
        }
        let names = (2..).map(|number| format!("{prefix}{number}"));
        let mut free = std::iter::once(prefix.to_owned()).chain(names);
        // Harmless: there are more numbers than prefixes.
        let free =
            free.find(|name| known.iter().all(|(taken, _)| taken != name)).unwrap_or_default();
        known.push((free.clone(), uri.to_owned()));
        Ok(free)
    }
}

/// Resolves the names in the XPath of an element.
struct XPathNames<'c, 'a> {
    converter: &'c mut Converter<'a>,
    element: Element<'a>,
}

impl NameResolver for XPathNames<'_, '_> {
    fn variable(&mut self, prefix: &str, name: &str) -> Result<String, String> {
        match (prefix, name) {
            ("", "body") => Ok("$infoset_body".to_owned()),
            ("", "header") => Ok("$header".to_owned()),
            ("", "env") => Ok("$infoset/*".to_owned()),
            ("", _) => self.converter.named("default", name),
            _ => self.converter.named(prefix, name),
        }
    }

    fn property(&mut self, scope: &str, name: &str) -> Result<String, String> {
        self.converter.named(scope, name)
    }

    fn prefix(&mut self, prefix: &str) -> Result<String, String> {
        let element = self.element;
        self.converter.prefix(&element, prefix)
    }
}

/// The names of a flow, to compile a result.
struct FlowNames<'n> {
    namespaces: &'n [(String, String)],
}

impl Names for FlowNames<'_> {
    fn find(&self, path: &[&str]) -> Option<NameKind> {
        Some(match path {
            ["headers" | "path" | "query" | "request" | "error" | "vars"]
            | ["request", "headers"] => NameKind::Group(Slot(0)),
            _ => NameKind::Value(Slot(0)),
        })
    }

    fn namespace(&self, prefix: &str) -> Option<&str> {
        self.namespaces.iter().find(|(known, _)| known == prefix).map(|(_, uri)| uri.as_str())
    }

    fn document(&self) -> Slot {
        Slot(1)
    }

    fn body(&self) -> Slot {
        Slot(2)
    }
}
