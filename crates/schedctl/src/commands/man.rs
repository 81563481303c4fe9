//! `man`: manual pages generated from the help texts. The first write error ends the command;
//! earlier pages stay.

use std::path::Path;

use anyhow::Context as _;
use sched_runtime::exit;

use crate::failure::{CommandResult, failure};
use crate::output::print_notice;

pub(crate) fn run(command: clap::Command, folder: &Path) -> CommandResult {
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("could not write the manual pages to {}", folder.display()))
        .map_err(failure)?;
    print_notice(&format!(
        "the manual pages are in {}: `man schedctl`, `man schedctl-jobs-list`",
        folder.display()
    ));
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cli;

    fn pages(command: &clap::Command, above: &str) -> BTreeSet<String> {
        let name = format!("{above}{}", command.get_name());
        let is_shown = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
        let below = command.get_subcommands().filter(is_shown);
        let mut names: BTreeSet<String> =
            below.flat_map(|command| pages(command, &format!("{name}-"))).collect();
        names.insert(format!("{name}.1"));
        names
    }

    #[test]
    fn every_command_has_a_page_that_says_what_help_says() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(run(cli::command(), folder.path()).unwrap(), exit::OK);
        let files = std::fs::read_dir(folder.path()).unwrap();
        let files: BTreeSet<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        let missing: Vec<String> =
            pages(&cli::command(), "").into_iter().filter(|page| !files.contains(page)).collect();
        assert!(missing.is_empty() && files.len() > 100, "{missing:?} of {files:?}");
        let page = std::fs::read_to_string(folder.path().join("schedctl-jobs-trigger.1")).unwrap();
        assert!(page.contains(".TH schedctl-jobs-trigger 1") && page.contains("SCHED_API_URL"), "{page}");
        assert!(!page.contains("watch"), "{page}");
        let page = std::fs::read_to_string(folder.path().join("schedctl-jobs-list.1")).unwrap();
        assert!(page.contains("watch"), "{page}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_told() {
        let error = run(cli::command(), Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.describe().contains("/nowhere/at/all"), "{}", error.describe());
    }
}
