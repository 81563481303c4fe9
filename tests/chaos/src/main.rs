//! See `installation::chaos`.

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    installation::chaos()
}
