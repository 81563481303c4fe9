//! The setup before the faults: a key for each of two tenants, a queue with a low limit, the jobs,
//! the witness.
//!
//! Tenants, keys and the limit are written with plain SQL; jobs are created through the API.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, ensure};
use sched_model::domain::identity::{ApiKey, ID_BYTES, SECRET_BYTES};
use sched_runtime::monotonic_clock;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use test_support::{Client, http, identity};

use crate::jobs;

const THEIR_USER: &str = "00000000-0000-0000-0000-000000020000";

/// Returns the authorization header of a user of the other tenant.
pub(crate) async fn arrange(sql: &Client) -> anyhow::Result<String> {
    system_tests::install_witness(sql).await;
    identity::install(sql).await;
    let key = ApiKey::new("live", [3; ID_BYTES], [4; SECRET_BYTES]);
    let hash = key.hash(None).hash;
    sql.execute(
        "WITH tenant AS (INSERT INTO tenants (id, slug, name) VALUES (gen_random_uuid(), 'other', 'Other') RETURNING id),
              project AS (INSERT INTO projects (tenant_id, id, name, display_name) SELECT id, gen_random_uuid(), 'default', 'Default' FROM tenant),
              queue AS (INSERT INTO queues (tenant_id, name) SELECT id, 'default' FROM tenant),
              person AS (INSERT INTO users (id, email, display_name) VALUES ($1::text::uuid, 'they@example.com', 'They') RETURNING id),
              member AS (INSERT INTO memberships (tenant_id, user_id, role) SELECT tenant.id, person.id, 'owner' FROM tenant, person RETURNING tenant_id, user_id)
         INSERT INTO api_keys (tenant_id, user_id, name, key_prefix, key_hash) SELECT tenant_id, user_id, 'chaos', $2, $3 FROM member",
        &[&THEIR_USER, &key.prefix(), &&hash[..]],
    )
    .await
    .context("failed to create the other tenant")?;
    sql.batch_execute(
        "INSERT INTO queues (tenant_id, name, max_running, updated_at) SELECT id, 'narrow', 2, now() - interval '1 minute' FROM tenants WHERE slug = 'default';
         INSERT INTO queues (tenant_id, name) SELECT id, 'side' FROM tenants WHERE slug = 'default';
         INSERT INTO projects (tenant_id, id, name, display_name) SELECT id, gen_random_uuid(), 'side', 'Side' FROM tenants WHERE slug = 'default'",
    )
    .await
    .context("failed to create the queues and the project")?;
    Ok(format!("Bearer {}", key.text().expose_secret()))
}

pub(crate) async fn populate(
    api: SocketAddr,
    program: &Path,
    effects: &Path,
    their_bearer: &str,
) -> anyhow::Result<()> {
    apply(api, &jobs::manifest(program, effects, monotonic_clock::wall().into()), &[]).await?;
    apply(api, &jobs::theirs(program, effects), &[("authorization", their_bearer)]).await
}

async fn apply(api: SocketAddr, manifest: &Value, headers: &[(&str, &str)]) -> anyhow::Result<()> {
    let answer =
        http::request(api, http::Request::post("/api/v1/apply", manifest).with_headers(headers)).await?;
    ensure!(answer.status == 200, "the jobs are rejected: {}", answer.body);
    Ok(())
}
