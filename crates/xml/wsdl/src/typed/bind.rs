//! Converts the operations of a description to operations with JSON.
//!
//! Chooses the port, finds the body of each message, and decides which operations cannot be offered.

use std::collections::HashSet;

use xml::Pool;

use super::build::TablesBuilder;
use super::model::{Children, Content, Leaf, Member, MemberOf, Message, Root, RpcPart, Slot};
use super::typed_api::{Api, Operation};
use super::{scalar, tags};
use crate::SoapVersion;
use crate::model::{
    Binding, BindingOperation, Body, Content as Bound, Description, Message as Carried, Payload,
    Port, Protocol, Service, Shape, Use,
};

/// Selects a port. By default, this is the first port with SOAP over HTTP; SOAP 1.1 is preferred over 1.2.
#[derive(Debug, Clone, Copy, Default)]
pub struct PortChoice<'a> {
    pub service: Option<&'a str>,
    pub port: Option<&'a str>,
}

/// Builds the tables of a description. The error says what is missing.
pub fn api(description: &Description, wanted: PortChoice<'_>) -> Result<Api, String> {
    let (binding, version, service, port) = port(description, wanted)?;
    let mut building = TablesBuilder::new(&description.schema);
    let mut operations: Vec<Operation> = Vec::new();
    let mut left_out: Vec<(String, String)> = Vec::new();
    for bound in &binding.operations {
        let name = bound.name.to_string();
        if operations.iter().any(|known| known.name == bound.name) {
            left_out.push((name, "another operation has this name".to_owned()));
            continue;
        }
        match operation(description, bound, &mut building) {
            Ok(operation) => operations.push(operation),
            Err(why) => left_out.push((name, why)),
        }
    }
    building.fill();
    let TablesBuilder { mut elements, mut types, mut examples, .. } = building;
    tags::write(&mut elements, &mut types, &mut operations, &mut examples);
    let title = service.map_or(&binding.name.local, |service| &service.name.local);
    Ok(Api {
        schema: description.schema.clone(),
        operations,
        elements,
        types,
        examples,
        left_out,
        address: port.and_then(|port| port.address.clone()),
        other_address: service.and_then(|service| other_address(description, service, version)),
        version,
        title: title.clone(),
        replies: Pool::default(),
    })
}

type PortMatch<'d> = (&'d Binding, SoapVersion, Option<&'d Service>, Option<&'d Port>);

fn port<'d>(description: &'d Description, wanted: PortChoice<'_>) -> Result<PortMatch<'d>, String> {
    let named = |name: &str, wanted: Option<&str>| wanted.is_none_or(|wanted| wanted == name);
    let services = description.services.iter();
    let services = services.filter(|service| named(&service.name.local, wanted.service));
    let ports = services.flat_map(|service| service.ports.iter().map(move |port| (service, port)));
    let ports = ports.filter(|(_, port)| named(&port.name, wanted.port));
    let mut found: Vec<PortMatch<'d>> = ports
        // Harmless: only SOAP ports can be bound, and it is an error if there are none.
        .filter_map(|(service, port)| {
            let binding = description.bindings.get(port.binding)?;
            Some((binding, soap(binding)?, Some(service), Some(port)))
        })
        .collect();
    if description.services.is_empty() && wanted.service.is_none() && wanted.port.is_none() {
        let bindings = description.bindings.iter();
        // Harmless: only SOAP bindings can be used, and it is an error if there are none.
        found.extend(bindings.filter_map(|one| Some((one, soap(one)?, None, None))));
    }
    let first = |version| found.iter().find(|(_, found, _, _)| *found == version).copied();
    first(SoapVersion::V11).or_else(|| first(SoapVersion::V12)).ok_or_else(|| {
        let all = description.services.iter().flat_map(|service| {
            service.ports.iter().map(move |port| format!("{}/{}", service.name.local, port.name))
        });
        let all: Vec<String> = all.collect();
        if all.is_empty() {
            "the description has no port that speaks SOAP over HTTP".to_owned()
        } else {
            format!("no such port speaks SOAP over HTTP; the description has {}", all.join(", "))
        }
    })
}

/// Returns the address of a service's first port with the other version of SOAP over HTTP.
fn other_address(
    description: &Description,
    service: &Service,
    version: SoapVersion,
) -> Option<Box<str>> {
    let spoken = |port: &&Port| {
        let spoken = description.bindings.get(port.binding).and_then(soap);
        spoken.is_some_and(|spoken| spoken != version)
    };
    service.ports.iter().find(spoken)?.address.clone()
}

/// Returns the names of the services that have a port with SOAP over HTTP.
pub fn services(description: &Description) -> impl Iterator<Item = &str> {
    let speaks = |port: &Port| description.bindings.get(port.binding).and_then(soap).is_some();
    let services = description.services.iter();
    services
        .filter(move |service| service.ports.iter().any(speaks))
        .map(|service| &*service.name.local)
}

fn soap(binding: &Binding) -> Option<SoapVersion> {
    let version = match binding.protocol {
        Protocol::Soap(version) => version,
        Protocol::Http(_) | Protocol::Other(_) => return None,
    };
    let http = |transport: &str| {
        transport.ends_with("/soap/http") || transport.to_ascii_lowercase().contains("/http")
    };
    binding.transport.as_deref().is_none_or(http).then_some(version)
}

fn operation(
    description: &Description,
    bound: &BindingOperation,
    building: &mut TablesBuilder<'_>,
) -> Result<Operation, String> {
    let Some(of) = description.operation(bound) else {
        return Err("its interface has no such operation".to_owned());
    };
    if of.solicits {
        return Err("the service sends the request in it".to_owned());
    }
    let shape = description.shape(bound);
    let is_rpc = match shape {
        Shape::DocumentLiteral | Shape::Wrapped => false,
        Shape::RpcLiteral => true,
        Shape::RpcEncoded | Shape::DocumentEncoded => {
            return Err("its messages are encoded, which no schema describes".to_owned());
        }
    };
    let mut message = |carried: &Option<Carried>, content: &Option<Bound>, local: &str| {
        let Some(carried) = carried else { return Ok(None) };
        let fallback = Bound {
            body: Body { parts: (0..carried.parts.len()).collect(), ..Body::default() },
            ..Bound::default()
        };
        let content = content.as_ref().unwrap_or(&fallback);
        message(carried, content, is_rpc.then_some(local), building).map(Some)
    };
    let input = message(&of.input, &bound.input, &bound.name)?;
    let output = message(&of.output, &bound.output, &format!("{}Response", bound.name))?;
    let mut faults = Vec::new();
    for (_, carried) in &of.faults {
        if let Some(Payload::Element(name)) = carried.parts.first().map(|part| &part.payload)
            && let Some(view) = building.schema.element(&name.namespace, &name.local)
        {
            faults.push(building.element(view));
        }
    }
    Ok(Operation {
        name: bound.name.clone(),
        action: bound.action.clone(),
        input: input.unwrap_or(Message {
            headers: Vec::new(),
            body: None,
            rpc: Vec::new(),
            is_rpc,
        }),
        output,
        faults,
    })
}

/// Builds one message; `wrapper` is the local name of an rpc message's element.
fn message(
    carried: &Carried,
    content: &Bound,
    wrapper: Option<&str>,
    building: &mut TablesBuilder<'_>,
) -> Result<Message, String> {
    let mut headers = Vec::new();
    for header in &content.headers {
        let Payload::Element(name) = &header.payload else {
            return Err("one of its headers is not an element of the schema".to_owned());
        };
        if header.usage == Use::Encoded {
            return Err("one of its headers is encoded".to_owned());
        }
        let header = root(name, building)?;
        if !headers.iter().any(|known: &Root| known.element == header.element) {
            headers.push(header);
        }
    }
    // Harmless: the parts of a body are among those of its message.
    let parts: Vec<_> = content.body.parts.iter().filter_map(|at| carried.parts.get(*at)).collect();
    let is_rpc = wrapper.is_some();
    if let Some(local) = wrapper {
        let namespace = content.body.namespace.as_deref().unwrap_or("");
        let mut named = Vec::new();
        for part in &parts {
            let Payload::Type(name) = &part.payload else {
                return Err(format!(
                    "its part `{}` is an element, and its style is rpc",
                    part.name
                ));
            };
            let local = part.name.clone();
            let type_name = (name.namespace.clone(), name.local.clone());
            named.push(RpcPart { local, type_name });
        }
        let element = wrapped(namespace, local, &named, building)?;
        let body = Some(Root { element, declarations: Box::default() });
        return Ok(Message { headers, body, rpc: named, is_rpc });
    }
    let body = match parts.as_slice() {
        [] => None,
        [only] => match &only.payload {
            Payload::Element(name) => Some(root(name, building)?),
            Payload::None => None,
            Payload::Type(_) => return Err("its body is a type without an element".to_owned()),
            Payload::Any => return Err("its body is any element".to_owned()),
            Payload::Other => return Err("its body is not XML".to_owned()),
        },
        [_, _, ..] => return Err("its body has several parts".to_owned()),
    };
    Ok(Message { headers, body, rpc: Vec::new(), is_rpc })
}

fn root(name: &crate::Name, building: &mut TablesBuilder<'_>) -> Result<Root, String> {
    let view = building.schema.element(&name.namespace, &name.local);
    let view = view.ok_or_else(|| format!("no schema has the element {name}"))?;
    Ok(Root { element: building.element(view), declarations: Box::default() })
}

/// Builds the element of an rpc message, with a child in no namespace for each part.
fn wrapped(
    namespace: &str,
    local: &str,
    parts: &[RpcPart],
    building: &mut TablesBuilder<'_>,
) -> Result<usize, String> {
    let mut children = Children::default();
    let mut slots = Vec::new();
    let mut seen: HashSet<&str> = HashSet::new();
    for part in parts {
        let (uri, name) = &part.type_name;
        let view = building.schema.type_named(uri, name);
        let view = view.ok_or_else(|| format!("no schema has the type {{{uri}}}{name}"))?;
        if !seen.insert(&part.local) {
            return Err(format!("two of its parts are called `{}`", part.local));
        }
        let type_at = building.type_at(view, &part.local);
        let element = building.plain("", &part.local, type_at, false, None);
        let member = children.members.len();
        children.leaves.push(Leaf { element, member, key: part.local.clone() });
        children.names.push(member);
        children.keys.push((part.local.clone(), member));
        children.members.push(Member {
            key: part.local.clone(),
            quoted: scalar::quoted_key(&part.local).into(),
            of: MemberOf::Element(element),
            many: false,
            min: 1,
            max: Some(1),
        });
        slots.push(Slot::Member(member));
    }
    children.keys.sort_unstable();
    children.names.sort_by_key(|at| parts.get(*at).map(|part| &part.local));
    children.model = Slot::Sequence { slots, optional: false };
    let type_at = building.push_type(None, local);
    if let Some(made) = building.types.get_mut(type_at) {
        made.content = Content::Children(children);
    }
    Ok(building.plain(namespace, local, type_at, false, None))
}
