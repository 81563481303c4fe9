//! `src/schema.rs` matches the migrations.
//!
//! The test generates the file from the catalogue of a freshly migrated database and compares it
//! with the compiled one. With `UPDATE_SCHEMA` in the environment (`scripts/check-schema --write`)
//! it writes the file instead.

#![expect(clippy::unwrap_used, reason = "a test that cannot get what it needs fails, and says where")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use test_support::TestDatabase;
use tokio_postgres::Client;

const HEAD: &str = r#"//! The tables, as the migrations create them. @generated
//!
//! `scripts/check-schema --write` writes this file from a freshly migrated database, and a test
//! (`tests/schema.rs`) compares both. Arrays never contain NULL, by constraints and statements.

#![expect(
    clippy::doc_markdown,
    reason = "these are the comments of the database, where back-quotes mean nothing"
)]
"#;

/// Tables that occur together in a query.
const JOINED: &[&str] = &[
    "api_keys",
    "dead_letters",
    "job_dependencies",
    "job_dispatch",
    "live_progress",
    "memberships",
    "projects",
    "queues",
    "scheduled_jobs",
    "task_functions",
    "tenants",
    "users",
];

/// The columns of this program's tables with the comments of both; partitions equal their parents.
/// `COLLATE "C"` sorts the same everywhere.
const COLUMNS: &str = r#"
    SELECT n.nspname::text, c.relname::text, coalesce(obj_description(c.oid, 'pg_class'), ''),
           a.attname::text, t.typname::text, a.attnotnull, coalesce(col_description(c.oid, a.attnum), ''),
           (SELECT string_agg(k.attname, ', ' ORDER BY u.position)
            FROM pg_constraint x, unnest(x.conkey) WITH ORDINALITY AS u (attnum, position)
            JOIN pg_attribute k ON k.attnum = u.attnum
            WHERE x.conrelid = c.oid AND x.contype = 'p' AND k.attrelid = c.oid)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE n.nspname IN ('public', 'maintenance') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND c.relname <> '__diesel_schema_migrations'
    ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C", a.attnum"#;

#[derive(Debug)]
struct Table {
    comment: String,
    primary_key: String,
    columns: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_file_matches_the_migrations() {
    let db = TestDatabase::new().await;
    let expected = file(&tables(&db.client().await).await);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema.rs");
    #[expect(clippy::disallowed_methods, reason = "a switch of this test, not a setting")]
    let update = std::env::var_os("UPDATE_SCHEMA").is_some();
    let found = std::fs::read_to_string(&path).unwrap();
    if found == expected {
        return;
    }
    if update {
        std::fs::write(&path, expected).unwrap();
        return;
    }
    let (number, (made, compiled)) = first_difference(&expected, &found);
    panic!(
        "src/schema.rs does not match the migrations; run `scripts/check-schema --write`\n\
         first difference in line {number}:\n  migrations: {made}\n  schema.rs:  {compiled}"
    );
}

/// Tables by schema (the main one last) and name.
async fn tables(client: &Client) -> BTreeMap<(String, String), Table> {
    let mut tables = BTreeMap::new();
    for row in client.query(COLUMNS, &[]).await.unwrap() {
        let text = |column: usize| row.get::<_, String>(column);
        let name = (text(0), text(1));
        assert!(!text(2).is_empty(), "table {name:?} has no comment");
        let table = tables.entry(name).or_insert_with(|| Table {
            comment: text(2),
            primary_key: text(7),
            columns: Vec::new(),
        });
        if let Some(of_type) = rust_type(&text(4), row.get(5)) {
            assert!(!text(6).is_empty(), "column {} has no comment", text(3));
            table.columns.push(format!("/// {}\n{} -> {of_type},", text(6), text(3)));
        } else {
            // The rest of the key is enough to distinguish rows.
            table.primary_key = table.primary_key.replace(&format!("{}, ", text(3)), "");
        }
    }
    assert!(tables.len() > 20, "the catalogue shows only {} tables", tables.len());
    tables
}

/// The Rust type of a column; `None` if no code reads it.
fn rust_type(name: &str, is_not_null: bool) -> Option<String> {
    let plain = match name {
        // The driver has no type for transaction ids.
        "xid8" => return None,
        "uuid" => "Uuid",
        "text" => "Text",
        "bool" => "Bool",
        "int2" => "Int2",
        "int4" => "Int4",
        "int8" => "Int8",
        "float4" => "Float4",
        "float8" => "Float8",
        "jsonb" => "Jsonb",
        "timestamptz" => "Timestamptz",
        "date" => "Date",
        "bytea" => "Bytea",
        "_int4" => "Array<Int4>",
        "_int8" => "Array<Int8>",
        "_timestamptz" => "Array<Timestamptz>",
        "_text" => "Array<Text>",
        "_uuid" => "Array<Uuid>",
        other => panic!("a column of type {other}: add its Rust type here"),
    };
    Some(if is_not_null { plain.to_owned() } else { format!("Nullable<{plain}>") })
}

/// The file, formatted as by rustfmt.
fn file(tables: &BTreeMap<(String, String), Table>) -> String {
    let of_schema = |wanted: &str| -> Vec<String> {
        tables
            .iter()
            .filter(|((schema, _), _)| schema == wanted)
            .map(|((schema, name), table)| block(schema, name, table))
            .collect()
    };
    let mut text = format!("{HEAD}\n{}", of_schema("public").join("\n"));
    text += "\n/// History of the jobs that back up and restore the main schema.\npub mod maintenance {\n";
    for line in of_schema("maintenance").join("\n").lines() {
        let indent = if line.is_empty() { "" } else { "    " };
        writeln!(text, "{indent}{line}").unwrap();
    }
    text += "}\n\ndiesel::allow_tables_to_appear_in_same_query!(\n    ";
    text += &JOINED.join(",\n    ");
    text += "\n);\n";
    text
}

fn block(schema: &str, name: &str, table: &Table) -> String {
    let qualified = if schema == "public" { name.to_owned() } else { format!("{schema}.{name}") };
    let Table { comment, primary_key, columns } = table;
    let columns = columns.join("\n").replace('\n', "\n        ");
    format!(
        "diesel::table! {{\n    /// {comment}\n    {qualified} ({primary_key}) {{\n        {columns}\n    }}\n}}\n"
    )
}

fn first_difference<'a>(expected: &'a str, found: &'a str) -> (usize, (&'a str, &'a str)) {
    let end = std::iter::once("(end of file)");
    let pairs = expected.lines().chain(end.clone()).zip(found.lines().chain(end));
    (1..).zip(pairs).find(|(_, (a, b))| a != b).unwrap_or((0, ("", "(other line ends)")))
}
