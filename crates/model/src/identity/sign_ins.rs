//! Signing in with a password: who is let try, whose password it is, and what follows from the right one.
//!
//! An attempt is counted before the password is looked at ([`admit`]), for the account and for the address it comes from, and taken back when it
//! was right ([`forgive`]); so many attempts at once count as many, in however many processes, and one that dies in between has failed.
//! All of it is behind doors: no tenant is known yet, and the API can neither list accounts nor failures. Passwords are verified elsewhere.

use diesel::sql_types::{Bool, Bytea, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};
use sched_domain::identity::Role;
use sched_domain::ids::{TenantId, UserId};

/// What attempts are counted by: accounts that do not exist count like others. Only hashes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subjects {
    /// The address of the account that somebody claims. Spellings that find the same account count as one.
    pub account: String,
    /// The network address that they come from, hashed.
    pub address: [u8; 32],
}

/// Whether an attempt may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    /// It may, and is counted.
    Now {
        /// How many of the account have failed, this one included.
        failures: i32,
    },
    /// It comes too early, and is not counted.
    After {
        /// How long it is to wait.
        seconds: u32,
    },
}

statement! {
    /// Raw because it is a door.
    Admit<'a> = "sign_ins/sign_ins_admit.sql", (account: &'a str as Text, address: &'a [u8] as Bytea) -> (Integer, Integer)
}

/// Counts an attempt, unless too many have failed. Call it in a transaction that is committed before the password is looked at.
pub async fn admit(conn: &mut Conn, subjects: &Subjects) -> DbResult<Admitted> {
    let admit = Admit { account: &subjects.account, address: &subjects.address };
    let (wait, failures): (i32, i32) = admit.get_result(conn).await?;
    Ok(match u32::try_from(wait) {
        Ok(seconds) if seconds > 0 => Admitted::After { seconds },
        Ok(_) | Err(_) => Admitted::Now { failures },
    })
}

statement! {
    /// Raw because it is a door.
    Forgive<'a> = "sign_ins/sign_ins_forgive.sql", (account: &'a str as Text, address: &'a [u8] as Bytea) -> ()
}

/// Takes an attempt back whose password was right, and with it the earlier ones of the account.
pub async fn forgive(conn: &mut Conn, subjects: &Subjects) -> DbResult<()> {
    Forgive { account: &subjects.account, address: &subjects.address }.execute(conn).await?;
    Ok(())
}

/// A user as who checks a password needs to know them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The user.
    pub user: UserId,
    /// Their address, as they wrote it first.
    pub email: String,
    /// What is kept of their password; `None` when they have none.
    pub password_hash: Option<String>,
    /// Whether they may sign in.
    pub is_active: bool,
    /// Whether they operate the installation.
    pub is_system_operator: bool,
    /// The tenants that they are in, by slug.
    pub memberships: Vec<AccountMembership>,
}

/// What a user is in a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountMembership {
    /// The tenant.
    pub tenant: TenantId,
    /// Its slug.
    pub slug: String,
    /// What they are there.
    pub role: Role,
}

statement! {
    /// Raw because it is a door.
    Find<'a> = "sign_ins/sign_ins_find.sql", (email: &'a str as Text) -> (
        SqlUuid, Text, Nullable<Text>, Bool, Bool, Nullable<SqlUuid>, Nullable<Text>, Nullable<Text>,
    )
}

type AccountRow =
    (UserId, String, Option<String>, bool, bool, Option<TenantId>, Option<String>, Option<Role>);

/// The user with this address, whatever its case.
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
    /// Raw because it is a door.
    Note<'a> = "sign_ins/sign_ins_note.sql", (user: UserId as SqlUuid, verified: &'a str as Text) -> Bool
}

/// Notes that a user signs in, and removes some sessions that are over. Returns whether they may.
///
/// They may if `verified`, the hash that fitted the password, is still theirs, and they are active. Call it in the transaction that begins
/// the session.
pub async fn note(conn: &mut Conn, user: UserId, verified: &str) -> DbResult<bool> {
    Ok(Note { user, verified }.get_result(conn).await?)
}

statement! {
    /// Raw because it is a door.
    ChangePassword<'a> = "sign_ins/sign_ins_change_password.sql", (
        user: UserId as SqlUuid,
        verified: &'a str as Text,
        hash: &'a str as Text,
    ) -> Bool
}

/// Gives a user another password and ends all their sessions, in whatever tenant. Returns whether that was done.
///
/// It is if `verified`, the hash that fitted the old password, is still theirs, and they are an active member of the tenant of the transaction.
pub async fn change_password(conn: &mut Conn, user: UserId, verified: &str, hash: &str) -> DbResult<bool> {
    Ok(ChangePassword { user, verified, hash }.get_result(conn).await?)
}
