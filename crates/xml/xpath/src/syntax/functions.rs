//! Table of the functions of XPath itself: names, arguments and result types.

/// A function of the core library, or of those taken from XPath 2.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Core {
    Last,
    Position,
    Count,
    Id,
    LocalName,
    NamespaceUri,
    Name,
    String,
    Concat,
    StartsWith,
    Contains,
    SubstringBefore,
    SubstringAfter,
    Substring,
    StringLength,
    NormalizeSpace,
    Translate,
    Boolean,
    Not,
    True,
    False,
    Lang,
    Number,
    Sum,
    Floor,
    Ceiling,
    Round,
    // From XPath 2.0.
    Matches,
    Replace,
    Tokenize,
    UpperCase,
    LowerCase,
    EndsWith,
    StringJoin,
    Abs,
    Min,
    Max,
    Avg,
    DistinctValues,
    Exists,
    Empty,
}

impl Core {
    /// Returns whether a call with this number of arguments uses the context node, its position or its document.
    pub(crate) fn looks_at_focus(self, arguments: usize) -> bool {
        let always = matches!(self, Core::Last | Core::Position | Core::Id | Core::Lang);
        // A function without arguments applies to the context node, except `true()` and `false()`.
        let of_node = arguments == 0 && !matches!(self, Core::True | Core::False);
        always || of_node
    }
}

/// The type of a result, if it is known before evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Nodes,
    Boolean,
    Number,
    Text,
}

/// Signature of a function.
pub(crate) struct Row {
    pub(crate) function: Core,
    pub(crate) name: &'static str,
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// Whether the function applies to the context node if it is called without arguments.
    pub(crate) focus: bool,
    pub(crate) result: Type,
}

const ANY: usize = usize::MAX;

const fn row(function: Core, name: &'static str, least: usize, most: usize, result: Type) -> Row {
    Row { function, name, least, most, focus: false, result }
}

const fn asks_focus(function: Core, name: &'static str, result: Type) -> Row {
    Row { function, name, least: 0, most: 1, focus: true, result }
}

/// The functions of XPath 1.0, section 4.
const ROWS: &[Row] = &[
    row(Core::Last, "last", 0, 0, Type::Number),
    row(Core::Position, "position", 0, 0, Type::Number),
    row(Core::Count, "count", 1, 1, Type::Number),
    row(Core::Id, "id", 1, 1, Type::Nodes),
    asks_focus(Core::LocalName, "local-name", Type::Text),
    asks_focus(Core::NamespaceUri, "namespace-uri", Type::Text),
    asks_focus(Core::Name, "name", Type::Text),
    asks_focus(Core::String, "string", Type::Text),
    row(Core::Concat, "concat", 2, ANY, Type::Text),
    row(Core::StartsWith, "starts-with", 2, 2, Type::Boolean),
    row(Core::Contains, "contains", 2, 2, Type::Boolean),
    row(Core::SubstringBefore, "substring-before", 2, 2, Type::Text),
    row(Core::SubstringAfter, "substring-after", 2, 2, Type::Text),
    row(Core::Substring, "substring", 2, 3, Type::Text),
    asks_focus(Core::StringLength, "string-length", Type::Number),
    asks_focus(Core::NormalizeSpace, "normalize-space", Type::Text),
    row(Core::Translate, "translate", 3, 3, Type::Text),
    row(Core::Boolean, "boolean", 1, 1, Type::Boolean),
    row(Core::Not, "not", 1, 1, Type::Boolean),
    row(Core::True, "true", 0, 0, Type::Boolean),
    row(Core::False, "false", 0, 0, Type::Boolean),
    row(Core::Lang, "lang", 1, 1, Type::Boolean),
    asks_focus(Core::Number, "number", Type::Number),
    row(Core::Sum, "sum", 1, 1, Type::Number),
    row(Core::Floor, "floor", 1, 1, Type::Number),
    row(Core::Ceiling, "ceiling", 1, 1, Type::Number),
    row(Core::Round, "round", 1, 1, Type::Number),
];

/// Functions of XPath 2.0 that can be expressed with the four types.
const ROWS_2: &[Row] = &[
    row(Core::Matches, "matches", 2, 3, Type::Boolean),
    row(Core::Replace, "replace", 3, 4, Type::Text),
    row(Core::Tokenize, "tokenize", 1, 3, Type::Nodes),
    row(Core::UpperCase, "upper-case", 1, 1, Type::Text),
    row(Core::LowerCase, "lower-case", 1, 1, Type::Text),
    row(Core::EndsWith, "ends-with", 2, 2, Type::Boolean),
    row(Core::StringJoin, "string-join", 1, 2, Type::Text),
    row(Core::Abs, "abs", 1, 1, Type::Number),
    row(Core::Min, "min", 1, 1, Type::Number),
    row(Core::Max, "max", 1, 1, Type::Number),
    row(Core::Avg, "avg", 1, 1, Type::Number),
    row(Core::DistinctValues, "distinct-values", 1, 1, Type::Nodes),
    row(Core::Exists, "exists", 1, 1, Type::Boolean),
    row(Core::Empty, "empty", 1, 1, Type::Boolean),
];

/// Returns true if this is the name of a function of XPath 1.0.
pub fn is_core_function(name: &str) -> bool {
    find(name, false).is_some()
}

/// Returns the least and the largest number of arguments of a function of XPath 1.0; with `xpath2`, also of those taken from XPath 2.0.
pub fn core_arity(name: &str, xpath2: bool) -> Option<(usize, usize)> {
    find(name, xpath2).map(|row| (row.least, row.most))
}

/// Returns the row of a function without prefix.
pub(crate) fn find(name: &str, xpath2: bool) -> Option<&'static Row> {
    let more = if xpath2 { ROWS_2 } else { &[] };
    ROWS.iter().chain(more).find(|row| row.name == name)
}

impl Core {
    fn row(self) -> Option<&'static Row> {
        ROWS.iter().chain(ROWS_2).find(|row| row.function == self)
    }

    /// Returns the function's name.
    pub(crate) fn name(self) -> &'static str {
        self.row().map_or("", |row| row.name)
    }

    pub(crate) fn result(self) -> Type {
        self.row().map_or(Type::Text, |row| row.result)
    }
}
