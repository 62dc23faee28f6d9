//! The refusal of a message, with texts for the sender and for the log.

/// The refusal of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The text, in the wording of libxml2 if it has one for the rule.
    pub text: Box<str>,
    /// Whether the receiver is at fault instead of the sender.
    pub server: bool,
    /// Separate texts for client and log, if `text` contains names that the sender did not supply.
    pub separate_texts: Option<Box<DefinitionFailure>>,
}

/// Texts about a definition that cannot be used. Its addresses are known only to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionFailure {
    /// The text for clients, without addresses. Routes that reproduce Kong's faults to the letter use `Rejection::text`
    /// instead.
    pub client: Box<str>,
    /// The complete text, for the log.
    pub log: Box<str>,
}

impl Rejection {
    /// Creates a refusal for which the sender is responsible.
    pub fn client(text: impl Into<Box<str>>) -> Rejection {
        Rejection { text: text.into(), server: false, separate_texts: None }
    }

    /// Creates a refusal for which the receiver is responsible.
    pub fn server(text: impl Into<Box<str>>) -> Rejection {
        Rejection { text: text.into(), server: true, separate_texts: None }
    }

    /// Creates a refusal for which the receiver is responsible, whose `text` is Kong's and contains names that the sender
    /// did not supply. `client` is shown to clients of all other routes; `log` goes to the log.
    pub fn hiding(
        text: impl Into<Box<str>>,
        client: impl Into<Box<str>>,
        log: impl Into<Box<str>>,
    ) -> Rejection {
        let told = DefinitionFailure { client: client.into(), log: log.into() };
        Rejection { separate_texts: Some(Box::new(told)), ..Rejection::server(text) }
    }

    /// Returns the text for the log.
    pub fn cause(&self) -> &str {
        self.separate_texts.as_ref().map_or(&self.text, |told| &told.log)
    }
}
