"""Made-up files for the self-test of scripts/check-structure: (rule, expected violations as path:line, files)."""

CRATE = "crates/a/src"
MODEL = "crates/model/src"


def lines(count, head=""):
    """Returns a text of so many lines."""
    return head + "x\n" * (count - head.count("\n"))


def many(folder, count):
    """Returns a folder with so many empty files."""
    return {f"{folder}/{number}.rs": "" for number in range(count)}


EXAMPLES = [
    ("folder-size", [f"{CRATE}:1"], many(CRATE, 21)),
    ("folder-size", [], {**many(CRATE, 20), **many(f"{CRATE}/deeper", 20)}),
    ("folder-size", [], {**many("tests/fixtures", 30), **many("fuzz/corpus/cron", 30), **many("web/src/routes/jobs", 30)}),
    ("file-length", ["a.rs:1", "b.sql:1", "scripts/c:1"], {"a.rs": lines(401), "b.sql": lines(401), "scripts/c": lines(401)}),
    ("file-length", ["a.rs:1"], {"a.rs": lines(501, "//! Length: one state machine.\n")}),
    ("file-length", [], {"a.rs": lines(500, "//! Length: one state machine.\n"), "b.rs": lines(400), "c.md": lines(900)}),
    ("file-length", [], {"schema.rs": lines(900, "// @generated\n")}),
    (
        "import-circle",
        [f"{CRATE}/b.rs:1"],
        {f"{CRATE}/lib.rs": "mod b; mod c;", f"{CRATE}/b.rs": "use crate::c::{self, D};", f"{CRATE}/c.rs": "use super::b::E;"},
    ),
    (
        "import-circle",
        [f"{CRATE}/b/d.rs:1"],
        {
            f"{CRATE}/main.rs": "pub(crate) mod b;\nmod c;",
            f"{CRATE}/b/mod.rs": "pub mod d;",
            f"{CRATE}/b/d.rs": "pub use crate::{x, c::e::{F, G as H}};",
            f"{CRATE}/c.rs": "mod e { use crate::b::d; }",
        },
    ),
    # A parent and its child, comments, strings, tests, and an import in one direction are no circle.
    (
        "import-circle",
        [],
        {
            f"{CRATE}/lib.rs": "mod b;\nmod c;\npub use b::B;",
            f"{CRATE}/b.rs": "mod inner; use self::inner::I; use crate::c::C;\n#[cfg(test)]\nmod tests { use crate::c; }",
            f"{CRATE}/b/inner.rs": "use super::B;",
            f"{CRATE}/c.rs": '// use crate::b::B;\nconst A: &str = "use crate::b::B;";\n#[cfg(test)]\nmod tests { use crate::b::B; }\n',
        },
    ),
    (
        "sql-caller",
        [f"{MODEL}/x/a.sql:1", f"{MODEL}/x/b.sql:1", f"{MODEL}/x/c.sql:1"],
        {
            f"{MODEL}/x/a.sql": "",
            f"{MODEL}/x/b.sql": "",
            f"{MODEL}/x/c.sql": "",
            f"{MODEL}/x/one.rs": '"b.sql"',
            f"{MODEL}/x/two.rs": '"b.sql"',
            f"{MODEL}/y/z.rs": '"../x/c.sql"',
        },
    ),
    (
        "sql-caller",
        [],
        {
            f"{MODEL}/x/a.sql": "",
            f"{MODEL}/x.rs": '"x/a.sql"',
            f"{MODEL}/y/a.sql": "",
            f"{MODEL}/y/b.rs": '"a.sql" "a.sql"',
            "crates/model/tests/c.rs": '"a.sql"',
        },
    ),
    (
        "dispatch-insert",
        [f"{MODEL}/b.rs:2", "migrations/1/up.sql:1"],
        {
            f"{MODEL}/a.sql": "INSERT INTO job_dispatch (id)",
            f"{MODEL}/b.rs": '\n"insert into\n job_dispatch"',
            "migrations/1/up.sql": "Insert  Into public.job_dispatch",
        },
    ),
    (
        "dispatch-insert",
        [],
        {
            f"{MODEL}/a.sql": "INSERT INTO job_dispatch (id)\n-- INSERT INTO job_dispatch",
            f"{MODEL}/b.sql": "INSERT INTO job_dispatch_archive",
            "crates/model/tests/c.rs": "INSERT INTO job_dispatch",
        },
    ),
    (
        "stored-function",
        ["migrations/1/up.sql:2"],
        {"scripts/lib/stored-functions": "good # door\n", "migrations/1/up.sql": "CREATE FUNCTION good()\ncreate or replace function Bad()"},
    ),
    ("stored-function", [], {"scripts/lib/stored-functions": "good\n", "migrations/1/up.sql": "CREATE FUNCTION good();-- CREATE FUNCTION bad()"}),
    ("page-length", ["README.md:1", "CONTRIBUTING.md:1"], {"README.md": lines(161), "CONTRIBUTING.md": lines(151)}),
    ("page-length", [], {"README.md": lines(160), "CONTRIBUTING.md": lines(150), "docs/a.md": lines(900)}),
    ("module-style", [f"{CRATE}/b/mod.rs:1"], {f"{CRATE}/b/mod.rs": "", f"{CRATE}/c.rs": "", "crates/a/tests/b/mod.rs": ""}),
    (
        "measured-figure",
        ["README.md:2", "a.rs:2", "b.sql:1"],
        {
            "README.md": "# A\nThe median is 5 ms here.\n",
            "a.rs": "//! Measured: a claim\n//! takes 3 ms.\n",
            "b.sql": "-- p99 is 2 ms\n",
        },
    ),
    (
        "measured-figure",
        [],
        {
            "docs/benchmarks/one.md": "The median is 5 ms.",
            "a.md": "It waits 5 ms. The time is measured.\n```\nmedian 5 ms\n```\n",
            "a.rs": 'const A: &str = "median 5 ms";\n// Waits 5 ms.\nfn measured() {}\n',
        },
    ),
    (
        "pure-crate",
        ["crates/domain/Cargo.toml:2", "crates/domain/Cargo.toml:4", "crates/timetable/Cargo.toml:2"],
        {
            "crates/domain/Cargo.toml": '[dependencies]\ntokio.workspace = true\n[target."cfg(unix)".dependencies]\nx = { package = "diesel" }\n',
            "crates/timetable/Cargo.toml": "[dependencies]\ntracing-core = '1'\n",
        },
    ),
    (
        "pure-crate",
        [],
        {"crates/domain/Cargo.toml": '[package]\nname = "tokio"\n[dependencies]\nserde = "1"\n[dev-dependencies]\ntokio = "1"\n'},
    ),
]
