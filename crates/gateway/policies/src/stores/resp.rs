//! Implements the part of the Redis protocol (RESP2) that is needed for one command and its answer.

use std::io;

use kit::dial::Link;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Text(Vec<u8>),
    List(Vec<Answer>),
}

/// The maximum size of an answer. Four windows of a thousand keys take 100 KB, or 200 KB if they are clock-aligned.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Sends a command and reads the answer. A list may have at most `items_max` items. An error reply of the server is returned as an error.
pub(super) async fn ask<'a>(
    link: &mut Link,
    command: impl Iterator<Item = &'a str>,
    items_max: usize,
) -> io::Result<Answer> {
    let (mut count, mut parts) = (0_usize, Vec::new());
    for part in command {
        count += 1;
        parts.extend_from_slice(format!("${}\r\n{part}\r\n", part.len()).as_bytes());
    }
    link.send(&[format!("*{count}\r\n").as_bytes(), &parts].concat()).await?;
    let mut bytes = Vec::new();
    loop {
        link.read(&mut bytes).await?;
        let mut rest = bytes.as_slice();
        if let Some(answer) = read(&mut rest, Some(items_max))? {
            // Excess data would be mistaken for the answer to the next command.
            return if rest.is_empty() {
                Ok(answer)
            } else {
                Err(invalid("data after the answer"))
            };
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(invalid("an answer that is too long"));
        }
    }
}

impl Answer {
    /// Returns the answer as a list of whole numbers.
    pub(super) fn numbers(&self) -> io::Result<Vec<u64>> {
        let Answer::List(items) = self else { return Err(invalid("an answer that is not a list")) };
        let number = |item: &Answer| match item {
            // Harmless: an invalid number becomes an error.
            Answer::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            Answer::List(_) => None,
        };
        items
            .iter()
            .map(|item| number(item).ok_or_else(|| invalid("an item that is not a number")))
            .collect()
    }
}

/// Parses an answer, which may be a list of at most `items_max` texts. Without `items_max`, a list is an error. Returns
/// `None` if it is incomplete.
fn read(rest: &mut &[u8], items_max: Option<usize>) -> io::Result<Option<Answer>> {
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (line, after) = rest.split_at(end);
    *rest = after.get(2..).unwrap_or_default();
    let Some((kind, text)) = line.split_first() else { return Err(invalid("an empty line")) };
    // Harmless: an invalid number becomes an error.
    let number = || std::str::from_utf8(text).ok().and_then(kit::digits::whole::<usize>);
    match kind {
        b'+' | b':' => Ok(Some(Answer::Text(text.to_vec()))),
        // Harmless: the text is only logged.
        b'-' => Err(io::Error::other(String::from_utf8_lossy(text).into_owned())),
        b'$' => {
            let length = number().ok_or_else(|| invalid("a text without a length"))?;
            let Some((text, after)) = rest.split_at_checked(length) else { return Ok(None) };
            let Some(after) = after.strip_prefix(b"\r\n") else {
                return if after.len() < 2 {
                    Ok(None)
                } else {
                    Err(invalid("a text without an end"))
                };
            };
            *rest = after;
            Ok(Some(Answer::Text(text.to_vec())))
        }
        b'*' => {
            let items_max = items_max.ok_or_else(|| invalid("a list in a list"))?;
            let count = number().ok_or_else(|| invalid("a list without a length"))?;
            if count > items_max {
                return Err(invalid("a list of more items than were asked for"));
            }
            let mut items = Vec::new();
            for _ in 0..count {
                let Some(item) = read(rest, None)? else { return Ok(None) };
                items.push(item);
            }
            Ok(Some(Answer::List(items)))
        }
        _ => Err(invalid("an answer of an unknown type")),
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_once_they_are_whole() {
        let whole = b"*2\r\n$2\r\n12\r\n$1\r\n3\r\n";
        for length in 0..whole.len() {
            assert_eq!(read(&mut &whole[..length], Some(2)).unwrap(), None, "{length}");
        }
        let answer = read(&mut &whole[..], Some(2)).unwrap().unwrap();
        assert_eq!(answer.numbers().unwrap(), [12, 3]);
    }

    #[test]
    fn a_list_may_be_as_long_as_the_command_asks_for() {
        // Four clock-aligned windows of a thousand keys, with verdicts.
        let count = 13_000;
        let whole = format!("*{count}\r\n{}", "$10\r\n1764508800\r\n".repeat(count));
        assert!(whole.len() <= ANSWER_BYTES_MAX);
        let answer = read(&mut whole.as_bytes(), Some(count)).unwrap().unwrap();
        assert_eq!(answer.numbers().unwrap().len(), count);
        assert!(read(&mut whole.as_bytes(), Some(count - 1)).is_err());
    }

    #[test]
    fn an_invalid_answer_is_an_error() {
        for bad in [
            "-ERR no\r\n",
            "?\r\n",
            "\r\n",
            "$x\r\n",
            "$-1\r\n",
            "$1\r\nabc",
            "*1\r\n*0\r\n",
            "*99999999\r\n",
        ] {
            assert!(read(&mut bad.as_bytes(), Some(9)).is_err(), "{bad:?}");
        }
    }
}
