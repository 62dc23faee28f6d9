//! Checks of an expression before there is a request: functions and members that do not exist, patterns that
//! cannot be read, and results that are no yes or no.

use std::sync::Arc;

use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::{Context as Names, Env, IdedExpr};

/// The names whose members are known, each with them.
const MEMBERS: [(&str, &[&str]); 2] =
    [("request", &["method", "path", "host", "query", "headers"]), ("client", &["ip"])];

/// The first thing in an expression that can never be worked out.
pub(super) fn wrong(whole: &IdedExpr, env: &Arc<Env>) -> Option<String> {
    let mut waiting = vec![whole];
    while let Some(next) = waiting.pop() {
        let found = if let Expr::Call(call) = &next.expr {
            call_wrong(call, env)
        } else if let Expr::Select(select) = &next.expr {
            member_wrong(&select.operand, &select.field)
                .or_else(|| header_wrong(&select.operand, &select.field))
        } else {
            None
        };
        if found.is_some() {
            return found;
        }
        add_parts(&next.expr, &mut waiting);
    }
    None
}

fn add_parts<'e>(expr: &'e Expr, parts: &mut Vec<&'e IdedExpr>) {
    match expr {
        Expr::Call(call) => parts.extend(call.target.as_deref().into_iter().chain(&call.args)),
        Expr::Select(select) => parts.push(&select.operand),
        Expr::Comprehension(all) => {
            parts.extend([&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step]);
            parts.push(&all.result);
        }
        Expr::List(list) => parts.extend(&list.elements),
        Expr::Map(map) => map.entries.iter().for_each(|entry| add_entry(&entry.expr, parts)),
        Expr::Struct(made) => made.entries.iter().for_each(|entry| add_entry(&entry.expr, parts)),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}

fn add_entry<'e>(entry: &'e EntryExpr, parts: &mut Vec<&'e IdedExpr>) {
    match entry {
        EntryExpr::StructField(field) => parts.push(&field.value),
        EntryExpr::MapEntry(entry) => parts.extend([&entry.key, &entry.value]),
    }
}

fn call_wrong(call: &CallExpr, env: &Arc<Env>) -> Option<String> {
    let name = call.func_name.as_str();
    if name == operators::INDEX
        && let [of, member] = &*call.args
        && let Some(member) = text(member)
    {
        return member_wrong(of, member).or_else(|| header_wrong(of, member));
    }
    if name == operators::IN
        && let [member, of] = &*call.args
        && let Some(member) = text(member)
    {
        return header_wrong(of, member);
    }
    if name == "matches"
        && let Some(pattern) = call.args.last().and_then(text)
    {
        return pattern_wrong(pattern, env);
    }
    // Operators, and what macros are made of, begin otherwise.
    let is_named = name.starts_with(|first: char| first.is_ascii_alphabetic());
    // Only what is not declared yet may be added.
    let mut names = Names::with_env(env.clone());
    let is_unknown = is_named && names.add_function(name, |value: i64| value).is_ok();
    is_unknown.then(|| format!("there is no function `{name}`"))
}

fn member_wrong(of: &IdedExpr, member: &str) -> Option<String> {
    let Expr::Ident(name) = &of.expr else { return None };
    let (_, known) = MEMBERS.iter().find(|(known, _)| known == name)?;
    (!known.contains(&member))
        .then(|| format!("`{name}` has no `{member}`; it has {}", known.join(", ")))
}

/// A spelling under which no header is found.
fn header_wrong(of: &IdedExpr, header: &str) -> Option<String> {
    let name = super::header_name(header);
    (is_headers(of) && name != header).then(|| {
        format!("no header is called `{header}` here; write `{name}`, as in `request.headers['{name}']`, for all its spellings")
    })
}

fn is_headers(of: &IdedExpr) -> bool {
    let (of, member) = match &of.expr {
        Expr::Select(select) => (&*select.operand, Some(&*select.field)),
        Expr::Call(call) if call.func_name == operators::INDEX => match &*call.args {
            [of, member] => (of, text(member)),
            _ => return false,
        },
        Expr::Call(_)
        | Expr::Comprehension(_)
        | Expr::Ident(_)
        | Expr::List(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Struct(_)
        | Expr::Unspecified => return false,
    };
    matches!(&of.expr, Expr::Ident(name) if name == "request") && member == Some("headers")
}

fn pattern_wrong(pattern: &str, env: &Arc<Env>) -> Option<String> {
    let program = env.compile("''.matches(pattern)").ok()?;
    let mut names = Names::with_env(env.clone());
    names.add_variable_from_value("pattern", super::string(pattern));
    program.execute(&names).err().map(|_| format!("`{pattern}` is no regular expression"))
}

fn text(expr: &IdedExpr) -> Option<&str> {
    let Expr::Literal(LiteralValue::String(text)) = &expr.expr else { return None };
    Some(text.inner())
}

/// The kind of an expression's result, if it is never true or false.
pub(super) fn no_verdict(whole: &IdedExpr) -> Option<&'static str> {
    match &whole.expr {
        Expr::Literal(LiteralValue::Boolean(_)) => None,
        Expr::Literal(LiteralValue::String(_)) => Some("a text"),
        Expr::Literal(_) => Some("a constant"),
        Expr::List(_) => Some("a list"),
        Expr::Map(_) | Expr::Struct(_) => Some("a map"),
        Expr::Ident(name) => match name.as_str() {
            "subject" | "tier" | "scheme" => Some("a text"),
            "request" | "claims" | "client" => Some("a map"),
            _ => None,
        },
        Expr::Select(select) if !select.test => member_gives(&select.operand, &select.field),
        Expr::Call(call) => call_gives(call),
        // What `map` and `filter` are made of.
        Expr::Comprehension(all) if matches!(all.accu_init.expr, Expr::List(_)) => Some("a list"),
        Expr::Select(_) | Expr::Comprehension(_) | Expr::Unspecified => None,
    }
}

fn member_gives(of: &IdedExpr, member: &str) -> Option<&'static str> {
    match (&of.expr, member) {
        (Expr::Ident(name), "query" | "headers") if name == "request" => Some("a map"),
        (Expr::Ident(name), _) if name == "request" || name == "client" => Some("a text"),
        // Of a query or of header lines.
        (Expr::Select(_), _) if no_verdict(of) == Some("a map") => Some("a text"),
        _ => None,
    }
}

fn call_gives(call: &CallExpr) -> Option<&'static str> {
    match (call.func_name.as_str(), &*call.args) {
        ("size" | "int" | "uint" | "double", _) => Some("a number"),
        ("string", _) => Some("a text"),
        (operators::ADD, [first, _]) => no_verdict(first).or(Some("a sum")),
        (
            operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
            | operators::NEGATE,
            _,
        ) => Some("a number"),
        (operators::CONDITIONAL, [_, one, other]) => {
            no_verdict(one).filter(|_| no_verdict(other).is_some())
        }
        (operators::INDEX, [of, member]) => member_gives(of, text(member).unwrap_or_default()),
        _ => None,
    }
}
