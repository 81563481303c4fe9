//! Routes of sessions, API keys, tenants, users and memberships.

use sched_model::domain::identity::Permission as P;
use sched_wire as wire;
use sched_wire::{Page, PageQuery};

use crate::http::route::{Needs, Path, at};
use crate::openapi::operation;
use crate::routes::access::{api_keys, me, memberships, sessions, tenants, users};

pub(super) fn identity() -> Vec<Path> {
    vec![
        at("/me").get(Needs::Identity, me::get, operation("Show the caller's identity and permissions").ok::<wire::Me>()),
        at("/me/password").put(
            Needs::Identity,
            me::change_password,
            operation("Change the caller's password; ends all sessions of the user and starts a new one for the caller")
                .accepts::<wire::PasswordChange>()
                .ok::<wire::OwnSession>()
                .no_content(),
        ),
        at("/sessions")
            .get(
                Needs::Identity,
                sessions::list,
                operation("List the caller's sessions in this tenant, newest first").ok::<Page<wire::Session>>(),
            )
            .post(
                Needs::Nothing,
                sessions::create,
                operation("Sign in with a password; the answer sets the session cookie")
                    .accepts::<wire::SignIn>()
                    .created::<wire::OwnSession>(),
            ),
        at("/sessions/current")
            .get(
                Needs::Identity,
                sessions::current,
                operation("Show the session of the request's cookie").ok::<wire::OwnSession>().may_be_missing(),
            )
            .delete(Needs::Identity, sessions::sign_out, operation("Sign out").no_content()),
        at("/sessions/{id}").delete(
            Needs::Identity,
            sessions::delete,
            operation("End a session of the caller").no_content(),
        ),
        at("/api-keys")
            .get(
                Needs::Identity,
                api_keys::list,
                operation("List API keys: all of the tenant with keys:read, else those of the caller").query::<PageQuery>().ok::<Page<wire::ApiKey>>(),
            )
            .post(
                Needs::Identity,
                api_keys::create,
                operation("Create an API key; its secret is shown only once. A key of the tenant needs keys:write")
                    .accepts::<wire::ApiKeySpec>()
                    .created::<wire::NewApiKey>(),
            ),
        at("/api-keys/{key}")
            .get(
                Needs::Identity,
                api_keys::get,
                operation("Show an API key by id or prefix: any of the tenant with keys:read, else one of the caller").ok::<wire::ApiKey>(),
            )
            .patch(
                Needs::Identity,
                api_keys::patch,
                operation("Rename or restrict an API key: any of the tenant with keys:write, else one of the caller")
                    .accepts::<wire::ApiKeyPatch>()
                    .ok::<wire::ApiKey>(),
            )
            .delete(
                Needs::Identity,
                api_keys::revoke,
                operation("Revoke an API key: any of the tenant with keys:write, else one of the caller").no_content(),
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
                operation("Create a tenant").accepts::<wire::TenantSpec>().created::<wire::Tenant>(),
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
                operation("Create a user").accepts::<wire::UserSpec>().created::<wire::User>(),
            ),
        at("/users/{email}/activate").post(
            P::SystemOperate,
            users::activate,
            operation("Activate a user").ok::<wire::User>(),
        ),
        at("/users/{email}/deactivate").post(
            P::SystemOperate,
            users::deactivate,
            operation("Deactivate a user and all keys of the user").ok::<wire::User>(),
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
                operation("Create a membership, or change its role")
                    .accepts::<wire::MembershipSpec>()
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
