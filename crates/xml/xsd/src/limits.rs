//! Limits of one schema.

/// Limits of one schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Number of attempts to load a document, including those that fail or do not find a schema.
    pub documents_max: usize,
    /// Number of types, elements, attributes and particles together.
    pub components_max: usize,
    /// Number of states of one content model, after expanding counted particles where necessary.
    pub states_max: usize,
    /// Number of steps of comparing one restriction with its base.
    pub restriction_steps_max: usize,
    /// Nesting of model groups, and depth of type derivation.
    pub depth_max: usize,
    pub complaints_max: usize,
    /// Whether violations of rules that libxml2 does not check are only recorded; see [`Schema::noted`](crate::Schema::noted).
    pub as_libxml: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Large standards (FpML, HL7, NIEM) have some hundreds.
            documents_max: 2_000,
            // FpML, one of the largest, has about 30,000.
            components_max: 500_000,
            // A state takes about 100 bytes. Hand-written models have fewer than 100 states.
            states_max: 20_000,
            restriction_steps_max: 200_000,
            // Hand-written schemas stay below 20.
            depth_max: 150,
            complaints_max: 100,
            as_libxml: false,
        }
    }
}
