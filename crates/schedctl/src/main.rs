//! The program `schedctl`.

use std::io::Write as _;
use std::process::ExitCode;

use sched_runtime::exit::{self, ExitError};

fn main() -> ExitCode {
    match start() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // If standard error is gone, the exit code still reports it.
            let _ = writeln!(std::io::stderr(), "error: {}", error.describe());
            ExitCode::from(error.code())
        }
    }
}

fn start() -> Result<u8, ExitError> {
    // Fails only if a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ExitError::new(exit::FAILURE, error))?;
    let result = runtime.block_on(schedctl::run(std::env::args_os()));
    // An abandoned read of standard input must not block the exit.
    runtime.shutdown_background();
    result
}
