//! `sched.notify`: sends one notification to its channel.
//!
//! The leader dispatches a run for each message and reads the result from the end of the run.
//! Webhooks and chats pass the address checks of `http` functions. A message may arrive twice, with
//! the same id. Errors never contain the URL of a chat, which is a secret. Error details of a
//! tenant are stored with the message only: members of another tenant can read the history of this
//! job.

use std::time::Duration;

use chrono::TimeDelta;
use sched_model::domain::ids::TenantId;
use sched_model::domain::notification::{ChannelKind, text, url_mistake};
use sched_model::events::notifications::channels::ChannelRecord;
use sched_model::events::notifications::deliveries::{self, DeliveryRecord};
use sched_model::{Conn, DbResult, definitions::secrets};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::System;
use super::delivery_failure::Failure;
use super::mail::{Mail, Mailer, OF_ONE_ADDRESS};
use crate::handlers::native::{Ctx, HandlerError};
use crate::handlers::{ErrorClass, Execution, Live, Outcome, Secrets};

/// Short, because messages to a hanging server occupy slots.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

const MAX_MESSAGE_CHARS: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    tenant: Uuid,
    delivery: Uuid,
}

#[derive(Debug, Serialize)]
pub(super) struct Sent {
    kind: ChannelKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

pub(super) async fn run(system: &System, ctx: &Ctx, args: Args) -> Result<Sent, HandlerError> {
    let tenant = TenantId(args.tenant);
    match send(system, ctx, tenant, args.delivery).await {
        Ok(sent) => Ok(sent),
        Err(failure) => {
            if let Err(error) = record_failure(system, tenant, args.delivery, &failure).await {
                tracing::debug!(
                    error = error.with_causes(),
                    "failed to record why a notification was not sent"
                );
            }
            Err(failure.shown())
        }
    }
}

async fn record_failure(system: &System, tenant: TenantId, id: Uuid, failure: &Failure) -> DbResult<()> {
    let mut conn = system.database.conn().await?;
    deliveries::note_failure(&mut conn, tenant, id, (failure.class, &failure.message)).await
}

async fn send(system: &System, ctx: &Ctx, tenant: TenantId, id: Uuid) -> Result<Sent, Failure> {
    let mut conn = system.database.conn().await?;
    let found = deliveries::to_send(&mut conn, tenant, id).await?;
    let (delivery, channel) = found.ok_or_else(|| {
        let text = "the message does not exist, or was removed because of its age";
        Failure::new("no_such_message", text).for_good().for_all()
    })?;
    let channel = channel.ok_or_else(|| {
        let text = format!("the channel {} was deleted", delivery.channel_name);
        Failure::new("channel_deleted", text).for_good()
    })?;
    let secret = match &channel.secret {
        Some(name) => Some((name.clone(), open(system, &mut conn, tenant, name).await?)),
        None => None,
    };
    // The receiver may be slow.
    drop(conn);
    let message = Message { system, ctx, tenant, delivery: &delivery };
    let kind = channel.kind;
    let status = match kind {
        ChannelKind::Webhook => {
            let (config, secrets) = webhook(&channel, secret);
            message.call(config, delivery.body.clone(), secrets).await?
        }
        ChannelKind::Chat => {
            let config = json!({"url": chat_url(&channel, secret)?, "method": "POST"});
            let (subject, below) = shown(&delivery);
            let text = if below.is_empty() { subject } else { format!("{subject}\n{below}") };
            message.call(config, json!({"text": text}), Secrets::default()).await?
        }
        ChannelKind::Email => {
            let mailer = system.settings.mail.as_ref().ok_or_else(|| {
                let text = "WORKER_SMTP_URL is not set on this worker";
                Failure::new("not_configured", text).for_good().for_all()
            })?;
            message.email(mailer, &channel.addresses).await?;
            None
        }
    };
    Ok(Sent { kind, status })
}

/// A message to send, and the attempt that sends it.
struct Message<'a> {
    system: &'a System,
    ctx: &'a Ctx,
    tenant: TenantId,
    delivery: &'a DeliveryRecord,
}

impl Message<'_> {
    /// Records each success, so that a retry skips the address.
    async fn email(&self, mailer: &Mailer, addresses: &[String]) -> Result<(), Failure> {
        let Self { system, ctx, tenant, delivery } = *self;
        let (subject, text) = shown(delivery);
        let mail = Mail { id: delivery.id.to_string(), to: addresses, subject, text };
        let mut refused: Vec<(&str, Failure)> = Vec::new();
        let mut left: Vec<&String> =
            addresses.iter().filter(|address| !delivery.reached.contains(address)).collect();
        // Each attempt starts with another address, so that one at which the server hangs does not
        // block the others.
        let turn = usize::try_from(ctx.attempt()).unwrap_or(0).saturating_sub(1);
        let by = turn.checked_rem(left.len()).unwrap_or(0);
        left.rotate_left(by);
        for address in left {
            let sent = tokio::select! {
                sent = mailer.send(&mail, address) => sent,
                () = ctx.cancelled() => Err(Failure::new("cancelled", "stopped while it was sent").for_all()),
            };
            match sent {
                Ok(()) => {
                    let mut conn = system.database.conn().await?;
                    deliveries::note_reached(&mut conn, tenant, delivery.id, address).await?;
                }
                Err(failure) if OF_ONE_ADDRESS.contains(&failure.class) => refused.push((address, failure)),
                // The other addresses would fail in the same way.
                Err(failure) => return Err(failure),
            }
        }
        refusal(refused, addresses.len())
    }

    /// Like an `http` function. Returns the status.
    async fn call(&self, mut config: Value, body: Value, secrets: Secrets) -> Result<Option<Value>, Failure> {
        let Self { system, ctx, tenant, delivery } = *self;
        if let Some(fields) = config.as_object_mut() {
            // The leader retries failures. A message released as untried would wait forever.
            fields.insert("circuit_breaker".to_owned(), json!({"failures": 0}));
            fields.insert("max_response_chars".to_owned(), json!(0));
        }
        let execution = Execution {
            // Receivers recognise a repeated message by this id.
            run_id: delivery.id,
            idempotency_key: delivery.id.to_string(),
            tenant_id: tenant.0,
            project_id: None,
            job_id: ctx.job_id(),
            attempt_id: ctx.attempt_id(),
            job_name: ctx.job_name().to_owned(),
            attempt: ctx.attempt(),
            fire_time: ctx.fire_time(),
            lateness_ms: TimeDelta::from_std(ctx.lateness()).map_or(0, |late| late.num_milliseconds()),
            catch_up: false,
            trigger: ctx.trigger(),
            details: None,
            args: body,
            timeout: REQUEST_TIMEOUT.min(ctx.remaining()),
            traceparent: ctx.traceparent().map(str::to_owned),
            handler_config: config,
            live: Live::detached(),
            secrets,
            upstream: None,
        };
        let report = system.http.run(&execution, &ctx.cancellation()).await;
        if report.outcome == Outcome::Succeeded {
            return Ok(report.result.and_then(|result| result.get("status").cloned()));
        }
        let class = report.error_class.unwrap_or(ErrorClass::HandlerError);
        let failure = Failure::new(class.as_str(), report.error_message.unwrap_or_default());
        // The worker would refuse the target again. The receiver may fix other failures.
        Err(if class == ErrorClass::TargetRefused { failure.for_good() } else { failure })
    }
}

/// The failure is permanent if it is permanent for each address.
fn refusal(refused: Vec<(&str, Failure)>, addresses: usize) -> Result<(), Failure> {
    let reasons: Vec<String> =
        refused.iter().map(|(address, failure)| format!("{address}: {}", failure.message)).collect();
    let message = format!("{} of {addresses} addresses: {}", refused.len(), reasons.join("; "));
    let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    let is_final = refused.iter().all(|(_, failure)| failure.is_final);
    // A temporary failure decides the class.
    let Some((_, worst)) = refused.into_iter().min_by_key(|(_, failure)| failure.is_final) else {
        return Ok(());
    };
    Err(Failure { message, is_final, ..worst })
}

fn shown(delivery: &DeliveryRecord) -> (String, String) {
    text(delivery.kind, &delivery.body)
}

async fn open(
    system: &System,
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
) -> Result<SecretString, Failure> {
    let keys = system.secret_keys.as_ref().ok_or_else(|| {
        let text = "the channel names a secret, but this worker has no SECRETS_KEY_FILE to decrypt it";
        Failure::new("secret_unreadable", text).for_all()
    })?;
    let sealed = secrets::of_tenant(conn, tenant, name).await?.ok_or_else(|| {
        let text = format!("the tenant has no secret {name:?}; set it with `schedctl secrets set {name}`");
        Failure::new("missing_secret", text)
    })?;
    let opened = sealed.open(keys).map_err(|error| {
        Failure::new("secret_unreadable", format!("secret {name:?} cannot be decrypted: {error}"))
    })?;
    Ok(opened.into_inner())
}

fn webhook(channel: &ChannelRecord, secret: Option<(String, SecretString)>) -> (Value, Secrets) {
    let mut config = json!({"url": channel.url, "method": "POST"});
    if let (Some((name, _)), Some(fields)) = (&secret, config.as_object_mut()) {
        fields.insert("sign".to_owned(), json!({"secrets": [{"secret": name}]}));
    }
    (config, secret.into_iter().collect())
}

/// The URL is a secret.
fn chat_url(channel: &ChannelRecord, secret: Option<(String, SecretString)>) -> Result<String, Failure> {
    let value = secret.map(|(_, value)| value.expose_secret().trim().to_owned());
    value.filter(|url| url_mistake(url).is_none()).ok_or_else(|| {
        let name = channel.secret.as_deref().unwrap_or_default();
        Failure::new("invalid_channel", format!("the secret {name:?} is not a callable URL"))
    })
}
