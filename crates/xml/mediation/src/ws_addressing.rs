//! WS-Addressing: header blocks that name the destination and the action of a message.
//!
//! Owns the format of the blocks. Replies return over the same connection, so the reply address is always the anonymous one.

use xml::escape_text;

use crate::ws_security::SoapMessage;

/// A version of WS-Addressing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressingVersion {
    /// Version 1.0, of August 2005.
    Final,
    /// The submission of August 2004.
    Submission,
}

/// The values of the header blocks of one message.
#[derive(Debug, Clone, Copy)]
pub struct Addressing<'a> {
    pub version: AddressingVersion,
    pub to: &'a str,
    pub action: &'a str,
    pub message_id: &'a str,
}

/// Local names of the blocks that are replaced.
const BLOCKS: [&str; 5] = ["To", "Action", "MessageID", "ReplyTo", "FaultTo"];

impl AddressingVersion {
    fn namespace(self) -> &'static str {
        match self {
            AddressingVersion::Final => "http://www.w3.org/2005/08/addressing",
            AddressingVersion::Submission => "http://schemas.xmlsoap.org/ws/2004/08/addressing",
        }
    }

    /// Returns the anonymous address, which stands for the connection of the request.
    fn anonymous(self) -> &'static str {
        match self {
            AddressingVersion::Final => "http://www.w3.org/2005/08/addressing/anonymous",
            AddressingVersion::Submission => {
                "http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous"
            }
        }
    }
}

impl SoapMessage {
    /// Returns the action in the header, in either version, or `None` if there is none.
    pub fn addressed_action(&self) -> Option<String> {
        let versions = [AddressingVersion::Final, AddressingVersion::Submission];
        let texts = versions.map(|version| self.block_text(version.namespace(), "Action"));
        // Harmless: a version that does not occur yields an empty text.
        texts.into_iter().flatten().find(|text| !text.is_empty())
    }

    /// Returns the message with these blocks in place of its own blocks of either version.
    pub fn addressed(&self, with: Addressing<'_>) -> String {
        let namespace = with.version.namespace();
        let mut markup = String::new();
        let texts = [("To", with.to), ("Action", with.action), ("MessageID", with.message_id)];
        for (name, text) in texts {
            markup.push_str(&format!("<wsa:{name} xmlns:wsa=\"{namespace}\">"));
            escape_text(text, &mut markup);
            markup.push_str(&format!("</wsa:{name}>"));
        }
        let anonymous = with.version.anonymous();
        markup.push_str(&format!(
            "<wsa:ReplyTo xmlns:wsa=\"{namespace}\"><wsa:Address>{anonymous}</wsa:Address></wsa:ReplyTo>"
        ));
        let versions = [AddressingVersion::Final, AddressingVersion::Submission];
        let gone = versions.map(|version| BLOCKS.map(|name| (version.namespace(), name)));
        self.with_blocks(&markup, &gone.concat())
    }
}
