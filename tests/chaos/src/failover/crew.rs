//! The daemons of a failover: all of them know both servers, and none is restarted.
//!
//! They end when the value is dropped, and when the program is killed (`test_support::Process`).

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use test_support::{Process, free_port};

use crate::fleet::{Station, daemon_name, launch, ready};
use crate::plan::Kind;

const CREW: [(Kind, usize); 3] = [(Kind::Api, 2), (Kind::Scheduler, 2), (Kind::Worker, 3)];
const READY_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Member {
    kind: Kind,
    name: String,
    address: SocketAddr,
    process: Process,
}

#[derive(Debug)]
pub(super) struct Crew(Vec<Member>);

impl Crew {
    pub(super) async fn start(url: &str, folder: &Path) -> anyhow::Result<Self> {
        let mut crew = Vec::new();
        for (kind, count) in CREW {
            for number in 0..count {
                let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
                let process = launch(kind, &Station { url, address, work: &folder.join("work") })?.start();
                crew.push(Member { kind, name: format!("{}-{number}", daemon_name(kind)), address, process });
            }
        }
        let crew = Self(crew);
        crew.ready().await?;
        Ok(crew)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn addresses(&self, kind: Kind) -> Vec<SocketAddr> {
        self.0.iter().filter(|member| member.kind == kind).map(|member| member.address).collect()
    }

    pub(super) fn named(&self, kind: Kind) -> Vec<(String, SocketAddr)> {
        let of_kind = self.0.iter().filter(|member| member.kind == kind);
        of_kind.map(|member| (member.name.clone(), member.address)).collect()
    }

    pub(super) async fn ready(&self) -> anyhow::Result<()> {
        for member in &self.0 {
            ensure!(
                ready(member.address, READY_LIMIT).await,
                "{} is not ready after {READY_LIMIT:?}",
                member.name
            );
        }
        Ok(())
    }

    pub(super) fn exited(&mut self) -> Vec<String> {
        let gone = self.0.iter_mut().filter_map(|member| {
            let status = member.process.exited()?;
            Some(format!("{}: {status}", member.name))
        });
        gone.collect()
    }

    /// Stops all daemons and keeps their output; returns those that failed to stop cleanly.
    pub(super) async fn end(mut self, logs: &Path) -> anyhow::Result<Vec<String>> {
        fs::create_dir_all(logs)?;
        for member in &mut self.0 {
            if member.process.exited().is_none() {
                member.process.term();
            }
        }
        let mut bad = Vec::new();
        for member in &mut self.0 {
            let ending = async {
                loop {
                    if let Some(status) = member.process.exited() {
                        break status.code();
                    }
                    tokio::time::sleep(LOOK).await;
                }
            };
            let end = tokio::time::timeout(END_LIMIT, ending).await;
            if !matches!(end, Ok(Some(0))) {
                bad.push(format!("{}: {end:?}", member.name));
            }
            fs::write(logs.join(format!("{}.log", member.name)), member.process.stderr())?;
        }
        Ok(bad)
    }
}
