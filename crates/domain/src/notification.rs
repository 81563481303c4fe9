//! Notifications: the events, the settings of channels and rules, and the throttling of messages.
//!
//! The database finds the rules that match a batch of events; this module decides which matches
//! become messages. Instants are those of the events, so the messages do not depend on the time of
//! processing. Pure.

mod published;

pub use published::published;
pub use sched_vocabulary::notification::{ChannelKind, DeliveryStatus, MessageKind, Occasion};
use std::collections::HashMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::FieldError;
use super::function::handler_config::HttpConfig;
use super::ids::TenantId;
use chrono::{DateTime, TimeDelta, Utc};

pub const MOST_ADDRESSES: usize = 20;
/// In bytes (RFC 5321).
const LONGEST_ADDRESS: usize = 254;
/// In octets, before the `@` and between two points behind it (RFC 5321, RFC 1035).
const LONGEST_LOCAL_PART: usize = 64;
const LONGEST_LABEL: usize = 63;
/// In seconds: a week.
pub const LONGEST_INTERVAL: i32 = 604_800;

#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub kind: ChannelKind,
    pub url: Option<&'a str>,
    /// The key of signatures, or the URL of a chat.
    pub secret: Option<&'a str>,
    pub addresses: &'a [String],
}

impl Target<'_> {
    #[must_use]
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let (has_url, has_secret) = (self.url.is_some(), self.secret.is_some());
        match self.kind {
            ChannelKind::Webhook => match self.url {
                None => found.push(("url", "must be given for a webhook".to_owned())),
                Some(url) => found.extend(url_mistake(url).map(|mistake| ("url", mistake))),
            },
            ChannelKind::Chat => {
                if has_url {
                    let hint = "is not allowed for a chat, because its URL is a credential; store it as a secret and name that in `secret`";
                    found.push(("url", hint.to_owned()));
                }
                if !has_secret {
                    found.push(("secret", "must name the secret that is the URL of the chat".to_owned()));
                }
            }
            ChannelKind::Email => {
                for (field, is_there) in [("url", has_url), ("secret", has_secret)] {
                    if is_there {
                        found.push((field, "is not for e-mail".to_owned()));
                    }
                }
                found.extend(addresses_mistake(self.addresses).map(|mistake| ("addresses", mistake)));
            }
        }
        if self.kind != ChannelKind::Email && !self.addresses.is_empty() {
            found.push(("addresses", "are for e-mail only".to_owned()));
        }
        found
    }
}

/// The URL is literal; no placeholder is filled in.
#[must_use]
pub fn url_mistake(url: &str) -> Option<String> {
    if url.contains("{{") {
        return Some("must not contain {{: nothing is filled in".to_owned());
    }
    let parsed = HttpConfig::parse(json!({"url": url}));
    parsed.err().map(|errors| {
        errors.into_iter().map(|FieldError { message, .. }| message).collect::<Vec<_>>().join("; ")
    })
}

fn addresses_mistake(addresses: &[String]) -> Option<String> {
    if addresses.is_empty() || addresses.len() > MOST_ADDRESSES {
        return Some(format!("must be 1 to {MOST_ADDRESSES} addresses"));
    }
    let wrong = addresses.iter().find(|address| !is_address(address))?;
    Some(format!("{wrong:?} is not a plain e-mail address, such as ops@example.com"))
}

/// A plain address, as in a header and in SMTP. The mailbox need not exist.
fn is_address(address: &str) -> bool {
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let is_label = |label: &str| {
        (1..=LONGEST_LABEL).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    address.len() <= LONGEST_ADDRESS
        && (1..=LONGEST_LOCAL_PART).contains(&local.len())
        && local.chars().all(is_atom)
        && local.split('.').all(|part| !part.is_empty())
        && domain.split('.').all(is_label)
}

/// The URL of a run below the public URL of the API.
#[must_use]
pub fn run_url(public_url: &str, run: &str) -> String {
    format!("{public_url}/api/v1/runs/{run}")
}

/// In characters; the body has all of it.
const LONGEST_ERROR: usize = 300;

/// A subject line and a text, which may be empty.
#[must_use]
pub fn text(kind: MessageKind, body: &Value) -> (String, String) {
    let field = |name: &str| body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let number = |name: &str| body.get(name).and_then(Value::as_i64).filter(|number| *number > 0);
    let tenant = field("tenant").unwrap_or("?");
    if kind == MessageKind::Test {
        let channel = field("channel").unwrap_or("?");
        return (format!("Test of the channel {channel} of {tenant}"), "It works.".to_owned());
    }
    let what = match kind {
        MessageKind::Failure | MessageKind::Test => "failed",
        MessageKind::DeadLetter => "failed permanently and is a dead letter",
        MessageKind::Missed => "was missed",
        MessageKind::Recovery => "works again",
    };
    let mut subject = format!("Job {} {what}", field("job").unwrap_or("?"));
    if let Some(fires) = number("missed_fires").filter(|fires| *fires > 1) {
        subject.push_str(&format!(" {fires} times"));
    }
    let place = field("project").map_or_else(|| tenant.to_owned(), |project| format!("{tenant}, {project}"));
    subject.push_str(&format!(" ({place})"));
    let mut lines = Vec::new();
    if let Some(error) = field("error").filter(|_| kind != MessageKind::Recovery) {
        let cut: String = error.chars().take(LONGEST_ERROR).collect();
        lines.push(if cut.len() < error.len() { format!("{cut}…") } else { cut });
    }
    if let Some(tail) = field("output_tail") {
        lines.push(format!("Last output:\n{tail}"));
    }
    lines.extend(field("fire_time").map(|at| format!("Due: {at}")));
    lines.extend(field("last_fire_time").map(|at| format!("Last of them: {at}")));
    lines.extend(number("attempt").map(|attempt| format!("Attempt: {attempt}")));
    lines.extend(field("run_id").map(|id| format!("Run: {}", field("url").unwrap_or(id))));
    lines.extend(
        number("held_back")
            .map(|more| format!("Suppressed since the last message: {more} more of this kind")),
    );
    (subject, lines.join("\n"))
}

/// Repetitions with the same key are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HoldKey {
    pub tenant: TenantId,
    pub rule: Uuid,
    pub job: Uuid,
    pub kind: MessageKind,
}

/// A match of a rule with an event.
#[derive(Debug, Clone, Copy)]
pub struct RuleMatch {
    pub key: HoldKey,
    /// Time of the event.
    pub at: DateTime<Utc>,
    /// Shortest time between two messages of the rule; zero for no throttling.
    pub min_interval_seconds: i32,
    /// The stored state of the key before this batch of events.
    pub stored: Option<Hold>,
}

/// The last message, and the number of events throttled since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Time of the event in the last message.
    pub sent_at: DateTime<Utc>,
    pub held_back: i32,
}

/// Decides, in order, which events are sent at once and which are only counted.
#[derive(Debug, Default)]
pub struct Holding {
    holds: HashMap<HoldKey, Hold>,
    changed: Vec<HoldKey>,
}

impl Holding {
    /// Returns the number of throttled events before it if the event is sent, and `None` if it is
    /// only counted.
    pub fn admit(&mut self, matching: RuleMatch) -> Option<i32> {
        let RuleMatch { key, at, min_interval_seconds, stored } = matching;
        if min_interval_seconds <= 0 {
            return Some(0);
        }
        let interval = TimeDelta::seconds(min_interval_seconds.into());
        let known = self.holds.get(&key).copied().or(stored);
        if !self.holds.contains_key(&key) {
            self.changed.push(key);
        }
        match known {
            Some(hold) if at < hold.sent_at + interval => {
                let held_back = hold.held_back.saturating_add(1);
                self.holds.insert(key, Hold { held_back, ..hold });
                None
            }
            hold => {
                self.holds.insert(key, Hold { sent_at: at, held_back: 0 });
                Some(hold.map_or(0, |hold| hold.held_back))
            }
        }
    }

    #[must_use]
    pub fn changed(&self) -> Vec<(HoldKey, Hold)> {
        self.changed.iter().filter_map(|key| Some((*key, *self.holds.get(key)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(
        kind: ChannelKind,
        url: Option<&str>,
        secret: Option<&str>,
        addresses: &[&str],
    ) -> Vec<&'static str> {
        let addresses: Vec<String> = addresses.iter().map(|&address| address.to_owned()).collect();
        let target = Target { kind, url, secret, addresses: &addresses };
        target.mistakes().into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn channel_accepts_only_the_fields_of_its_kind() {
        use ChannelKind::{Chat, Email, Webhook};
        let url = Some("https://example.com/hooks?x=1");
        assert_eq!(fields(Webhook, url, Some("key"), &[]), [""; 0]);
        assert_eq!(fields(Webhook, url, None, &[]), [""; 0]);
        assert_eq!(fields(Webhook, None, None, &[]), ["url"]);
        for bad in [
            "ftp://example.com/",
            "https://user:word@example.com/",
            "https://example.com/#x",
            "nothing",
            "https://example.com/{{args.x}}",
        ] {
            assert_eq!(fields(Webhook, Some(bad), None, &[]), ["url"], "{bad}");
        }
        assert_eq!(fields(Webhook, url, None, &["a@example.com"]), ["addresses"]);
        assert_eq!(fields(Chat, None, Some("chat-url"), &[]), [""; 0]);
        assert_eq!(fields(Chat, url, None, &[]), ["url", "secret"]);
        assert_eq!(fields(Email, None, None, &["a@example.com", "b.c+d@x-y.example"]), [""; 0]);
        assert_eq!(fields(Email, url, Some("x"), &["a@example.com"]), ["url", "secret"]);
        assert_eq!(fields(Email, None, None, &[]), ["addresses"]);
        assert_eq!(fields(Email, None, None, &["a@example.com"; MOST_ADDRESSES + 1]), ["addresses"]);
        let long = ["a".repeat(65) + "@b", "a@".to_owned() + &"b".repeat(64)];
        for bad in long.iter().map(String::as_str).chain([
            "a",
            "@b",
            "a@",
            "a b@c",
            "a@b\r\nBcc: c@d",
            "<a@b>",
            "a@-b",
            "a..b@c",
            "a@b..c",
            "ä@b",
        ]) {
            assert_eq!(fields(Email, None, None, &[bad]), ["addresses"], "{bad}");
        }
    }

    #[test]
    fn message_names_event_job_and_suppressed_count() {
        let body = json!({
            "tenant": "acme", "project": "billing", "job": "nightly", "error": "exit code 3", "attempt": 2, "held_back": 4,
            "fire_time": "2026-11-22T01:00:00.000000Z", "run_id": "0190",
        });
        let (subject, text) = text(MessageKind::Failure, &body);
        assert_eq!(subject, "Job nightly failed (acme, billing)");
        assert_eq!(
            text,
            "exit code 3\nDue: 2026-11-22T01:00:00.000000Z\nAttempt: 2\nRun: 0190\nSuppressed since the last message: 4 more of this kind"
        );
        let more = json!({
            "tenant": "acme", "job": "nightly", "error": "exit code 1", "output_tail": "FATAL: no database\nbye", "run_id": "0190",
            "url": run_url("https://sched.example.com", "0190"),
        });
        assert_eq!(
            super::text(MessageKind::DeadLetter, &more).1,
            "exit code 1\nLast output:\nFATAL: no database\nbye\nRun: https://sched.example.com/api/v1/runs/0190"
        );
        let missed = json!({"tenant": "acme", "job": "nightly", "missed_fires": 3, "held_back": 0});
        assert_eq!(
            super::text(MessageKind::Missed, &missed),
            ("Job nightly was missed 3 times (acme)".to_owned(), String::new())
        );
        let long = json!({"tenant": "acme", "job": "nightly", "error": "ä".repeat(LONGEST_ERROR + 1)});
        assert_eq!(super::text(MessageKind::DeadLetter, &long).1.chars().count(), LONGEST_ERROR + 1);
    }

    #[test]
    fn suppressed_events_are_counted_in_the_next_message() {
        let key = |job| HoldKey {
            tenant: TenantId(Uuid::nil()),
            rule: Uuid::from_u128(1),
            job: Uuid::from_u128(job),
            kind: MessageKind::Failure,
        };
        let at = |seconds: i64| DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap();
        let mut holding = Holding::default();
        let matching = |job, seconds| RuleMatch {
            key: key(job),
            at: at(seconds),
            min_interval_seconds: 60,
            stored: None,
        };
        let mut admit = |job, seconds| holding.admit(matching(job, seconds));
        assert_eq!(admit(1, 0), Some(0));
        assert_eq!(admit(1, 1), None);
        assert_eq!(admit(2, 2), Some(0), "another job is no repetition");
        assert_eq!(admit(1, 59), None);
        assert_eq!(admit(1, 60), Some(2));
        assert_eq!(admit(1, 61), None);
        let stored = holding.changed();
        assert_eq!(stored[0], (key(1), Hold { sent_at: at(60), held_back: 1 }));
        assert_eq!(stored[1], (key(2), Hold { sent_at: at(2), held_back: 0 }));

        // Without an interval nothing is stored.
        let mut later = Holding::default();
        assert_eq!(later.admit(RuleMatch { stored: Some(stored[0].1), ..matching(1, 120) }), Some(1));
        assert_eq!(later.admit(RuleMatch { min_interval_seconds: 0, ..matching(3, 120) }), Some(0));
        assert_eq!(later.changed().len(), 1);
    }
}
