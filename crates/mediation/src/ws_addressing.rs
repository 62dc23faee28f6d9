//! WS-Addressing: the header of a message that says where it goes and what it asks for.
//!
//! Owns the form of the blocks. A reply comes back over the same connection, so that the address for it is the anonymous one.

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

/// The texts of the blocks for one message.
#[derive(Debug, Clone, Copy)]
pub struct Addressing<'a> {
    pub version: AddressingVersion,
    pub to: &'a str,
    pub action: &'a str,
    pub message_id: &'a str,
}

/// Blocks that are replaced.
const BLOCKS: [&str; 5] = ["To", "Action", "MessageID", "ReplyTo", "FaultTo"];

impl AddressingVersion {
    fn namespace(self) -> &'static str {
        match self {
            AddressingVersion::Final => "http://www.w3.org/2005/08/addressing",
            AddressingVersion::Submission => "http://schemas.xmlsoap.org/ws/2004/08/addressing",
        }
    }

    /// The address of the sender of the request.
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
    /// The action that the header names, in either version.
    pub fn addressed_action(&self) -> Option<String> {
        let versions = [AddressingVersion::Final, AddressingVersion::Submission];
        let texts = versions.map(|version| self.block_text(version.namespace(), "Action"));
        // Harmless: a version that is not there has no text.
        texts.into_iter().flatten().find(|text| !text.is_empty())
    }

    /// The message with these blocks in place of those that it has, of either version.
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
