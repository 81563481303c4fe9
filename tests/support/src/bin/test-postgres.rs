//! The PostgreSQL server of one nextest run, started by nextest's setup script.
//!
//! A setup script must end before the tests, so this program starts itself again, detached, as the
//! server's owner. That process reports readiness through a pipe and watches nextest. At any end of
//! nextest it stops the server and removes its folder. If it is killed, its guard does the same.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use nix::unistd::{getppid, setsid};
use test_support::{URL_VARIABLE, is_running, throw_away};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => set_up(),
        ["serve", watched] => serve(watched.parse().context("failed to read the process to watch")?),
        _ => bail!("usage: test-postgres (as nextest's setup script)"),
    }
}

fn set_up() -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "nextest names its file in the environment")]
    let file =
        std::env::var_os("NEXTEST_ENV").context("NEXTEST_ENV is not set; nextest runs this program")?;
    let mut owner = Command::new(std::env::current_exe()?)
        .args(["serve", &getppid().to_string()])
        // The owner must hold no file of nextest open: nextest waits for the end of its pipes.
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("failed to start the owner of the test server")?;
    let pipe = owner.stdout.take().context("the owner has no pipe")?;
    let mut answer = String::new();
    BufReader::new(pipe)
        .read_line(&mut answer)
        .context("failed to read from the owner of the test server")?;
    match answer.trim().split_once(' ') {
        Some(("ready", url)) => {
            let mut file = OpenOptions::new().append(true).create(true).open(&file)?;
            writeln!(file, "{URL_VARIABLE}={url}").context("failed to pass the URL to nextest")
        }
        Some(("failed", why)) => bail!("no PostgreSQL for the tests: {why}"),
        _ => bail!("the owner of the test server died while starting it"),
    }
}

fn serve(watched: i32) -> anyhow::Result<()> {
    setsid().context("failed to detach")?;
    let answer = |text: &str| writeln!(std::io::stdout(), "{}", text.replace('\n', " "));
    let cluster = match throw_away() {
        Ok(cluster) => cluster,
        Err(error) => return Ok(answer(&format!("failed {:#}", anyhow::Error::from(error)))?),
    };
    answer(&format!("ready {}", cluster.url("postgres")))?;
    while is_running(watched) {
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(cluster);
    Ok(())
}
