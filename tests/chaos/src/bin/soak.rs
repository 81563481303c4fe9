//! See `installation::soak`.

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    installation::soak()
}
