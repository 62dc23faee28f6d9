//! String functions (XPath 1.0, 4.2). Results borrow from the arguments wherever possible.

use std::collections::HashMap;

use super::val::{Str, Val};
use crate::number::{is_space, round};
use crate::syntax::{Core, Op};
use crate::{Error, Evaluation};

impl<'a> Evaluation<'a> {
    /// Calls a string function. Returns `None` if the function is of another kind.
    pub(super) fn strings<'v>(
        &mut self,
        function: Core,
        arguments: &'v [Op],
    ) -> Result<Option<Val<'v>>, Error>
    where
        'a: 'v,
    {
        let text = match (function, arguments) {
            (Core::Concat, all) => self.concat(all)?,
            (Core::SubstringBefore, [text, mark]) => self.cut(text, mark, |text, mark| {
                text.split_once(mark).map_or("", |(before, _)| before)
            })?,
            (Core::SubstringAfter, [text, mark]) => self.cut(text, mark, |text, mark| {
                text.split_once(mark).map_or("", |(_, after)| after)
            })?,
            (Core::Substring, [text, start]) => self.substring(text, start, None)?,
            (Core::Substring, [text, start, len]) => self.substring(text, start, Some(len))?,
            (Core::NormalizeSpace, [text]) => {
                let text = self.text(text)?;
                self.normalized(text)?
            }
            (Core::Translate, [text, from, to]) => self.translate(text, from, to)?,
            (Core::StartsWith, [text, part]) => {
                return self.ask(text, part, |text, part| text.starts_with(part));
            }
            (Core::EndsWith, [text, part]) => {
                return self.ask(text, part, |text, part| text.ends_with(part));
            }
            (Core::Contains, [text, part]) => {
                return self.ask(text, part, |text, part| text.contains(part));
            }
            (Core::StringLength, [text]) => {
                let text = self.text(text)?;
                self.charge(text.as_str().len() as u64 / 8)?;
                let len = u32::try_from(text.as_str().chars().count()).unwrap_or(u32::MAX);
                return Ok(Some(Val::Number(f64::from(len))));
            }
            _ => return Ok(None),
        };
        Ok(Some(Val::Text(text)))
    }

    /// Checks and charges a string before it is produced.
    pub(super) fn makes(&mut self, bytes: usize) -> Result<(), Error> {
        self.budget.text(bytes).map_err(|kind| kind.at(0))
    }

    fn ask<'v>(
        &mut self,
        text: &Op,
        part: &Op,
        test: impl FnOnce(&str, &str) -> bool,
    ) -> Result<Option<Val<'v>>, Error> {
        let text = self.text(text)?;
        let part = self.text(part)?;
        self.charge(text.as_str().len() as u64 / 8)?;
        Ok(Some(Val::Boolean(test(text.as_str(), part.as_str()))))
    }

    fn concat<'v>(&mut self, all: &'v [Op]) -> Result<Str<'v>, Error>
    where
        'a: 'v,
    {
        let mut whole = String::new();
        for op in all {
            let text = self.text(op)?;
            self.makes(whole.len() + text.as_str().len())?;
            whole.push_str(text.as_str());
        }
        Ok(Str::Owned(whole))
    }

    fn cut<'v>(
        &mut self,
        text: &'v Op,
        mark: &'v Op,
        cut: impl for<'t> FnOnce(&'t str, &str) -> &'t str,
    ) -> Result<Str<'v>, Error>
    where
        'a: 'v,
    {
        let text = self.text(text)?;
        let mark = self.text(mark)?;
        self.makes(text.as_str().len())?;
        Ok(match text {
            Str::Borrowed(text) => Str::Borrowed(cut(text, mark.as_str())),
            Str::Owned(_) | Str::Shared(_) => {
                Str::Owned(cut(text.as_str(), mark.as_str()).to_owned())
            }
        })
    }

    /// Returns the characters whose positions are at least the rounded start and less than the rounded start plus the rounded length.
    /// Positions are compared as numbers, so that NaN and infinities need no special rule.
    fn substring<'v>(
        &mut self,
        text: &'v Op,
        start: &Op,
        len: Option<&Op>,
    ) -> Result<Str<'v>, Error>
    where
        'a: 'v,
    {
        let text = self.text(text)?;
        let start = round(self.number(start)?);
        let end = match len {
            Some(len) => start + round(self.number(len)?),
            None => f64::INFINITY,
        };
        self.makes(text.as_str().len())?;
        Ok(match text {
            Str::Borrowed(text) => Str::Borrowed(part(text, start, end)),
            Str::Owned(_) | Str::Shared(_) => {
                Str::Owned(part(text.as_str(), start, end).to_owned())
            }
        })
    }

    fn normalized<'v>(&mut self, text: Str<'v>) -> Result<Str<'v>, Error> {
        self.makes(text.as_str().len())?;
        if is_normalized(text.as_str()) {
            return Ok(text);
        }
        let mut whole = String::with_capacity(text.as_str().len());
        for word in text.as_str().split(is_space).filter(|word| !word.is_empty()) {
            if !whole.is_empty() {
                whole.push(' ');
            }
            whole.push_str(word);
        }
        Ok(Str::Owned(whole))
    }

    fn translate<'v>(&mut self, text: &'v Op, from: &'v Op, to: &'v Op) -> Result<Str<'v>, Error>
    where
        'a: 'v,
    {
        let text = self.text(text)?;
        let from = self.text(from)?;
        let to = self.text(to)?;
        self.makes(text.as_str().len() + from.as_str().len())?;
        // Charges for looking up each character.
        self.charge(4 * text.as_str().len() as u64)?;
        let mut table = HashMap::new();
        let mut to = to.as_str().chars();
        for c in from.as_str().chars() {
            // The first of several equal characters counts, but each uses up a position in the other string.
            let becomes = to.next();
            table.entry(c).or_insert(becomes);
        }
        let changed =
            // Harmless: `translate()` removes characters without a counterpart (XPath 1.0, 4.2).
            text.as_str().chars().filter_map(|c| table.get(&c).copied().unwrap_or(Some(c)));
        Ok(Str::Owned(changed.collect()))
    }
}

/// Returns the characters whose positions, counted from 1, are in `start..end`.
fn part(text: &str, start: f64, end: f64) -> &str {
    // Comparisons with NaN are false, so no position is selected.
    if start.is_nan() || end.is_nan() {
        return "";
    }
    let mut from = None;
    let mut position = 0.0;
    for (offset, _) in text.char_indices() {
        position += 1.0;
        if from.is_none() && position >= start {
            from = Some(offset);
        }
        if position >= end {
            return from.and_then(|from| text.get(from..offset)).unwrap_or("");
        }
    }
    from.and_then(|from| text.get(from..)).unwrap_or("")
}

/// Returns whether the only white space is single spaces between words.
fn is_normalized(text: &str) -> bool {
    let mut after_space = true;
    for byte in text.bytes() {
        match byte {
            b' ' if after_space => return false,
            b' ' => after_space = true,
            b'\t' | b'\r' | b'\n' => return false,
            _ => after_space = false,
        }
    }
    text.is_empty() || !after_space
}
