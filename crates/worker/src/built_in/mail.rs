//! Sends e-mail through the mail server of the worker's settings. Pure but for [`Mailer::send`].
//!
//! One conversation for each address: a server that refuses one of several refuses the message, and one address that is wrong must not keep it from
//! the others. Notifications are few, and a kept connection would have to be watched over.

use std::fmt;
use std::time::Duration;

use lettre::address::{AddressError, Envelope};
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::AsyncSmtpTransport;
use lettre::{Address, AsyncTransport as _, Message, Tokio1Executor};
use sched_runtime::exit::describe;
use secrecy::{ExposeSecret as _, SecretString};

use super::notify::Failure;

/// How long the server may take for each step of the conversation.
const PATIENCE: Duration = Duration::from_secs(15);

/// Classes of errors with which a server refuses one address, and says nothing of others.
pub(super) const OF_ONE_ADDRESS: [&str; 2] = [REJECTED, DEFERRED];
const REJECTED: &str = "mail_rejected";
const DEFERRED: &str = "mail_deferred";

/// A mail server, and in whose name it is given messages.
#[derive(Clone)]
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl fmt::Debug for Mailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The transport knows a password.
        f.debug_struct("Mailer").field("from", &self.from).finish_non_exhaustive()
    }
}

/// Settings with which no e-mail can be sent. They are not repeated: the URL holds a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMailer {
    /// Of the server.
    #[error("must be smtps://user:password@host:465, smtp://host:587?tls=required or smtp://host:25")]
    Url,
    /// Of the sender.
    #[error("must be an e-mail address, such as sched@example.com or Sched <sched@example.com>")]
    From,
}

/// One message.
#[derive(Debug)]
pub(super) struct Mail<'a> {
    /// Stays the same when it is sent again.
    pub(super) id: String,
    /// All to whom it goes, as each of them sees it.
    pub(super) to: &'a [String],
    pub(super) subject: String,
    pub(super) text: String,
}

impl Mailer {
    /// By the server behind `url`, from `from`.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn new(url: &SecretString, from: &str) -> Result<Self, InvalidMailer> {
        let from = from.parse().map_err(|_error| InvalidMailer::From)?;
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.expose_secret())
            .map_err(|_error| InvalidMailer::Url)?
            .timeout(Some(PATIENCE))
            .build();
        Ok(Self { transport, from })
    }

    /// Hands a message to the server for one of its addresses.
    ///
    /// # Errors
    /// The server does not take it.
    pub(super) async fn send(&self, mail: &Mail<'_>, to: &str) -> Result<(), Failure> {
        let message = self.message(mail)?;
        let to: Address = to.parse().map_err(|error: AddressError| unfit(&error))?;
        let envelope =
            Envelope::new(Some(self.from.email.clone()), vec![to]).map_err(|error| unfit(&error))?;
        match self.transport.send_raw(&envelope, &message.formatted()).await {
            Ok(_taken) => Ok(()),
            Err(error) if is_of_all(&error) => Err(Failure::new("mail_failed", describe(&error))),
            Err(error) if error.is_permanent() => Err(Failure::new(REJECTED, describe(&error)).for_good()),
            // The server speaks to us and does not take it now, as it may do for one address and not for another.
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

/// Whether the server takes nothing from us, for whomever: it goes away (RFC 5321), or does not know who we are (RFC 4954), which the operator
/// mends and no tenant.
fn is_of_all(error: &lettre::transport::smtp::Error) -> bool {
    let of_all = ["421", "454", "530", "534", "535", "538"];
    error.status().is_some_and(|code| of_all.contains(&code.to_string().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_apart_and_never_repeated() {
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
    fn nothing_that_a_job_is_called_adds_a_header() {
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
