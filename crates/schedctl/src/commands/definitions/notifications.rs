//! `notifications`: channels, rules and deliveries. `set` replaces the whole channel or rule.

mod testing;

use clap::{Args, Subcommand};
use sched_runtime::exit;
use sched_wire::{
    ChannelKind, DeliveryStatus, NotificationChannel, NotificationChannelSpec, NotificationDeliveriesQuery,
    NotificationDelivery, NotificationRule, NotificationRuleSpec, Occasion, PageQuery, UnknownWord,
};

use crate::commands::runs::WaitArgs;
use crate::commands::{Session, print_more};
use crate::failure::CommandResult;
use crate::output::{Column, or_dash, print_notice, time, yes_or_no};
use crate::values::at_least_one;

#[derive(Debug, Subcommand)]
pub(crate) enum NotificationsCommand {
    /// List, show, set and delete channels: destinations of notifications
    #[command(subcommand)]
    Channels(ChannelsCommand),
    /// List, show, set and delete rules: which notifications go to which channel
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Send a test message to a channel; `notifications deliveries` shows the result
    ///
    /// With --wait the exit code is 0 once the message was sent, and 1 if it failed permanently.
    Test {
        /// Name of the channel
        channel: String,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// List notifications with their delivery status, newest first
    Deliveries(DeliveriesArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChannelsCommand {
    /// List channels by name
    List {
        /// Maximum number of channels to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one channel
    #[command(visible_alias = "show")]
    Get {
        /// Name of the channel
        name: String,
    },
    /// Create or replace a channel
    Set(ChannelArgs),
    /// Delete a channel; fails while a rule uses it
    Delete {
        /// Name of the channel
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ChannelArgs {
    /// Name of the channel
    name: String,
    /// Transport: webhook, chat or email
    #[arg(long, value_name = "KIND", value_parser = channel_kind)]
    kind: ChannelKind,
    /// URL of a webhook
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Secret with the signing key of webhooks (`whsec_…`) or the URL of a chat
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,
    /// E-mail address; may be repeated
    #[arg(long = "address", value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Disable the channel for all rules
    #[arg(long)]
    inactive: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List rules by name
    List {
        /// Maximum number of rules to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one rule
    #[command(visible_alias = "show")]
    Get {
        /// Name of the rule
        name: String,
    },
    /// Create or replace a rule
    Set(RuleArgs),
    /// Delete a rule; notifications that it has already queued are still sent
    Delete {
        /// Name of the rule
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// Name of the rule
    name: String,
    /// Channel of the rule
    #[arg(long, value_name = "NAME")]
    channel: String,
    /// Occasions, separated by commas: failure, `dead_letter`, missed, recovery
    #[arg(long, value_name = "WHAT", required = true, value_delimiter = ',', value_parser = occasion)]
    on: Vec<Occasion>,
    /// Only jobs of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only this job
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Minimum interval between two messages of one kind about one job; occasions in between are
    /// counted in the next message
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    min_interval: i32,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Disable the rule
    #[arg(long)]
    inactive: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeliveriesArgs {
    /// Only deliveries with this status: waiting, sending, sent or failed
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<DeliveryStatus>,
    /// Only deliveries to this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Only deliveries of this rule
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Maximum number of deliveries to list
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one)]
    limit: usize,
}

const CHANNELS: &[Column<NotificationChannel>] = &[
    Column::new("NAME", |channel| channel.name.clone()),
    Column::new("KIND", |channel| channel.kind.to_string()),
    Column::new("TARGET", target),
    Column::new("ACTIVE", |channel| yes_or_no(channel.is_active)),
    Column::new("UPDATED", |channel| time(channel.updated_at)),
    Column::wide("DESCRIPTION", |channel| channel.description.clone()),
    Column::wide("ID", |channel| channel.id.to_string()),
];

const CHANNEL: &[Column<NotificationChannel>] = &[
    Column::new("Name", |channel| channel.name.clone()),
    Column::new("Description", |channel| channel.description.clone()),
    Column::new("Kind", |channel| channel.kind.to_string()),
    Column::new("Target", target),
    Column::new("Secret", |channel| or_dash(channel.secret.as_deref())),
    Column::new("Active", |channel| yes_or_no(channel.is_active)),
    Column::new("Version", |channel| channel.version.to_string()),
    Column::new("Created", |channel| format!("{} by {}", time(channel.created_at), channel.created_by)),
    Column::new("Updated", |channel| format!("{} by {}", time(channel.updated_at), channel.updated_by)),
    Column::new("Id", |channel| channel.id.to_string()),
];

const RULES: &[Column<NotificationRule>] = &[
    Column::new("NAME", |rule| rule.name.clone()),
    Column::new("CHANNEL", |rule| rule.channel.clone()),
    Column::new("ON", |rule| list_occasions(&rule.on)),
    Column::new("PROJECT", |rule| or_dash(rule.project.as_deref())),
    Column::new("JOB", |rule| or_dash(rule.job.as_deref())),
    Column::new("MIN INTERVAL", |rule| format!("{}s", rule.min_interval_seconds)),
    Column::new("ACTIVE", |rule| yes_or_no(rule.is_active)),
    Column::wide("DESCRIPTION", |rule| rule.description.clone()),
    Column::wide("ID", |rule| rule.id.to_string()),
];

const RULE: &[Column<NotificationRule>] = &[
    Column::new("Name", |rule| rule.name.clone()),
    Column::new("Description", |rule| rule.description.clone()),
    Column::new("Channel", |rule| rule.channel.clone()),
    Column::new("On", |rule| list_occasions(&rule.on)),
    Column::new("Project", |rule| or_dash(rule.project.as_deref())),
    Column::new("Job", |rule| or_dash(rule.job.as_deref())),
    Column::new("Min interval", |rule| format!("{}s", rule.min_interval_seconds)),
    Column::new("Active", |rule| yes_or_no(rule.is_active)),
    Column::new("Version", |rule| rule.version.to_string()),
    Column::new("Created", |rule| format!("{} by {}", time(rule.created_at), rule.created_by)),
    Column::new("Updated", |rule| format!("{} by {}", time(rule.updated_at), rule.updated_by)),
    Column::new("Id", |rule| rule.id.to_string()),
];

const DELIVERIES: &[Column<NotificationDelivery>] = &[
    Column::new("AT", |delivery| time(delivery.created_at)),
    Column::new("KIND", |delivery| delivery.kind.to_string()),
    Column::new("JOB", |delivery| or_dash(delivery.body.get("job").and_then(|job| job.as_str()))),
    Column::new("CHANNEL", |delivery| delivery.channel.clone()),
    Column::new("RULE", |delivery| or_dash(delivery.rule.as_deref())),
    Column::new("STATUS", |delivery| delivery.status.to_string()),
    Column::new("ATTEMPTS", |delivery| delivery.attempts.to_string()),
    Column::new("ERROR", |delivery| or_dash(delivery.error.as_deref())),
    Column::wide("HELD BACK", |delivery| delivery.held_back.to_string()),
    Column::wide("RUN", |delivery| or_dash(delivery.run_id)),
    Column::wide("ID", |delivery| delivery.id.to_string()),
];

pub(crate) async fn run(command: NotificationsCommand, session: &Session) -> CommandResult {
    match command {
        NotificationsCommand::Channels(command) => channels(command, session).await,
        NotificationsCommand::Rules(command) => rules(command, session).await,
        NotificationsCommand::Test { channel, wait } => testing::run(&channel, &wait, session).await,
        NotificationsCommand::Deliveries(args) => {
            let DeliveriesArgs { status, channel, rule, limit } = args;
            let query = |limit, cursor| NotificationDeliveriesQuery {
                status,
                channel: channel.clone(),
                rule: rule.clone(),
                limit: Some(limit),
                cursor,
            };
            let deliveries = session.api()?.list(&["notification-deliveries"], limit, query).await?;
            session.output.page(&deliveries, DELIVERIES, "there are no notifications")?;
            print_more(&deliveries, limit);
            Ok(exit::OK)
        }
    }
}

async fn channels(command: ChannelsCommand, session: &Session) -> CommandResult {
    let api = session.api()?;
    match command {
        ChannelsCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let channels = api.list(&["notification-channels"], limit, query).await?;
            session.output.page(&channels, CHANNELS, "there are no notification channels")?;
            print_more(&channels, limit);
        }
        ChannelsCommand::Get { name } => {
            let channel: NotificationChannel = api.get(&["notification-channels", &name], &()).await?;
            session.output.record(&channel, CHANNEL)?;
        }
        ChannelsCommand::Set(args) => {
            let spec = NotificationChannelSpec {
                name: args.name,
                description: args.description,
                kind: args.kind,
                url: args.url,
                secret: args.secret,
                addresses: args.addresses,
                is_active: !args.inactive,
            };
            let channel: NotificationChannel =
                api.put(&["notification-channels", &spec.name], &(), &spec).await?;
            session.output.row(&channel, CHANNELS)?;
        }
        ChannelsCommand::Delete { name } => {
            api.delete(&["notification-channels", &name], &()).await?;
            print_notice(&format!("deleted notification channel {name}"));
        }
    }
    Ok(exit::OK)
}

async fn rules(command: RulesCommand, session: &Session) -> CommandResult {
    let api = session.api()?;
    match command {
        RulesCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let rules = api.list(&["notification-rules"], limit, query).await?;
            session.output.page(&rules, RULES, "there are no notification rules")?;
            print_more(&rules, limit);
        }
        RulesCommand::Get { name } => {
            let rule: NotificationRule = api.get(&["notification-rules", &name], &()).await?;
            session.output.record(&rule, RULE)?;
        }
        RulesCommand::Set(args) => {
            let spec = NotificationRuleSpec {
                name: args.name,
                description: args.description,
                channel: args.channel,
                on: args.on,
                project: args.project,
                job: args.job,
                min_interval_seconds: args.min_interval,
                is_active: !args.inactive,
            };
            let rule: NotificationRule = api.put(&["notification-rules", &spec.name], &(), &spec).await?;
            session.output.row(&rule, RULES)?;
        }
        RulesCommand::Delete { name } => {
            api.delete(&["notification-rules", &name], &()).await?;
            print_notice(&format!("deleted notification rule {name}"));
        }
    }
    Ok(exit::OK)
}

fn target(channel: &NotificationChannel) -> String {
    match channel.kind {
        ChannelKind::Webhook => or_dash(channel.url.as_deref()),
        ChannelKind::Chat => {
            channel.secret.as_ref().map_or_else(String::new, |name| format!("secret {name}"))
        }
        ChannelKind::Email => channel.addresses.join(", "),
    }
}

fn list_occasions(on: &[Occasion]) -> String {
    on.iter().map(|occasion| occasion.as_str()).collect::<Vec<_>>().join(", ")
}

fn channel_kind(word: &str) -> Result<ChannelKind, UnknownWord> {
    word.parse()
}

fn occasion(word: &str) -> Result<Occasion, UnknownWord> {
    word.parse()
}

fn status(word: &str) -> Result<DeliveryStatus, UnknownWord> {
    word.parse()
}
