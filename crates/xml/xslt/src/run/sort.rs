//! `xsl:sort` (XSLT 1.0, 10).

use std::cmp::Ordering;

use kit::turns;
use xpath::{Focus, Node};

use super::{Machine, Reach, dynamic};
use crate::collate::{self, Case};
use crate::error::Error;
use crate::program::SortKey;

/// How one sort key orders nodes.
#[derive(Debug, Clone, Copy)]
struct Order {
    descending: bool,
    number: bool,
    case: Case,
    /// Whether texts are compared by code point, as libxslt does without a `lang`.
    plain: bool,
}

/// One node's value for one key.
#[derive(Debug)]
enum Sortable {
    Plain(String),
    Text(collate::Key),
    Number(f64),
}

impl Machine<'_> {
    /// Sorts nodes by the keys; the sort is stable.
    pub(super) fn sort(
        &mut self,
        nodes: &mut Vec<Node>,
        keys: &[SortKey],
        reach: &mut Reach<'_>,
    ) -> Result<(), Error> {
        if keys.is_empty() || nodes.len() < 2 {
            return Ok(());
        }
        let orders: Vec<Order> =
            keys.iter().map(|key| self.order(key, reach)).collect::<Result<_, _>>()?;
        let before = self.now.focus;
        let sorted = self.sort_values(nodes, keys, &orders, reach);
        self.now.focus = before;
        let mut rows = sorted?;
        rows.sort_by(|a, b| {
            turns::count_part();
            compare(&a.1, &b.1, &orders)
        });
        nodes.clear();
        nodes.extend(rows.into_iter().map(|(node, _)| node));
        Ok(())
    }

    fn sort_values(
        &mut self,
        nodes: &[Node],
        keys: &[SortKey],
        orders: &[Order],
        reach: &mut Reach<'_>,
    ) -> Result<Vec<(Node, Vec<Sortable>)>, Error> {
        let size = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let mut rows = Vec::with_capacity(nodes.len());
        for (position, node) in (1..).zip(nodes.iter().copied()) {
            self.now.focus = Focus { node, position, size, current: node };
            let mut row = Vec::with_capacity(keys.len());
            // Harmless: there is one order for each key.
            for (key, order) in keys.iter().zip(orders) {
                let mut text = String::new();
                self.write(&key.value, reach, &mut text)?;
                if let Err(kind) = reach.budget.text(text.len()) {
                    return Err(self.fault_kind(kind));
                }
                row.push(match (order.number, order.plain) {
                    (true, _) => Sortable::Number(xpath::text_number(&text)),
                    (false, true) => Sortable::Plain(text),
                    (false, false) => Sortable::Text(collate::Key::new(&text, order.case)),
                });
            }
            rows.push((node, row));
        }
        Ok(rows)
    }

    fn order(&mut self, key: &SortKey, reach: &mut Reach<'_>) -> Result<Order, Error> {
        let order = self.avt_or_empty(key.order.as_ref(), reach)?;
        let data_type = self.avt_or_empty(key.data_type.as_ref(), reach)?;
        let case = self.avt_or_empty(key.case_order.as_ref(), reach)?;
        let descending = match order.trim() {
            "" | "ascending" => false,
            "descending" => true,
            other => return Err(dynamic(format!("there is no sort order `{other}`"))),
        };
        let number = match data_type.trim() {
            "" | "text" => false,
            "number" => true,
            // Values with data types of other vendors are sorted as text.
            other if other.contains(':') => false,
            other => return Err(dynamic(format!("there is no sort data type `{other}`"))),
        };
        let case = match case.trim() {
            "upper-first" => Case::UpperFirst,
            "" | "lower-first" => Case::LowerFirst,
            other => return Err(dynamic(format!("there is no case order `{other}`"))),
        };
        let lang = self.avt_or_empty(key.lang.as_ref(), reach)?;
        let plain = self.given.libxslt && lang.trim().is_empty();
        Ok(Order { descending, number, case, plain })
    }
}

fn compare(a: &[Sortable], b: &[Sortable], orders: &[Order]) -> Ordering {
    // Harmless: each row has a value for each key, and each key has an order.
    for ((a, b), order) in a.iter().zip(b).zip(orders) {
        let found = match (a, b) {
            (Sortable::Number(a), Sortable::Number(b)) => numbers(*a, *b),
            (Sortable::Text(a), Sortable::Text(b)) => a.cmp(b),
            (Sortable::Plain(a), Sortable::Plain(b)) => a.cmp(b),
            // Harmless: all values of a key are of one kind.
            (Sortable::Number(_) | Sortable::Text(_) | Sortable::Plain(_), _) => Ordering::Equal,
        };
        if found != Ordering::Equal {
            return if order.descending { found.reverse() } else { found };
        }
    }
    Ordering::Equal
}

/// Compares numbers; NaN comes first.
fn numbers(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}
