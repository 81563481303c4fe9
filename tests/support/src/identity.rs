//! The user and API key of all tests about other subjects, identical in every database.

use std::sync::LazyLock;

use sched_model::domain::identity::{ApiKey, ID_BYTES, SECRET_BYTES};
use tokio_postgres::Client;

/// The owner of the tenant `default` and operator of the installation.
pub const OWNER: &str = "owner@example.com";

static KEY: LazyLock<ApiKey> = LazyLock::new(|| ApiKey::new("live", [1; ID_BYTES], [2; SECRET_BYTES]));
static BEARER: LazyLock<String> = LazyLock::new(|| format!("Bearer {}", api_key()));

/// The key of [`OWNER`], valid after [`install`].
pub fn api_key() -> &'static str {
    use secrecy::ExposeSecret as _;
    KEY.text().expose_secret()
}

pub fn bearer() -> &'static str {
    &BEARER
}

pub fn actor() -> String {
    format!("{OWNER} via {}", KEY.prefix())
}

/// Creates a missing [`OWNER`] and key.
///
/// # Panics
///
/// If the database rejects them.
pub async fn install(client: &Client) {
    let user = "00000000-0000-0000-0000-000000010000";
    let rows = client
        .execute(
            "INSERT INTO users (id, email, display_name, is_system_operator) VALUES ($1::text::uuid, $2, 'Owner', true)
             ON CONFLICT DO NOTHING",
            &[&user, &OWNER],
        )
        .await
        .unwrap_or_else(|error| panic!("the user cannot be created: {error:?}"));
    if rows == 0 {
        return;
    }
    let hash = KEY.hash(None).hash;
    client
        .execute(
            "WITH member AS (
                 INSERT INTO memberships (tenant_id, user_id, role)
                 SELECT id, $1::text::uuid, 'owner' FROM tenants WHERE slug = 'default' RETURNING tenant_id)
             INSERT INTO api_keys (tenant_id, user_id, name, key_prefix, key_hash)
             SELECT tenant_id, $1::text::uuid, 'tests', $2, $3 FROM member",
            &[&user, &KEY.prefix(), &&hash[..]],
        )
        .await
        .unwrap_or_else(|error| panic!("the key cannot be created: {error:?}"));
}
