//! The refusal of a message, and its texts for the sender and for the log.

/// The refusal of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// In the words of libxml2 where it has some.
    pub text: Box<str>,
    /// Not the sender's fault.
    pub server: bool,
    /// Other texts, if `text` names things that the sender did not name.
    pub told: Option<Box<DefinitionFailure>>,
}

/// The texts about a definition that names services only the operator knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionFailure {
    /// To clients, but for those of routes whose faults are the reference system's to the letter: without addresses.
    pub client: Box<str>,
    /// To the log: all of it.
    pub log: Box<str>,
}

impl Rejection {
    /// The sender's fault.
    pub fn client(text: impl Into<Box<str>>) -> Rejection {
        Rejection { text: text.into(), server: false, told: None }
    }

    /// The receiver's.
    pub fn server(text: impl Into<Box<str>>) -> Rejection {
        Rejection { text: text.into(), server: true, told: None }
    }

    /// The receiver's, if `text` is the reference system's and names things that the sender did not. `client` is for the clients
    /// of all other routes, `log` for the log.
    pub fn hiding(
        text: impl Into<Box<str>>,
        client: impl Into<Box<str>>,
        log: impl Into<Box<str>>,
    ) -> Rejection {
        let told = DefinitionFailure { client: client.into(), log: log.into() };
        Rejection { told: Some(Box::new(told)), ..Rejection::server(text) }
    }

    /// For the log.
    pub fn cause(&self) -> &str {
        self.told.as_ref().map_or(&self.text, |told| &told.log)
    }
}
