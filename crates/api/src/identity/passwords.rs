//! Checks the password of a sign-in: counts attempts, delays them after many failures, and takes as
//! long for an unknown or a deactivated account.
//!
//! The database counts an attempt before the check, and a right password takes the count back. So
//! all API processes count together, and a process that dies has counted a failure. A wrong
//! password reveals nothing of the account: neither its existence nor whether it may sign in.

use std::net::IpAddr;

use sched_model::Conn;
use sched_model::domain::identity::{NOBODYS_HASH, fingerprint, verify_password};
use sched_model::domain::ids::TenantId;
use sched_model::identity::audit::{self, AuditEntry};
use sched_model::identity::sign_ins::{self, Account, SignInDecision, Subjects};
use secrecy::SecretString;
use serde_json::json;

use super::before_tenant::{BeforeTenant, TenantOfCaller};
use super::rate::address_of;
use crate::error::ApiError;
use crate::routes::compute;
use crate::state::ApiState;

/// After this many failures of an account, each further attempt waits for a pause.
const FEW: i32 = 5;

#[derive(Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) email: &'a str,
    pub(crate) password: SecretString,
    pub(crate) address: Option<IpAddr>,
}

impl Claim<'_> {
    fn subjects(&self) -> Subjects {
        let address = address_of(self.address);
        Subjects { account: self.email.to_owned(), address: fingerprint(&format!("address {address}")) }
    }
}

#[derive(Debug)]
pub(crate) enum PasswordCheck {
    /// The password is right, and the account is active.
    Right {
        account: Account,
        /// The stored hash that was verified; it may have changed since.
        verified: String,
        /// The counters to reset with [`reset_failures`].
        subjects: Subjects,
    },
    /// The password is wrong, the account does not exist, or it is deactivated. Clients must not see
    /// the difference.
    Wrong {
        /// `None` if the account does not exist.
        account: Option<Account>,
        /// Consecutive failed attempts of the account.
        failures: i32,
    },
}

pub(crate) async fn verify(state: &ApiState, claim: Claim<'_>) -> Result<PasswordCheck, ApiError> {
    if !state.is_open() {
        return Err(ApiError::Starting);
    }
    let (subjects, email) = (claim.subjects(), claim.email);
    // Before the attempt is counted: an attempt that ends here costs its account nothing, and few
    // attempts reach the database at once.
    let turn = state.hashing_turn().await?;
    let begun =
        state.count(&BeforeTenant(()), "admit_sign_in", async |conn: &mut Conn| {
            match sign_ins::admit(conn, &subjects).await? {
                SignInDecision::Now { failures } => Ok((failures, sign_ins::find(conn, email).await?)),
                SignInDecision::After { seconds } => Err(ApiError::TooManySignIns { after_seconds: seconds }),
            }
        });
    let (failures, account) = begun.await?;
    let kept = account.as_ref().and_then(|account| account.password_hash.clone());
    let (hash, password) = (kept.clone().unwrap_or_else(|| NOBODYS_HASH.to_owned()), claim.password);
    let fits = compute(move || verify_password(&password, &hash)).await?;
    drop(turn);
    match (fits, account, kept) {
        (Ok(true), Some(account), Some(verified)) if account.is_active => {
            Ok(PasswordCheck::Right { account, verified, subjects })
        }
        (Err(error), Some(account), _) => {
            tracing::error!(user.id = %account.user, error = %error, "password could not be verified");
            Ok(PasswordCheck::Wrong { account: Some(account), failures })
        }
        (_, account, _) => Ok(PasswordCheck::Wrong { account, failures }),
    }
}

pub(crate) async fn reset_failures(state: &ApiState, subjects: &Subjects) -> Result<(), ApiError> {
    state
        .count(&BeforeTenant(()), "forgive_sign_in", async |conn: &mut Conn| {
            Ok(sign_ins::reset_failures(conn, subjects).await?)
        })
        .await
}

#[derive(Debug)]
pub(crate) struct FailedSignIn {
    pub(crate) account: Account,
    /// Consecutive failures of the account, including this one; `None` when the password was right.
    pub(crate) failures: Option<i32>,
    pub(crate) address: Option<IpAddr>,
    /// Id of the request.
    pub(crate) request: String,
}

/// Writes an audit event for a sign-in without a session. Of failed attempts it writes the first
/// one and each one that a pause follows.
///
/// The request does not wait: the response time would reveal whether the account exists. A process
/// that dies now has not written it.
pub(crate) async fn record_failed_sign_in(state: &ApiState, tenants: &[TenantId], attempt: &FailedSignIn) {
    if attempt.failures.is_some_and(|failures| (2..FEW).contains(&failures)) {
        return;
    }
    for tenant in tenants {
        let entry = AuditEntry {
            tenant_id: Some(*tenant),
            actor: "nobody".to_owned(),
            action: if attempt.failures.is_some() { "sign_in_failed" } else { "sign_in_refused" },
            target_type: "user",
            target_id: attempt.account.user.to_string(),
            before: None,
            after: Some(
                json!({"email": attempt.account.email, "address": attempt.address, "failures": attempt.failures}),
            ),
            request_id: Some(attempt.request.clone()),
            address: attempt.address.map(|address| address.to_string()),
        };
        let recorded =
            state.record(TenantOfCaller(*tenant), "record_failed_sign_in", async |conn: &mut Conn| {
                audit::write(conn, std::slice::from_ref(&entry)).await
            });
        if let Err(error) = recorded.await {
            tracing::warn!(error = error.with_causes(), "could not record a failed sign-in");
        }
    }
}
