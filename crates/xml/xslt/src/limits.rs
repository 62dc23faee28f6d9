//! Budgets of a transformation.

/// Limits on the cost of a run. Exceeding one is an error that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budgets {
    /// Number of instructions and XPath steps together.
    pub steps_max: u64,
    /// Maximum nesting of templates and loops. Frames are on the heap, so this bounds memory and not the stack.
    pub depth_max: u32,
    /// Number of bytes of names, namespace declarations, attribute values and text in the result and in all result tree fragments together,
    /// before escaping. Escapes and end tags are not counted, so the serialised result may be larger. This is also the maximum size of a
    /// string in an expression.
    pub output_bytes_max: u64,
    /// Number of nodes in the result and in all result tree fragments together. This is also the maximum size of a node-set.
    pub nodes_max: u64,
    /// Number of documents that `document()` may load.
    pub documents_max: u32,
    /// Number of `xsl:message` texts that are kept. Later ones are dropped.
    pub messages_max: u32,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets {
            // A second or two of work.
            steps_max: 50_000_000,
            // Recursive string loops reach a depth of some thousands in practice. A frame takes about 200 bytes.
            depth_max: 100_000,
            output_bytes_max: 64 << 20,
            nodes_max: 10_000_000,
            documents_max: 100,
            messages_max: 100,
        }
    }
}
