//! The URL of a database.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder};
use crate::hidden::without_user;
use crate::node::Node;
use crate::schema::SchemaBuilder;

/// The URL of a database as written, with the file that it names. It is shown without user and password.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    /// The text, which may have a password.
    pub text: String,
    /// The file of a `sqlite:` URL, resolved relative to the folder of the file that names it.
    pub file: Option<PathBuf>,
}

const SQLITE: &str = "sqlite:";

impl Decode for DatabaseUrl {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write `postgres://HOST:PORT/DATABASE` or `mysql://HOST:PORT/DATABASE`, with `USER:PASSWORD@` before the host, or `sqlite:FILE`";
        let text = decoder.parse(node, "the URL of a database", help, |text| {
            let known = ["postgres://", "postgresql://", "mysql://", "mariadb://", SQLITE];
            if known.iter().any(|scheme| text.starts_with(scheme)) {
                return Ok(text.to_owned());
            }
            // The scheme is not secret, but the text after it may be.
            let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
            let is_word = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if scheme.is_empty() || !is_word {
                return Err("this is not the URL of a database".to_owned());
            }
            Err(format!(
                "databases of {scheme} are not supported; those of PostgreSQL, MySQL and SQLite are"
            ))
        })?;
        let file = text.strip_prefix(SQLITE).map(|rest| rest.split('?').next().unwrap_or(rest));
        // The file changes with each message, so it is not watched.
        let file = file.map(|file| decoder.resolve_unwatched(file, node.at));
        Some(Self { text, file })
    }

    fn encode(&self) -> Json {
        without_user(&self.text).into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "type": "string", "pattern": "^(postgres(ql)?://|(mysql|mariadb)://|sqlite:)" })
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_user(&self.text))
    }
}
