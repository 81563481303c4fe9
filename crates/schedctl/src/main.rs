//! The program `schedctl`: a runtime around the library, and its exit code.

use std::io::Write as _;
use std::process::ExitCode;

use sched_runtime::exit::{self, ExitError};

fn main() -> ExitCode {
    match start() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // With standard error gone there is nobody left to tell; the code still says it.
            let _ = writeln!(std::io::stderr(), "error: {}", error.describe());
            ExitCode::from(error.code())
        }
    }
}

fn start() -> Result<u8, ExitError> {
    // Fails only when a provider is installed already, and then there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ExitError::new(exit::FAILURE, error))?;
    let result = runtime.block_on(schedctl::run(std::env::args_os()));
    // A read of standard input that nobody waits for any more must not hold the process.
    runtime.shutdown_background();
    result
}
