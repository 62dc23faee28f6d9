//! Reads attribute declarations, uses, groups and wildcards.

use xml::NodeId;

use super::{Builder, Inside, Redefinition};
use crate::arena::Id;
use crate::datatype::Builtin;
use crate::documents::SchemaDocument;
use crate::model::{
    AttributeDecl, AttributeSource, AttributeUse, ComponentLocation, Namespaces, Process, Wildcard,
};
use crate::names::NsId;

impl<'d> Builder<'d> {
    pub(super) fn read_global_attribute(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        id: Id<AttributeDecl>,
    ) {
        let constraint = self.value_constraint(doc, node);
        let found = self.type_of(doc, node, Inside::default(), "src-attribute.4");
        let type_id = found.unwrap_or_else(|| self.components.builtin(Builtin::AnySimpleType));
        self.check_attribute_type(doc.place(node), type_id);
        self.check_attribute_name(doc, node, doc.target);
        let decl = &mut self.components.attributes[id];
        decl.type_id = type_id;
        decl.constraint = constraint;
    }

    fn check_attribute_type(&mut self, place: ComponentLocation, type_id: Id<crate::model::Type>) {
        if self.components.simple(type_id).is_none() && type_id != crate::model::ANY_TYPE {
            let text = self.components.type_text(type_id);
            self.complain("src-resolve", place, format!("{text} is not a simple type"));
        }
    }

    fn check_attribute_name(&mut self, doc: &SchemaDocument<'_>, node: NodeId, target: NsId) {
        if doc.attribute(node, "name") == Some("xmlns") {
            let message = "an attribute must not be named xmlns".to_owned();
            self.complain("no-xmlns", doc.place(node), message);
        }
        if target == NsId::XSI {
            let message =
                "an attribute must not be in the namespace of XML Schema instances".to_owned();
            self.complain("no-xsi", doc.place(node), message);
        }
    }

    /// Reads the attributes, groups and wildcard among the children of a node.
    pub(super) fn read_attributes(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        inside: Inside,
    ) -> AttributeSource {
        let mut source = AttributeSource::default();
        let children: Vec<NodeId> = doc.children(node).collect();
        for child in children {
            match doc.tag(child) {
                "attribute" => self.attribute_use(doc, child, inside, &mut source),
                "attributeGroup" => self.attribute_group(doc, child, inside, &mut source),
                "anyAttribute" => source.wildcard = Some(self.wildcard(doc, child)),
                // Harmless: any other child is read elsewhere, or has been reported already.
                _ => {}
            }
        }
        source
    }

    fn attribute_group(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        inside: Inside,
        source: &mut AttributeSource,
    ) {
        let place = doc.place(node);
        let Some(name) = doc.attribute(node, "ref").and_then(|text| self.qname(doc, node, text))
        else {
            return;
        };
        if let Some(Redefinition::AttributeGroup(own, original)) = inside.redefined
            && own == name
        {
            source.groups.push((original, place));
            return;
        }
        match self.components.globals.attribute_groups.get(&name) {
            Some(&id) => source.groups.push((id, place)),
            None => {
                self.missing::<()>(place, "attribute group", name);
            }
        }
    }

    fn attribute_use(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        inside: Inside,
        source: &mut AttributeSource,
    ) {
        let place = doc.place(node);
        if !self.has_room(place) {
            return;
        }
        let constraint = self.value_constraint(doc, node);
        let usage = doc.attribute(node, "use").unwrap_or("optional");
        let default = constraint.as_ref().is_some_and(|value| !value.fixed);
        if default && matches!(usage, "required" | "prohibited") {
            let message = format!("a {usage} attribute must not have a default");
            self.complain("src-attribute.2", place, message);
        }
        let decl = match (doc.attribute(node, "name"), doc.attribute(node, "ref")) {
            (Some(name), None) => self.local_attribute(doc, node, name, inside),
            (None, Some(text)) => {
                let surplus =
                    ["type", "form"].into_iter().find(|n| doc.attribute(node, n).is_some());
                if surplus.is_some() || doc.child(node, &["simpleType"]).is_some() {
                    let message = "a reference must not have a type or a form".to_owned();
                    self.complain("src-attribute.3.2", place, message);
                }
                self.qname(doc, node, text).and_then(|name| {
                    match self.components.globals.attributes.get(&name) {
                        Some(&id) => Some(id),
                        None => self.missing(place, "attribute", name),
                    }
                })
            }
            (Some(_), Some(_)) | (None, None) => {
                let message = "an attribute must have either a name or a ref here".to_owned();
                self.complain("src-attribute.3.1", place, message);
                None
            }
        };
        let Some(decl) = decl else { return };
        let name = self.components.attributes[decl].name;
        match usage {
            "prohibited" => source.prohibited.push(name),
            _ => {
                let required = usage == "required";
                source.uses.push(AttributeUse { name, place, decl, required, constraint });
            }
        }
    }

    fn local_attribute(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        name: &str,
        inside: Inside,
    ) -> Option<Id<AttributeDecl>> {
        let qualified = match doc.attribute(node, "form") {
            Some(form) => form == "qualified",
            None => doc.attributes_qualified,
        };
        let namespace = if qualified { doc.target } else { NsId::ABSENT };
        self.check_attribute_name(doc, node, namespace);
        let found = self.type_of(doc, node, inside, "src-attribute.4");
        let type_id = found.unwrap_or_else(|| self.components.builtin(Builtin::AnySimpleType));
        self.check_attribute_type(doc.place(node), type_id);
        let name = self.components.names.intern(namespace, name);
        // The value constraint belongs to the attribute use.
        let place = doc.place(node);
        Some(self.components.attributes.push(AttributeDecl {
            name,
            place,
            type_id,
            constraint: None,
        }))
    }

    /// Reads `any` or `anyAttribute`.
    pub(super) fn wildcard(&mut self, doc: &SchemaDocument<'_>, node: NodeId) -> Wildcard {
        let namespaces = match doc.attribute(node, "namespace").unwrap_or("##any") {
            "##any" => Namespaces::Any,
            "##other" => Namespaces::Not(doc.target),
            list => {
                let mut found: Vec<NsId> = list
                    .split_ascii_whitespace()
                    .map(|word| match word {
                        "##targetNamespace" => doc.target,
                        "##local" => NsId::ABSENT,
                        uri => self.components.names.namespace(uri),
                    })
                    .collect();
                found.sort_unstable();
                found.dedup();
                Namespaces::Of(found)
            }
        };
        let process = match doc.attribute(node, "processContents") {
            Some("skip") => Process::Skip,
            Some("lax") => Process::Lax,
            Some(_) | None => Process::Strict,
        };
        Wildcard { namespaces, process, place: doc.place(node) }
    }

    /// Checks src-redefine.7.1: a redefined attribute group refers to its original at most once. If it does not refer to it, `rules` checks
    /// that it restricts it (7.2.2).
    pub(super) fn check_redefined_attributes(
        &mut self,
        source: &AttributeSource,
        place: ComponentLocation,
        inside: Inside,
    ) {
        let Some(Redefinition::AttributeGroup(name, original)) = inside.redefined else { return };
        if source.groups.iter().filter(|(id, _)| *id == original).count() > 1 {
            let text = self.components.names.text(name);
            let message = format!("the redefinition of {text} refers to it more than once");
            self.complain("src-redefine.7.1", place, message);
        }
    }
}
