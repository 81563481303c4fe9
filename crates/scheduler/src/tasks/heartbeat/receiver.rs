use std::str::FromStr;
use std::time::Duration;

use sched_runtime::http_targets::{AllowList, CallError, TargetClient, TargetUrl};

/// Time limit of a call.
const WITHIN: Duration = Duration::from_secs(10);

/// How the receiver of heartbeats learns of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeartbeatStyle {
    /// `POST <url>/fail` with the reason.
    #[default]
    Healthchecks,
    /// `GET <url>?state=fail&message=<reason>`.
    Cronitor,
    /// It notices only that the calls stop.
    Plain,
}

impl FromStr for HeartbeatStyle {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "healthchecks" => Ok(Self::Healthchecks),
            "cronitor" => Ok(Self::Cronitor),
            "plain" => Ok(Self::Plain),
            _ => Err(()),
        }
    }
}

/// The service that expects the heartbeats.
#[derive(Debug, Clone)]
pub struct Receiver {
    client: TargetClient,
    url: TargetUrl,
    style: HeartbeatStyle,
}

impl Receiver {
    /// Does not connect. `allow` names targets besides the public Internet.
    ///
    /// # Errors
    /// TLS cannot be used.
    pub fn new(url: TargetUrl, style: HeartbeatStyle, allow: AllowList) -> Result<Self, CallError> {
        let client = TargetClient::new(&url, allow, WITHIN)?;
        Ok(Self { client, url, style })
    }

    pub(super) async fn beat(&self) -> Result<(), CallError> {
        self.client.call(&self.url, None).await
    }

    /// Reports a failure; returns whether the receiver takes failures.
    pub(super) async fn fail(&self, reason: &str) -> Result<bool, CallError> {
        match self.style {
            HeartbeatStyle::Healthchecks => {
                self.client.call(&self.url.below("fail"), Some(reason.to_owned())).await?;
            }
            HeartbeatStyle::Cronitor => {
                let url = self.url.with_parameters(&[("state", "fail"), ("message", reason)]);
                self.client.call(&url, None).await?;
            }
            HeartbeatStyle::Plain => return Ok(false),
        }
        Ok(true)
    }
}
