//! `notifications test`: sends a test message, and waits for its delivery on request.

use std::time::Duration;

use anyhow::anyhow;
use sched_runtime::exit::{self, ExitError};
use sched_wire::{DeliveryStatus, NotificationDelivery};
use serde_json::json;

use super::DELIVERIES;
use crate::api::{Api, ApiError};
use crate::commands::Session;
use crate::commands::runs::WaitArgs;
use crate::failure::{CommandResult, too_late};
use crate::output::{neutral, or_dash, print_notice};

const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) async fn run(channel: &str, wait: &WaitArgs, session: &Session) -> CommandResult {
    let api = session.api()?;
    let path = ["notification-channels", channel, "test"];
    let sent: NotificationDelivery = api.post(&path, None, &json!({})).await?;
    if !wait.wait {
        session.output.row(&sent, DELIVERIES)?;
        return Ok(exit::OK);
    }
    let delivery = await_delivery(&api, &sent, wait.wait_timeout).await?;
    session.output.row(&delivery, DELIVERIES)?;
    Ok(if delivery.status == DeliveryStatus::Sent { exit::OK } else { exit::FAILURE })
}

/// Reports each failed attempt, because the retries take hours.
async fn await_delivery(
    api: &Api,
    sent: &NotificationDelivery,
    limit: Duration,
) -> Result<NotificationDelivery, ExitError> {
    let id = sent.id.to_string();
    let wait = async {
        let mut reported = 0;
        loop {
            let delivery: NotificationDelivery = api.get(&["notification-deliveries", &id], &()).await?;
            if matches!(delivery.status, DeliveryStatus::Sent | DeliveryStatus::Failed) {
                return Ok::<_, ApiError>(delivery);
            }
            if delivery.attempts > reported && delivery.error.is_some() {
                reported = delivery.attempts;
                let error = or_dash(delivery.error.as_deref());
                print_notice(&format!("attempt {reported} failed and is retried: {}", neutral::line(&error)));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(limit, wait).await {
        Ok(done) => Ok(done?),
        Err(_elapsed) => Err(too_late(anyhow!(
            "message {id} was not sent within {}; it is retried, see `schedctl notifications deliveries`",
            humantime::format_duration(limit)
        ))),
    }
}
