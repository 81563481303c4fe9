//! Whether somebody knows the password of a user: counted, held back when too many have not, and as slow for who does not exist.
//!
//! The attempt is counted in the database before the password is looked at, and taken back once it was right, so that all processes of the
//! API count together and a process that dies has counted a failure. Whoever is not told that the password is right learns nothing of the
//! account: not whether there is one, nor whether it may sign in.

use std::net::IpAddr;

use sched_model::Conn;
use sched_model::domain::identity::{NOBODYS_HASH, fingerprint, verify_password};
use sched_model::domain::ids::TenantId;
use sched_model::identity::audit::{self, AuditEntry};
use sched_model::identity::sign_ins::{self, Account, Admitted, Subjects};
use secrecy::SecretString;
use serde_json::json;

use super::{Recognising, address_of};
use crate::error::ApiError;
use crate::routes::compute;
use crate::state::ApiState;

/// Failures of an account from which on there is a pause before each further one, which bounds how many there are.
const FEW: i32 = 5;

/// What somebody claims.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    /// To be the user with this address.
    pub(crate) email: &'a str,
    /// Because they know this.
    pub(crate) password: SecretString,
    /// And they come from here.
    pub(crate) address: Option<IpAddr>,
}

impl Claim<'_> {
    fn subjects(&self) -> Subjects {
        let address = address_of(self.address);
        Subjects { account: self.email.to_owned(), address: fingerprint(&format!("address {address}")) }
    }
}

/// What a claim was worth.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The password is that of the account. Not yet whether it may sign in.
    Right {
        /// The account.
        account: Account,
        /// What is kept of the password.
        verified: String,
        /// What is to be taken back with [`forgive`].
        subjects: Subjects,
    },
    /// It is not, or there is no such account, which nobody is to be told.
    Wrong {
        /// The account, if there is one.
        account: Option<Account>,
        /// How many attempts for the account have failed in a row.
        failures: i32,
    },
}

/// Looks whether a password is right.
///
/// # Errors
/// Too many were wrong, or the database cannot be asked.
pub(crate) async fn verify(state: &ApiState, claim: Claim<'_>) -> Result<Verdict, ApiError> {
    if !state.is_open() {
        return Err(ApiError::Starting);
    }
    let (subjects, email) = (claim.subjects(), claim.email);
    // Before the attempt is counted: one that is given up here costs its account nothing, and few at once ask the database.
    let turn = state.hashing_turn().await?;
    let begun =
        state.count(&Recognising(()), "admit_sign_in", async |conn: &mut Conn| {
            match sign_ins::admit(conn, &subjects).await? {
                Admitted::Now { failures } => Ok((failures, sign_ins::find(conn, email).await?)),
                Admitted::After { seconds } => Err(ApiError::TooManySignIns { after_seconds: seconds }),
            }
        });
    let (failures, account) = begun.await?;
    let kept = account.as_ref().and_then(|account| account.password_hash.clone());
    let (hash, password) = (kept.clone().unwrap_or_else(|| NOBODYS_HASH.to_owned()), claim.password);
    let fits = compute(move || verify_password(&password, &hash)).await?;
    drop(turn);
    match (fits, account, kept) {
        (Ok(true), Some(account), Some(verified)) => Ok(Verdict::Right { account, verified, subjects }),
        (Err(error), Some(account), _) => {
            tracing::error!(user.id = %account.user, error = %error, "A password cannot be verified.");
            Ok(Verdict::Wrong { account: Some(account), failures })
        }
        (_, account, _) => Ok(Verdict::Wrong { account, failures }),
    }
}

/// Takes back what an attempt was counted as.
///
/// # Errors
/// The database cannot be asked.
pub(crate) async fn forgive(state: &ApiState, subjects: &Subjects) -> Result<(), ApiError> {
    state
        .count(&Recognising(()), "forgive_sign_in", async |conn: &mut Conn| {
            Ok(sign_ins::forgive(conn, subjects).await?)
        })
        .await
}

/// An attempt that led to no session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vain {
    /// How many of the account have failed in a row, this one included; `None` when the password was right.
    pub(crate) failures: Option<i32>,
    /// Where it came from.
    pub(crate) address: Option<IpAddr>,
}

/// Puts an attempt that led to no session into the audit log of tenants; of failed ones the first, and each that a pause follows. Nobody waits
/// for it, since how long an answer takes would tell whether there is such an account; a process that dies at once has not written it.
pub(crate) async fn note_vain(
    state: &ApiState,
    tenants: &[TenantId],
    account: &Account,
    attempt: Vain,
    request: &str,
) {
    if attempt.failures.is_some_and(|failures| (2..FEW).contains(&failures)) {
        return;
    }
    for tenant in tenants {
        let entry = AuditEntry {
            tenant_id: Some(*tenant),
            actor: "nobody".to_owned(),
            action: if attempt.failures.is_some() { "sign_in_failed" } else { "sign_in_refused" },
            target_type: "user",
            target_id: account.user.to_string(),
            before: None,
            after: Some(
                json!({"email": account.email, "address": attempt.address, "failures": attempt.failures}),
            ),
            request_id: Some(request.to_owned()),
            address: attempt.address.map(|address| address.to_string()),
        };
        let noted = state.note(&Recognising(()), *tenant, "note_vain_sign_in", async |conn: &mut Conn| {
            audit::write(conn, std::slice::from_ref(&entry)).await
        });
        if let Err(error) = noted.await {
            tracing::warn!(
                error = error.with_causes(),
                "An attempt to sign in that was in vain could not be noted."
            );
        }
    }
}
