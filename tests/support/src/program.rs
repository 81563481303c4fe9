//! Location of the built programs: `target/<profile>/<program>`, beside
//! `target/<profile>/deps/<test>`.
//!
//! Cargo builds a package's own programs for its tests, but not those of other packages. Missing
//! programs are built here once.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Path of one of the workspace's programs.
///
/// # Panics
///
/// If it is missing and cannot be built.
pub(crate) fn find(name: &str) -> PathBuf {
    let path = folder().join(name);
    if !path.is_file() {
        static BUILT: OnceLock<()> = OnceLock::new();
        BUILT.get_or_init(|| build(folder()));
    }
    assert!(
        path.is_file(),
        "there is no program {}; `cargo build --workspace --bins --tests` does not make it",
        path.display()
    );
    path
}

/// `target/<profile>` of the profile of this test.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe()
            .unwrap_or_else(|error| panic!("cannot find this test's program: {error}"));
        // Documentation tests are elsewhere; they start no programs.
        test.parent().and_then(Path::parent).map(Path::to_owned).unwrap_or_default()
    })
}

fn build(folder: &Path) {
    eprintln!("building the programs that this test starts: cargo build --workspace --bins --tests");
    let mut command = Command::new("cargo");
    command.args(["build", "--workspace", "--bins", "--tests"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    // The folder of the `dev` profile is `debug`; other folders have the name of their profile.
    if let Some(profile) = folder.file_name().and_then(|name| name.to_str()).filter(|name| *name != "debug") {
        command.args(["--profile", profile]);
    }
    let status = command.status().unwrap_or_else(|error| panic!("cannot run cargo: {error}"));
    assert!(status.success(), "cargo build --workspace --bins --tests failed; run it by hand");
}
