//! Routes of sessions, API keys, tenants, users and memberships.

use sched_model::domain::identity::Permission as P;
use sched_wire as wire;
use sched_wire::{Page, PageQuery};

use crate::http::route::{Needs, Path, at};
use crate::openapi::operation;
use crate::routes::access::{api_keys, me, memberships, sessions, tenants, users};

pub(super) fn identity() -> Vec<Path> {
    vec![
        at("/me").get(Needs::Identity, me::get, operation("Show who asks and what they may").ok::<wire::Me>()),
        at("/me/password").put(
            Needs::Identity,
            me::change_password,
            operation("Change one's own password, which ends one's sessions; of the session that asks, a new one is answered")
                .takes::<wire::PasswordChange>()
                .ok::<wire::OwnSession>()
                .no_content(),
        ),
        at("/sessions")
            .get(
                Needs::Identity,
                sessions::list,
                operation("List where one is signed in, in this tenant, newest first").ok::<Page<wire::Session>>(),
            )
            .post(
                Needs::Nothing,
                sessions::create,
                operation("Sign in with a password; the session is in the cookie that is answered")
                    .takes::<wire::SignIn>()
                    .created::<wire::OwnSession>(),
            ),
        at("/sessions/current")
            .get(
                Needs::Identity,
                sessions::current,
                operation("Show the session whose cookie is sent").ok::<wire::OwnSession>().may_be_missing(),
            )
            .delete(Needs::Identity, sessions::sign_out, operation("Sign out").no_content()),
        at("/sessions/{id}").delete(
            Needs::Identity,
            sessions::delete,
            operation("End a session of one's own").no_content(),
        ),
        at("/api-keys")
            .get(
                Needs::Identity,
                api_keys::list,
                operation("List API keys: with keys:read all of the tenant, otherwise one's own").query::<PageQuery>().ok::<Page<wire::ApiKey>>(),
            )
            .post(
                Needs::Identity,
                api_keys::create,
                operation("Make an API key; its text is shown this once. One of the tenant takes keys:write, one's own nothing")
                    .takes::<wire::ApiKeySpec>()
                    .created::<wire::NewApiKey>(),
            ),
        at("/api-keys/{key}")
            .get(
                Needs::Identity,
                api_keys::get,
                operation("Show an API key, by its id or prefix: with keys:read any of the tenant, otherwise one's own").ok::<wire::ApiKey>(),
            )
            .patch(
                Needs::Identity,
                api_keys::patch,
                operation("Rename an API key, or have it do less or end sooner: with keys:write any of the tenant, otherwise one's own")
                    .takes::<wire::ApiKeyPatch>()
                    .ok::<wire::ApiKey>(),
            )
            .delete(
                Needs::Identity,
                api_keys::revoke,
                operation("Revoke an API key: with keys:write any of the tenant, otherwise one's own").no_content(),
            ),
        at("/tenants")
            .get(
                P::SystemOperate,
                tenants::list,
                operation("List tenants").query::<PageQuery>().ok::<Page<wire::Tenant>>(),
            )
            .post(
                P::SystemOperate,
                tenants::create,
                operation("Make a tenant").takes::<wire::TenantSpec>().created::<wire::Tenant>(),
            ),
        at("/users")
            .get(
                P::SystemOperate,
                users::list,
                operation("List users").query::<PageQuery>().ok::<Page<wire::User>>(),
            )
            .post(
                P::SystemOperate,
                users::create,
                operation("Make a user").takes::<wire::UserSpec>().created::<wire::User>(),
            ),
        at("/users/{email}/activate").post(
            P::SystemOperate,
            users::activate,
            operation("Let a user in again").ok::<wire::User>(),
        ),
        at("/users/{email}/deactivate").post(
            P::SystemOperate,
            users::deactivate,
            operation("Refuse a user and all their keys").ok::<wire::User>(),
        ),
        at("/memberships").get(
            P::MembersRead,
            memberships::list,
            operation("List the members of the tenant").query::<PageQuery>().ok::<Page<wire::Membership>>(),
        ),
        at("/memberships/{email}")
            .get(
                P::MembersRead,
                memberships::get,
                operation("Show a member of the tenant").ok::<wire::Membership>(),
            )
            .put(
                P::MembersWrite,
                memberships::put,
                operation("Make a user a member, or change their role")
                    .takes::<wire::MembershipSpec>()
                    .if_match()
                    .put::<wire::Membership>(),
            )
            .delete(
                P::MembersWrite,
                memberships::delete,
                operation("End a membership, and revoke its keys").if_match().no_content(),
            ),
    ]
}
