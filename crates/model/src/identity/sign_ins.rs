//! Sign-in with a password: rate limits, account lookup, and the effects of a successful sign-in.
//!
//! Each attempt is counted before the password is checked ([`admit`]), for the account and for the
//! client address; success takes the count back ([`reset_failures`]). So concurrent attempts all count,
//! across processes, and an attempt whose process dies counts as failed. Everything runs in
//! database functions: no tenant is known yet, and the API can list neither accounts nor failures.
//! Passwords are verified elsewhere.

use diesel::sql_types::{Bool, Bytea, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};
use sched_domain::identity::Role;
use sched_domain::ids::{TenantId, UserId};

/// Keys for counting attempts: accounts that do not exist count like existing ones. Only hashes are
/// stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subjects {
    /// E-mail address of the claimed account. Spellings that find the same account count as one.
    pub account: String,
    /// Hash of the client's network address.
    pub address: [u8; 32],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInDecision {
    Now {
        /// Failed attempts of the account, this one included.
        failures: i32,
    },
    /// The attempt comes too early and is not counted; the account may try again after this time.
    After { seconds: u32 },
}

statement! {
    Admit<'a> = "sign_ins/sign_ins_admit.sql", (account: &'a str as Text, address: &'a [u8] as Bytea) -> (Integer, Integer)
}

/// Counts an attempt, unless too many have failed. Call it in a transaction that commits before the
/// password is checked.
pub async fn admit(conn: &mut Conn, subjects: &Subjects) -> DbResult<SignInDecision> {
    let admit = Admit { account: &subjects.account, address: &subjects.address };
    let (wait, failures): (i32, i32) = admit.get_result(conn).await?;
    Ok(match u32::try_from(wait) {
        Ok(seconds) if seconds > 0 => SignInDecision::After { seconds },
        Ok(_) | Err(_) => SignInDecision::Now { failures },
    })
}

statement! {
    Forgive<'a> = "sign_ins/sign_ins_forgive.sql", (account: &'a str as Text, address: &'a [u8] as Bytea) -> ()
}

/// Removes a successful attempt and the account's earlier ones from the count.
pub async fn reset_failures(conn: &mut Conn, subjects: &Subjects) -> DbResult<()> {
    Forgive { account: &subjects.account, address: &subjects.address }.execute(conn).await?;
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub user: UserId,
    pub email: String,
    pub password_hash: Option<String>,
    pub is_active: bool,
    pub is_system_operator: bool,
    pub memberships: Vec<AccountMembership>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountMembership {
    pub tenant: TenantId,
    pub slug: String,
    pub role: Role,
}

statement! {
    Find<'a> = "sign_ins/sign_ins_find.sql", (email: &'a str as Text) -> (
        SqlUuid, Text, Nullable<Text>, Bool, Bool, Nullable<SqlUuid>, Nullable<Text>, Nullable<Text>,
    )
}

type AccountRow =
    (UserId, String, Option<String>, bool, bool, Option<TenantId>, Option<String>, Option<Role>);

pub async fn find(conn: &mut Conn, email: &str) -> DbResult<Option<Account>> {
    let rows: Vec<AccountRow> = Find { email }.load(conn).await?;
    let mut account = None;
    for (user, email, password_hash, is_active, is_system_operator, tenant, slug, role) in rows {
        let account = account.get_or_insert(Account {
            user,
            email,
            password_hash,
            is_active,
            is_system_operator,
            memberships: Vec::new(),
        });
        if let (Some(tenant), Some(slug), Some(role)) = (tenant, slug, role) {
            account.memberships.push(AccountMembership { tenant, slug, role });
        }
    }
    Ok(account)
}

statement! {
    Note<'a> = "sign_ins/sign_ins_note.sql", (user: UserId as SqlUuid, verified: &'a str as Text) -> Bool
}

/// Records a sign-in, deletes some expired sessions, and returns whether the user may sign in.
///
/// The user may if active and `verified`, the hash that matched the password, is still stored. Call
/// it in the transaction that creates the session.
pub async fn record_sign_in(conn: &mut Conn, user: UserId, verified: &str) -> DbResult<bool> {
    Ok(Note { user, verified }.get_result(conn).await?)
}

statement! {
    ChangePassword<'a> = "sign_ins/sign_ins_change_password.sql", (
        user: UserId as SqlUuid,
        verified: &'a str as Text,
        hash: &'a str as Text,
    ) -> Bool
}

/// Sets a new password and ends all sessions of the user, in every tenant. Returns whether it did.
///
/// It does if `verified`, the hash that matched the old password, is still stored, and the user is
/// an active member of the transaction's tenant.
pub async fn change_password(conn: &mut Conn, user: UserId, verified: &str, hash: &str) -> DbResult<bool> {
    Ok(ChangePassword { user, verified, hash }.get_result(conn).await?)
}
