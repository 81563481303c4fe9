//! Sends e-mail through the mail server of the worker's settings.
//!
//! Each address gets a separate SMTP session: one wrong address must not block the others.

use std::fmt;
use std::time::Duration;

use lettre::address::{AddressError, Envelope};
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::AsyncSmtpTransport;
use lettre::{Address, AsyncTransport as _, Message, Tokio1Executor};
use sched_runtime::exit::describe;
use secrecy::{ExposeSecret as _, SecretString};

use super::delivery_failure::Failure;

/// Time limit of each step of the SMTP session.
const PATIENCE: Duration = Duration::from_secs(15);

/// Classes of a server that rejects one address, not all.
pub(super) const OF_ONE_ADDRESS: [&str; 2] = [REJECTED, DEFERRED];
const REJECTED: &str = "mail_rejected";
const DEFERRED: &str = "mail_deferred";

/// A mail server with the sender of messages.
#[derive(Clone)]
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl fmt::Debug for Mailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The transport contains a password.
        f.debug_struct("Mailer").field("from", &self.from).finish_non_exhaustive()
    }
}

/// Unusable settings of e-mail. The error omits the URL, which contains a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMailer {
    #[error("must be smtps://user:password@host:465, smtp://host:587?tls=required or smtp://host:25")]
    Url,
    #[error("must be an e-mail address, such as sched@example.com or Sched <sched@example.com>")]
    From,
}

#[derive(Debug)]
pub(super) struct Mail<'a> {
    /// The same for every attempt.
    pub(super) id: String,
    /// Visible to each recipient.
    pub(super) to: &'a [String],
    pub(super) subject: String,
    pub(super) text: String,
}

impl Mailer {
    /// A mailer for the server at `url` with the sender `from`.
    ///
    /// # Errors
    /// One of the arguments is not valid.
    pub fn new(url: &SecretString, from: &str) -> Result<Self, InvalidMailer> {
        let from = from.parse().map_err(|_error| InvalidMailer::From)?;
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.expose_secret())
            .map_err(|_error| InvalidMailer::Url)?
            .timeout(Some(PATIENCE))
            .build();
        Ok(Self { transport, from })
    }

    pub(super) async fn send(&self, mail: &Mail<'_>, to: &str) -> Result<(), Failure> {
        let message = self.message(mail)?;
        let to: Address = to.parse().map_err(|error: AddressError| unfit(&error))?;
        let envelope =
            Envelope::new(Some(self.from.email.clone()), vec![to]).map_err(|error| unfit(&error))?;
        match self.transport.send_raw(&envelope, &message.formatted()).await {
            Ok(_taken) => Ok(()),
            Err(error) if is_of_all(&error) => Err(Failure::new("mail_failed", describe(&error))),
            Err(error) if error.is_permanent() => Err(Failure::new(REJECTED, describe(&error)).for_good()),
            // Possibly for this address only.
            Err(error) if error.is_transient() => Err(Failure::new(DEFERRED, describe(&error))),
            Err(error) => Err(Failure::new("mail_failed", describe(&error))),
        }
    }

    fn message(&self, mail: &Mail<'_>) -> Result<Message, Failure> {
        let mut message: MessageBuilder = Message::builder().from(self.from.clone());
        for address in mail.to {
            let address: Mailbox = address.parse().map_err(|error: AddressError| unfit(&error))?;
            message = message.to(address);
        }
        let id = format!("<{}@{}>", mail.id, self.from.email.domain());
        message
            .subject(mail.subject.clone())
            .message_id(Some(id))
            .header(ContentType::TEXT_PLAIN)
            .body(mail.text.clone())
            .map_err(|error| unfit(&error))
    }
}

fn unfit(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new("mail_not_made", describe(error)).for_good()
}

/// Whether the server rejects all messages of this worker: it shuts down (RFC 5321), or
/// authentication fails (RFC 4954). The operator must fix this, not the tenant.
fn is_of_all(error: &lettre::transport::smtp::Error) -> bool {
    let of_all = ["421", "454", "530", "534", "535", "538"];
    error.status().is_some_and(|code| of_all.contains(&code.to_string().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_mail_settings_are_rejected_without_repeating_them() {
        let made = |url: &str, from: &str| Mailer::new(&url.into(), from).map(drop);
        assert_eq!(made("smtp://localhost:2525", "sched@example.com"), Ok(()));
        assert_eq!(made("smtps://u:secret@mail.example.com", "Sched <sched@example.com>"), Ok(()));
        assert_eq!(made("smtp://mail.example.com:587?tls=required", "sched@example.com"), Ok(()));
        assert_eq!(made("https://example.com", "sched@example.com"), Err(InvalidMailer::Url));
        assert_eq!(made("smtp://localhost:2525", "nobody"), Err(InvalidMailer::From));
        let mailer = Mailer::new(&"smtps://u:secret@mail.example.com".into(), "sched@example.com").unwrap();
        assert!(!format!("{mailer:?}").contains("secret"));
    }

    #[test]
    fn job_name_cannot_add_mail_headers() {
        let mailer = Mailer::new(&"smtp://localhost".into(), "sched@example.com").unwrap();
        let mail = Mail {
            id: "7".to_owned(),
            to: &["ops@example.com".to_owned()],
            subject: "Job x\r\nBcc: all@example.com".to_owned(),
            text: "Grüße".to_owned(),
        };
        let text = String::from_utf8(mailer.message(&mail).unwrap().formatted()).unwrap();
        assert!(text.contains("Message-ID: <7@example.com>\r\n"), "{text}");
        assert!(!text.contains("\r\nBcc:"), "{text}");
    }
}
