//! The summary after the start: addresses, commands to try, how to stop.

use std::fmt::Write as _;

use super::installation::Installation;
use crate::globals::Globals;
use crate::output::print_notice;

pub(super) fn print(installation: &Installation, globals: &Globals) {
    let mut rows = vec![];
    for entry in installation.daemons() {
        let what =
            if entry.name == "api" { installation.api_url() } else { entry.health_url.unwrap_or_default() };
        rows.push((entry.name, format!("{what}  (process {})", entry.pid)));
    }
    rows.push(("database".to_owned(), installation.database_url().to_owned()));
    rows.push(("data".to_owned(), installation.folder().dir().display().to_string()));
    let key = installation.folder().api_key().display().to_string();
    rows.push(("api key".to_owned(), key.clone()));
    let flag =
        globals.data_dir.as_ref().map(|dir| format!(" --data-dir {}", dir.display())).unwrap_or_default();
    print_notice(&text(&rows, &flag, &key, &installation.api_url()));
}

fn text(rows: &[(String, String)], flag: &str, key: &str, url: &str) -> String {
    let mut text = "\nsched is running.\n\n".to_owned();
    for (name, what) in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<11}{what}");
    }
    let _ = write!(
        text,
        "\nTry next, in another terminal:\n  \
         schedctl{flag} jobs list\n  \
         schedctl{flag} attempts list\n  \
         schedctl{flag} status\n  \
         curl -H \"Authorization: Bearer $(cat {key})\" {url}/api/v1/jobs\n\n\
         Ctrl-C stops everything; the data stays for the next time.\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_runs_where_and_what_to_try() {
        let rows = [("api".to_owned(), "http://127.0.0.1:8080  (process 7)".to_owned())];
        insta::assert_snapshot!(text(&rows, " --data-dir x", "/x/api.key", "http://127.0.0.1:8080"), @r#"

        sched is running.

          api        http://127.0.0.1:8080  (process 7)

        Try next, in another terminal:
          schedctl --data-dir x jobs list
          schedctl --data-dir x attempts list
          schedctl --data-dir x status
          curl -H "Authorization: Bearer $(cat /x/api.key)" http://127.0.0.1:8080/api/v1/jobs

        Ctrl-C stops everything; the data stays for the next time.
        "#);
    }
}
