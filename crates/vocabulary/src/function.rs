//! Word lists of task functions.

text_enum! {
    /// How a worker runs a function.
    pub enum HandlerType {
        /// A program of the operating system.
        Process = "process",
        /// A request to an HTTP endpoint.
        Http = "http",
        /// A Rust function built into the worker.
        Native = "native",
    }
}
