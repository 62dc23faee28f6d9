//! An open node of the source.

use super::Then;
use super::passage::Passage;

/// An open node whose content is processed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// The descent for its children, and the current step of the descent.
    pub(super) descent: u32,
    pub(super) step: u32,
    /// The action of the descent.
    pub(super) then: Then,
    /// Whether the step is the last one and accepts all children.
    pub(super) whole: bool,
    /// The acts that continue at its end.
    pub(super) rest: u32,
    /// Its number.
    pub(super) element: u32,
    /// Index of its first namespace declaration.
    pub(super) declared_from: usize,
    /// If this many declarations are in scope in the result, they include all namespaces in scope of this node.
    pub(super) covered: Option<usize>,
    /// How to handle all text in it, if it does not depend on the text node.
    pub(super) texts: Option<Passage>,
    /// Whether text that is only white space is stripped.
    pub(super) strips: bool,
    /// Whether `xml:space` preserves white space.
    pub(super) preserves: bool,
}
