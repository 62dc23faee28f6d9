//! Queries of data services: a statement with numbered placeholders, and steps that check its parameters.

use serde_json::{Value as Json, json};

use super::parameters::{Argument, fallback, kind};
use super::{DataSource, Service, Source, arrays, insert, results};
use crate::synapse::converter::Converter;
use crate::synapse::element::Element;
use crate::synapse::jdbc::Vendor;

/// The value of a parameter in a call.
enum ParameterOrigin<'a> {
    /// The parameter of the request, or of the query around it, with this name.
    Parameter(&'a str),
    /// The column of the query around it.
    Column(&'a str),
}

/// The service of a nested query, and the queries around it.
struct Nesting<'s, 'a> {
    service: &'s Service<'a>,
    /// The identifiers of the queries around it.
    around: Vec<&'a str>,
}

impl<'a> Converter<'a> {
    /// The steps of a call for a request, and whether it has a result. If it has, the steps make the message of it, as XML.
    pub(super) fn called(
        &mut self,
        service: &Service<'a>,
        call: &Element<'a>,
        source: &Source<'a>,
    ) -> Result<(Vec<Json>, bool), String> {
        let (id, query) = found(service, call)?;
        self.check_artifact("data query", &query)?;
        let database = database(service, &query)?;
        let mut steps = Vec::new();
        let mut arguments = Vec::new();
        for parameter in query.all("param") {
            let (name, given) = passed(call, &parameter)?;
            let is_array = parameter.is("paramType", "ARRAY");
            let value = match given {
                Some(ParameterOrigin::Parameter(from)) if is_array => {
                    self.array(&parameter, source, from, &mut steps)?
                }
                Some(ParameterOrigin::Parameter(from)) => {
                    self.parameter(&parameter, &source.expression(from)?, &mut steps)?
                }
                Some(ParameterOrigin::Column(column)) => {
                    return Err(format!("no query around it has the column `{column}`"));
                }
                None if is_array => {
                    return Err(format!("the call gives the array `{name}` no value"));
                }
                None => fallback(&parameter, name)?,
            };
            arguments.push(Argument { name, value, is_array });
        }
        if database.vendor != Some(Vendor::Postgres)
            && let Some(array) = arguments.iter().find(|argument| argument.is_array)
        {
            let name = array.name;
            return Err(format!("the parameter `{name}` is an array, which only PostgreSQL takes"));
        }
        let (text, ordered) = statement(&query, &arguments)?;
        let source_of_rows = answer_source(&query, &database)?;
        let text = source_of_rows.statement(text)?;
        let mut sql = json!({ "database": database.name, "query": text });
        let Some(result) = query.child("result") else {
            insert(&mut sql, "into", json!(self.out.variable("dbs done")));
            insert_arguments(&mut sql, ordered);
            steps.push(json!({ "sql": sql }));
            return Ok((steps, false));
        };
        let (rows, xml) = (self.out.variable("dbs rows"), self.out.variable("dbs xml"));
        insert(&mut sql, "into", json!(rows));
        insert_arguments(&mut sql, ordered);
        steps.push(json!({ "sql": sql }));
        steps.push(json!({ "payload": { "json": format!("{{{{ ${rows} }}}}") } }));
        if let Some(program) = source_of_rows.rows() {
            if let AnswerSource::Keys(..) = source_of_rows {
                self.note(
                    "MySQL tells the first key of a statement, from which the others are counted up",
                );
            }
            steps.push(json!({ "script": { "jq": program } }));
        }
        let nesting = Nesting { service, around: vec![id] };
        let inner = self.nested(&nesting, &result, &mut steps)?;
        let program = results::program(service.namespace, &result, &inner)?;
        self.note(results::DIFFERENCE);
        steps.push(json!({ "script": { "jq": program } }));
        steps.push(json!({ "set": { xml.clone(): { "value": "$body", "type": "xml" } } }));
        let text = format!("{{{{ ${xml} }}}}");
        steps.push(json!({ "payload": { "xml": text, "content_type": "application/xml" } }));
        Ok((steps, true))
    }

    /// The steps that add the rows of nested queries to each row, and the results of these queries.
    fn nested(
        &mut self,
        nesting: &Nesting<'_, 'a>,
        result: &Element<'a>,
        steps: &mut Vec<Json>,
    ) -> Result<Vec<Element<'a>>, String> {
        let inside = result.descendants();
        let calls: Vec<Element<'a>> =
            inside.into_iter().filter(|it| it.name() == "call-query").collect();
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        steps.push(json!({ "script": { "jq": "map(with_entries(.key |= ascii_downcase))" } }));
        let (mut each, mut beside, mut results) = (Vec::new(), String::new(), Vec::new());
        for (number, call) in calls.iter().enumerate() {
            let (id, query) = found(nesting.service, call)?;
            if nesting.around.contains(&id) {
                return Err(format!("the query `{id}` calls itself"));
            }
            self.check_artifact("data query", &query)?;
            let inner = query.child("result");
            let inner = inner.ok_or_else(|| format!("the nested query `{id}` has no result"))?;
            if [&inner, result].iter().any(|it| it.is("useColumnNumbers", "true")) {
                return Err("columns by number around a nested query".to_owned());
            }
            if inner.descendants().iter().any(|it| it.name() == "call-query") {
                return Err(format!("the nested query `{id}` calls another query"));
            }
            let mut arguments = Vec::new();
            for parameter in query.all("param") {
                let (name, given) = passed(call, &parameter)?;
                if parameter.children().iter().any(|it| it.name().starts_with("validate")) {
                    return Err(format!("the parameter `{name}` of a nested query is validated"));
                }
                let value = match given {
                    Some(ParameterOrigin::Parameter(column) | ParameterOrigin::Column(column)) => {
                        json!(format!("$body['{}']", plain(column)?.to_ascii_lowercase()))
                    }
                    None => fallback(&parameter, name)?,
                };
                if parameter.is("paramType", "ARRAY") {
                    return Err(format!("the parameter `{name}` of a nested query is an array"));
                }
                kind(&parameter, name)?;
                arguments.push(Argument { name, value, is_array: false });
            }
            let (text, ordered) = statement(&query, &arguments)?;
            let database = database(nesting.service, &query)?;
            let variable = self.out.variable(&format!("dbs rows {number}"));
            let name = database.name;
            let mut sql = json!({ "database": name, "query": text, "into": variable });
            insert_arguments(&mut sql, ordered);
            each.push(json!({ "sql": sql }));
            beside.push_str(&format!(", \"{number}\": {{{{ ${variable} }}}}"));
            results.push(inner);
        }
        let merged = format!("{{ \"row\": {{{{ $body }}}}{beside} }}");
        each.push(json!({ "payload": { "json": merged } }));
        steps.push(json!({ "foreach": { "over": "$body", "steps": each } }));
        Ok(results)
    }
}

/// The query that a call names.
fn found<'a>(service: &Service<'a>, call: &Element<'a>) -> Result<(&'a str, Element<'a>), String> {
    let id = call.attribute("href").ok_or("a call names no query")?;
    let query = service.queries.iter().find(|query| query.attribute("id") == Some(id));
    query.map(|query| (id, *query)).ok_or_else(|| format!("there is no query `{id}`"))
}

/// The database of a call.
pub(super) fn database_of(service: &Service<'_>, call: &Element<'_>) -> Result<DataSource, String> {
    database(service, &found(service, call)?.1)
}

/// The names of the databases of a call and of the queries nested in it.
pub(super) fn databases_of(
    service: &Service<'_>,
    call: &Element<'_>,
) -> Result<Vec<String>, String> {
    let (_, query) = found(service, call)?;
    let mut names = vec![database(service, &query)?.name];
    let inside = query.descendants();
    for inner in inside.iter().filter(|it| it.name() == "call-query") {
        names.push(database_of(service, inner)?.name);
    }
    Ok(names)
}

/// What the rows of a result are made of.
#[derive(Clone, Copy)]
enum AnswerSource<'a> {
    Rows,
    /// The keys that the statement generated, in these columns.
    Keys(Vendor, Option<&'a str>),
    /// The number of rows that the statement changed.
    Count,
}

/// What the result of a query is made of.
fn answer_source<'a>(
    query: &Element<'a>,
    database: &DataSource,
) -> Result<AnswerSource<'a>, String> {
    let Some(result) = query.child("result") else { return Ok(AnswerSource::Rows) };
    if query.is("returnUpdatedRowCount", "true") {
        if !result.is("useColumnNumbers", "true") {
            return Err("the number of changed rows is asked by the name of a column".to_owned());
        }
        return Ok(AnswerSource::Count);
    }
    if query.is("returnGeneratedKeys", "true") {
        let unknown = "its keys are those of a database that is only known where it runs";
        return Ok(AnswerSource::Keys(
            database.vendor.ok_or(unknown)?,
            query.attribute("keyColumns"),
        ));
    }
    Ok(AnswerSource::Rows)
}

impl AnswerSource<'_> {
    /// The statement in a form that returns these rows, as Java's drivers write it.
    fn statement(self, text: String) -> Result<String, String> {
        let (vendor, columns) = match self {
            AnswerSource::Keys(Vendor::MySql, _) | AnswerSource::Rows | AnswerSource::Count => {
                return Ok(text);
            }
            AnswerSource::Keys(vendor, columns) => (vendor, columns),
        };
        let text = text.trim_end().trim_end_matches(';').trim_end();
        let lower = text.to_ascii_lowercase();
        if lower.contains("returning") {
            return Ok(text.to_owned());
        }
        let names = match (vendor, columns) {
            (Vendor::Sqlite, _) if !lower.trim_start().starts_with("insert") => {
                return Err("it asks for the keys of a statement that inserts nothing".to_owned());
            }
            (Vendor::Sqlite, _) => "rowid as \"last_insert_rowid()\"".to_owned(),
            (_, None) => "*".to_owned(),
            (_, Some(columns)) => {
                let names = columns.split(',').map(|name| format!("\"{}\"", name.trim()));
                names.collect::<Vec<_>>().join(", ")
            }
        };
        Ok(format!("{text} returning {names}"))
    }

    /// The jq program that makes rows of the statement's answer, or `None` if the answer is rows already.
    fn rows(self) -> Option<&'static str> {
        match self {
            AnswerSource::Rows | AnswerSource::Keys(Vendor::Postgres | Vendor::Sqlite, _) => None,
            AnswerSource::Keys(Vendor::MySql, _) => Some(
                "if .key == null then [] else . as $told | [range(0; .affected) | { \"GENERATED_KEY\": ($told.key + .) }] end",
            ),
            AnswerSource::Count => Some("[{ \"1\": .affected }]"),
        }
    }
}

/// The database of a query.
fn database(service: &Service<'_>, query: &Element<'_>) -> Result<DataSource, String> {
    let id = query.attribute("useConfig").unwrap_or("default");
    let known = service.databases.iter().find(|(known, _)| *known == id);
    match known {
        Some((_, Ok(source))) => Ok(source.clone()),
        Some((_, Err(why))) => Err(format!("the data source `{id}`: {why}")),
        None => Err(format!("there is no data source `{id}`")),
    }
}

/// A parameter's name and its value in a call.
fn passed<'a>(
    call: &Element<'a>,
    parameter: &Element<'a>,
) -> Result<(&'a str, Option<ParameterOrigin<'a>>), String> {
    let name = parameter.attribute("name").ok_or("a parameter has no name")?;
    let given = call.all("with-param").into_iter().find(|it| it.attribute("name") == Some(name));
    let given = given.and_then(|given| {
        let column = given.attribute("column").map(ParameterOrigin::Column);
        given.attribute("query-param").map(ParameterOrigin::Parameter).or(column)
    });
    Ok((name, given))
}

/// The statement with numbered placeholders, and the arguments in their order.
fn statement(
    query: &Element<'_>,
    arguments: &[Argument<'_>],
) -> Result<(String, Vec<Json>), String> {
    let [sql] = <[Element<'_>; 1]>::try_from(query.all("sql"))
        .map_err(|all| format!("it has {} statements", all.len()))?;
    if sql.attribute("dialect").is_some() {
        return Err("its statement is for one kind of database".to_owned());
    }
    let text = sql.text();
    if text.trim_start().starts_with(['{', '#']) {
        return Err("the escapes of Java's drivers have no counterpart".to_owned());
    }
    let ordinals = ordinals(query)?;
    let (mut out, mut ordered, mut used) = (String::new(), Vec::new(), 0);
    let (mut quote, mut rest) = (None, &*text);
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match (c, quote) {
            ('\'' | '"' | '`', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('?', None) => {
                used += 1;
                let at = ordinals.iter().position(|ordinal| *ordinal == used);
                let at = at.ok_or_else(|| format!("the placeholder {used} has no parameter"))?;
                let after = rest.get(taken..).unwrap_or_default();
                rest = placed(arguments.get(at), &mut ordered, &mut out, after)?;
                continue;
            }
            (':', None) => {
                let after = rest.get(1..).unwrap_or_default();
                let is_end = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-');
                let name = after.get(..after.find(is_end).unwrap_or(after.len())).unwrap_or("");
                if let Some(at) = arguments.iter().position(|known| known.name == name) {
                    used += 1;
                    let after = after.get(name.len()..).unwrap_or_default();
                    rest = placed(arguments.get(at), &mut ordered, &mut out, after)?;
                    continue;
                }
                // A cast of PostgreSQL is not a name.
                taken = rest.len() - rest.trim_start_matches(':').len();
            }
            // Harmless: every other character is copied.
            _ => {}
        }
        out.push_str(rest.get(..taken).unwrap_or_default());
        rest = rest.get(taken..).unwrap_or_default();
    }
    Ok((out, ordered))
}

/// Writes the placeholder of an argument behind `out`, and returns what remains of the statement.
fn placed<'r>(
    argument: Option<&Argument<'_>>,
    ordered: &mut Vec<Json>,
    out: &mut String,
    rest: &'r str,
) -> Result<&'r str, String> {
    let argument = argument.ok_or("a placeholder has no parameter")?;
    ordered.push(argument.value.clone());
    if argument.is_array {
        return arrays::write(argument.name, ordered.len(), out, rest);
    }
    out.push_str(&format!("${}", ordered.len()));
    Ok(rest)
}

/// The ordinal of each parameter: the given one, or the next one.
fn ordinals(query: &Element<'_>) -> Result<Vec<usize>, String> {
    let mut last = 0;
    let mut all = Vec::new();
    for parameter in query.all("param") {
        let written = match parameter.attribute("ordinal") {
            // Harmless: any other text is an error.
            Some(text) => text.parse::<i64>().map_err(|_| format!("the ordinal `{text}`"))?,
            None => 0,
        };
        // Harmless: a negative number means none, as in the data service.
        let ordinal = usize::try_from(written).ok().filter(|number| *number > 0);
        last = ordinal.map_or(last + 1, |ordinal| last.max(ordinal));
        all.push(ordinal.unwrap_or(last));
    }
    Ok(all)
}

fn plain(name: &str) -> Result<&str, String> {
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '.'));
    if is_plain { Ok(name) } else { Err(format!("`{name}` is not the name of a column")) }
}

fn insert_arguments(sql: &mut Json, arguments: Vec<Json>) {
    if !arguments.is_empty() {
        insert(sql, "arguments", Json::Array(arguments));
    }
}
