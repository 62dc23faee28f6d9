//! Budgets of a transformation.

/// Limits on the cost of a run. Each has its own error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budgets {
    /// Instructions and XPath steps together.
    pub steps_max: u64,
    /// Nesting depth of templates and loops. Frames live on the heap: this bounds memory, not the stack.
    pub depth_max: u32,
    /// Bytes of the serialised result, or of text in result tree fragments.
    pub output_bytes_max: u64,
    /// Nodes of a result tree, or of all result tree fragments together.
    pub nodes_max: u64,
    /// Documents that `document()` may load.
    pub documents_max: u32,
    /// Number of `xsl:message` texts that are kept; later ones are dropped.
    pub messages_max: u32,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets {
            // A second or two of work.
            steps_max: 50_000_000,
            // Recursive string loops reach a depth of some thousands in practice; a frame takes about 200 bytes.
            depth_max: 100_000,
            output_bytes_max: 64 << 20,
            nodes_max: 10_000_000,
            documents_max: 100,
            messages_max: 100,
        }
    }
}
