//! `users` and `memberships`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand};
use sched_model::domain::identity::{Role, check_display_name, check_email};
use sched_model::identity::tenants::DEFAULT_TENANT;
use sched_model::identity::users::{NewUser, UserRecord};
use sched_runtime::exit::{self, ExitError};
use sched_wire::{Membership, MembershipSpec, PageQuery, User, UserPatch, UserSpec};
use secrecy::ExposeSecret as _;

use super::super::{Session, print_more};
use super::password::{PasswordArgs, hash, read};
use super::{Direct, DirectArgs, direct};
use crate::failure::{CommandResult, usage};
use crate::output::{Column, or_dash, print_notice, time, yes_or_no};
use crate::values::at_least_one;

#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    /// Create a user: through the API for operators, or with --direct the first one
    Create(CreateArgs),
    /// Show one user
    #[command(visible_alias = "show")]
    Get {
        /// E-mail address of the user
        email: String,
    },
    /// List users of the installation
    List {
        /// Maximum number of users to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Change the display name of a user; the address stays
    Set {
        /// E-mail address of the user
        email: String,
        /// Display name
        #[arg(long, value_name = "TEXT")]
        name: String,
    },
    /// Set the password of a user, which ends the user's sessions: through the API for operators,
    /// or with --direct
    SetPassword(SetPasswordArgs),
    /// Activate a user: sign-ins and keys are valid again
    Activate {
        /// E-mail address of the user
        email: String,
    },
    /// Deactivate a user: every sign-in and key is rejected
    Deactivate {
        /// E-mail address of the user
        email: String,
    },
    /// Grant or revoke the operator right of a user; at least one active operator always remains
    SetOperator {
        /// E-mail address of the user
        email: String,
        /// yes or no
        #[arg(action = clap::ArgAction::Set, value_name = "YES|NO", value_parser = BoolishValueParser::new())]
        is_operator: bool,
    },
    /// Delete a user with all memberships and keys; `deactivate` can be undone
    Delete {
        /// E-mail address of the user
        email: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// E-mail address of the user
    email: String,
    /// Display name; default: the address
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Role in a tenant: viewer, operator, admin or owner; default: no membership
    #[arg(long, value_name = "ROLE")]
    role: Option<Role>,
    /// Tenant of --role, with --direct; the API uses the tenant of the caller
    #[arg(long, value_name = "SLUG", default_value = DEFAULT_TENANT, requires = "direct")]
    tenant: String,
    /// Let the user operate the installation: tenants, users, leadership, workers
    #[arg(long)]
    system_operator: bool,
    #[command(flatten)]
    password: PasswordArgs,
    #[command(flatten)]
    direct: DirectArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetPasswordArgs {
    /// E-mail address of the user
    email: String,
    /// File with the password, readable only by its owner; default: standard input, or a prompt
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    direct: DirectArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MembershipsCommand {
    /// List the members of the caller's tenant
    List {
        /// Maximum number of members to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Add a member, or change the role of one
    Set {
        /// E-mail address of the user
        email: String,
        /// viewer, operator, admin or owner
        role: Role,
    },
    /// Remove a member, and the user's keys in the tenant
    Remove {
        /// E-mail address of the user
        email: String,
    },
}

const USERS: &[Column<User>] = &[
    Column::new("EMAIL", |user| user.email.clone()),
    Column::new("NAME", |user| user.display_name.clone()),
    Column::new("ACTIVE", |user| yes_or_no(user.is_active)),
    Column::new("SYSTEM OPERATOR", |user| yes_or_no(user.is_system_operator)),
    Column::wide("LAST LOGIN", |user| or_dash(user.last_login_at.map(time).as_deref())),
    Column::wide("CREATED", |user| time(user.created_at)),
    Column::wide("ID", |user| user.id.to_string()),
];

const MEMBERS: &[Column<Membership>] = &[
    Column::new("EMAIL", |member| member.email.clone()),
    Column::new("NAME", |member| member.display_name.clone()),
    Column::new("ROLE", |member| member.role.clone()),
    Column::new("ACTIVE", |member| yes_or_no(member.is_active)),
    Column::new("SINCE", |member| time(member.since)),
];

pub(crate) async fn run(command: UsersCommand, session: &Session) -> CommandResult {
    match command {
        UsersCommand::Create(args) => create(args, session).await?,
        UsersCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let users = session.api()?.list(&["users"], limit, query).await?;
            session.output.page(&users, USERS, "there are no users")?;
            print_more(&users, limit);
        }
        UsersCommand::Get { email } => {
            let user: User = session.api()?.get(&["users", &email], &()).await?;
            session.output.whole(&user, USERS)?;
        }
        UsersCommand::Set { email, name } => {
            check_display_name(&name).map_err(|what| usage(anyhow!("the name {what}")))?;
            let patch = UserPatch { display_name: Some(name), ..UserPatch::default() };
            change(session, &email, &patch).await?;
        }
        UsersCommand::SetPassword(args) => set_password(args, session).await?,
        UsersCommand::Activate { email } => switch(session, &email, "activate").await?,
        UsersCommand::Deactivate { email } => switch(session, &email, "deactivate").await?,
        UsersCommand::SetOperator { email, is_operator } => {
            let patch = UserPatch { is_system_operator: Some(is_operator), ..UserPatch::default() };
            change(session, &email, &patch).await?;
        }
        UsersCommand::Delete { email } => {
            session.api()?.delete(&["users", &email], &()).await?;
            print_notice(&format!("deleted user {email}"));
        }
    }
    Ok(exit::OK)
}

async fn change(session: &Session, email: &str, patch: &UserPatch) -> Result<(), ExitError> {
    let user: User = session.api()?.patch(&["users", email], patch).await?;
    session.output.record(&user, USERS)
}

async fn switch(session: &Session, email: &str, action: &str) -> Result<(), ExitError> {
    let user: User = session.api()?.post(&["users", email, action], None, &serde_json::json!({})).await?;
    session.output.record(&user, USERS)
}

async fn create(args: CreateArgs, session: &Session) -> Result<(), ExitError> {
    let CreateArgs { email, name, role, tenant, system_operator, password, direct: args } = args;
    check_email(&email).map_err(|what| usage(anyhow!("the e-mail {what}")))?;
    let display_name = name.as_deref().unwrap_or(&email);
    check_display_name(display_name).map_err(|what| usage(anyhow!("the name {what}")))?;
    let password = password.read(&email).await?;
    let Some(Direct { mut conn, .. }) = args.connect(session).await? else {
        let spec = UserSpec {
            email: email.clone(),
            display_name: Some(display_name.to_owned()),
            password: password.map(|password| password.expose_secret().to_owned()),
            is_system_operator: system_operator,
        };
        let api = session.api()?;
        let made: User = api.post(&["users"], None, &spec).await?;
        if let Some(role) = role {
            let spec = MembershipSpec { role: role.to_string() };
            let _: Membership = api.put(&["memberships", &email], &(), &spec).await?;
        }
        return session.output.record(&made, USERS);
    };
    let password_hash = password.as_ref().map(hash).transpose()?;
    let membership = match role {
        Some(role) => Some((direct::tenant(&mut conn, &tenant).await?, role)),
        None => None,
    };
    let new = NewUser {
        email: &email,
        display_name,
        password_hash: password_hash.as_deref(),
        is_system_operator: system_operator,
    };
    let made = direct::create_user(&mut conn, new, membership).await?;
    session.output.record(&shown(made), USERS)
}

async fn set_password(args: SetPasswordArgs, session: &Session) -> Result<(), ExitError> {
    let SetPasswordArgs { email, password_file, direct: args } = args;
    let password = read(password_file.as_deref(), &email).await?;
    let user = match args.connect(session).await? {
        Some(Direct { mut conn, .. }) => {
            shown(direct::set_password(&mut conn, &email, &hash(&password)?).await?)
        }
        None => {
            let patch =
                UserPatch { password: Some(password.expose_secret().to_owned()), ..UserPatch::default() };
            session.api()?.patch(&["users", &email], &patch).await?
        }
    };
    session.output.record(&user, USERS)
}

fn shown(user: UserRecord) -> User {
    User {
        id: user.id.0,
        email: user.email,
        display_name: user.display_name,
        is_active: user.is_active,
        is_system_operator: user.is_system_operator,
        last_login_at: user.last_login_at,
        created_at: user.created_at,
    }
}

pub(crate) async fn run_memberships(command: MembershipsCommand, session: &Session) -> CommandResult {
    let api = session.api()?;
    match command {
        MembershipsCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let members = api.list(&["memberships"], limit, query).await?;
            session.output.page(&members, MEMBERS, "there are no members")?;
            print_more(&members, limit);
        }
        MembershipsCommand::Set { email, role } => {
            let spec = MembershipSpec { role: role.to_string() };
            let member: Membership = api.put(&["memberships", &email], &(), &spec).await?;
            session.output.record(&member, MEMBERS)?;
        }
        MembershipsCommand::Remove { email } => {
            api.delete(&["memberships", &email], &()).await?;
            print_notice("removed");
        }
    }
    Ok(exit::OK)
}
