//! Why a daemon cannot use its database role, and the fix.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// It was dropped, or the database was restored without it. Rights and policies do not survive
    /// without the role. Reverting migrations fails: their statements name the role.
    #[error(
        "the database server has no role {0}, which isolates tenants; as an administrator of the server, run: CREATE ROLE {0} NOLOGIN; \
         then restore the database from a dump, because the rights of the role are lost"
    )]
    Missing(String),
    #[error(
        "{login:?} is not a member of the role {role}, which it must use; as an administrator of the database, run: \
         GRANT {role} TO \"{login}\""
    )]
    NotAMember { login: String, role: String },
    /// Row-level security does not apply to it.
    #[error(
        "the role {0} bypasses row-level security, which isolates tenants; as an administrator of the database, run: \
         ALTER ROLE {0} NOSUPERUSER NOBYPASSRLS"
    )]
    Bypasses(String),
    #[error(
        "the role {role} may become {others}, for which tenants are not isolated; as an administrator of the database, run: \
         REVOKE {others} FROM {role}"
    )]
    MayBecome { role: String, others: String },
    /// An owner of tables could disable their row-level security.
    #[error(
        "the role {role} owns {tables}, and could disable their row-level security; as an administrator of the database, run: \
         ALTER TABLE … OWNER TO the owner of the other tables"
    )]
    Owns { role: String, tables: String },
    #[error(
        "row-level security, which isolates tenants, is off for {0}; as their owner, run: \
         ALTER TABLE … ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    )]
    Off(String),
    #[error(
        "{login:?} may not act as {owner:?}, the owner of the tables, but a scheduler creates and drops partitions; sign in as \
         {owner:?}, or run: GRANT \"{owner}\" TO \"{login}\""
    )]
    NotTheOwner { login: String, owner: String },
    #[error(
        "{login:?} is not a member of the role {role}, so it sees the rows of no tenant; as an administrator of the database, run: \
         GRANT {role} TO \"{login}\""
    )]
    SeesNothing { login: String, role: String },
}
