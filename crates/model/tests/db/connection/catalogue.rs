//! Rules for every table, read from the catalogue: comments and tenants.

use test_support::TestDatabase;
use test_support::fixture::rows;

/// Tables without partitions, which equal their parents.
const TABLES: &str = "WITH tables AS (
    SELECT c.oid, n.nspname || '.' || c.relname AS name,
           EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)
               AS has_tenant
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('public', 'maintenance') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND c.relname <> '__diesel_schema_migrations')";

/// Primary keys that do not begin with the tenant, each with the reason.
const OTHER_KEYS: &[(&str, &str)] = &[
    (
        "public.audit_log",
        "also of the installation, where there is no tenant; read by tenant through its index",
    ),
    ("public.events", "one stream of the installation, read in order by its position"),
    (
        "public.job_dispatch",
        "the hot table: claims and completions know the id alone, and one index less is kept",
    ),
    ("public.job_ends", "a short-lived queue of the installation, read in order by its position"),
    ("public.run_end_batches", "a part of that stream"),
    ("public.run_start_batches", "a part of that stream"),
    ("public.skipped_fires", "written by the tick and read by job; nothing refers to its rows"),
];

async fn names(query: &str) -> Vec<String> {
    let db = TestDatabase::new().await;
    let found = rows(&db.client().await, &format!("{TABLES} {query}")).await;
    found.into_iter().map(|row| row.join(" ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_view_and_column_has_a_comment() {
    let columns = "SELECT t.name, a.attname, col_description(t.oid, a.attnum) IS NOT NULL
                   FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped";
    let relations = "SELECT name, '', obj_description(oid, 'pg_class') IS NOT NULL FROM tables
                     UNION ALL SELECT c.relname, '', obj_description(c.oid, 'pg_class') IS NOT NULL FROM pg_class c
                     WHERE c.relkind = 'v' AND c.relnamespace = 'public'::regnamespace";
    for (query, at_least) in [(columns, 200), (relations, 24)] {
        let all = names(query).await;
        assert!(all.len() >= at_least, "the catalogue shows {} only: {all:?}", all.len());
        let without: Vec<&String> = all.iter().filter(|row| !row.ends_with(" t")).collect();
        assert!(without.is_empty(), "without a comment: {without:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_tables_have_keys_that_begin_with_tenant() {
    let query = "SELECT t.name, k.attname FROM tables t
                 JOIN pg_constraint x ON x.conrelid = t.oid AND x.contype = 'p'
                 JOIN pg_attribute k ON k.attrelid = t.oid AND k.attnum = x.conkey[1]
                 WHERE t.has_tenant ORDER BY t.name";
    let all = names(query).await;
    assert!(all.len() > 10, "{all:?}");
    let counted = names("SELECT count(*) FROM tables WHERE has_tenant").await;
    assert_eq!(counted, [all.len().to_string()], "every one has a primary key");
    let others: Vec<&str> = all
        .iter()
        .filter_map(|row| row.split_once(' '))
        .filter(|(_, first)| *first != "tenant_id")
        .map(|(name, _)| name)
        .collect();
    assert_eq!(others, OTHER_KEYS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_keys_stay_within_one_tenant() {
    let query = "SELECT x.conname, EXISTS (
                     SELECT FROM unnest(x.conkey, x.confkey) AS u (here, there)
                     JOIN pg_attribute h ON h.attrelid = x.conrelid AND h.attnum = u.here
                     JOIN pg_attribute t ON t.attrelid = x.confrelid AND t.attnum = u.there
                     WHERE h.attname = 'tenant_id' AND t.attname = 'tenant_id')
                 FROM pg_constraint x
                 JOIN tables h ON h.oid = x.conrelid AND h.has_tenant
                 JOIN tables t ON t.oid = x.confrelid AND t.has_tenant
                 WHERE x.contype = 'f' AND x.conparentid = 0";
    let all = names(query).await;
    assert!(all.len() >= 7, "{all:?}");
    let crossing: Vec<&String> = all.iter().filter(|row| !row.ends_with(" t")).collect();
    assert!(crossing.is_empty(), "can point into another tenant: {crossing:?}");
}
