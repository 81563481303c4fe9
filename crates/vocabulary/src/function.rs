//! Word lists of task functions.

text_enum! {
    /// How a worker runs a function.
    pub enum HandlerType {
        Process = "process",
        Http = "http",
        Native = "native",
    }
}
