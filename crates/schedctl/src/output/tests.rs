use insta::assert_snapshot;
use serde::Serialize;

use super::*;

#[derive(Serialize)]
struct Thing {
    name: &'static str,
    status: &'static str,
    note: Option<&'static str>,
}

const THINGS: &[Thing] = &[
    Thing { name: "backup", status: "succeeded", note: None },
    Thing { name: "a-longer-name", status: "failed", note: Some("no\u{1b}[2J space\nleft") },
];

const COLUMNS: &[Column<Thing>] = &[
    Column::new("NAME", |thing| thing.name.to_owned()),
    Column::new("STATUS", |thing| thing.status.to_owned()),
    Column::wide("NOTE", |thing| or_dash(thing.note)),
];

fn list(format: Format, colour: bool) -> String {
    render(Output { format, colour }, &THINGS, || table::list(THINGS, COLUMNS, format, colour)).unwrap()
}

#[test]
fn a_table_has_no_lines_and_no_trailing_blanks() {
    assert_snapshot!(list(Format::Table, false), @r"
    NAME           STATUS
    backup         succeeded
    a-longer-name  failed
    ");
}

#[test]
fn a_wide_table_has_every_column_with_foreign_text_escaped() {
    assert_snapshot!(list(Format::Wide, false), @r"
    NAME           STATUS     NOTE
    backup         succeeded  -
    a-longer-name  failed     no\u{1b}[2J space\nleft
    ");
}

#[test]
fn colour_appears_only_when_asked_for_and_shifts_nothing() {
    let plain = list(Format::Table, false);
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let coloured = list(Format::Table, true);
    assert!(coloured.contains("\u{1b}[38;5;10msucceeded"), "{coloured:?}");
}

#[test]
fn colour_depends_on_the_column_and_the_first_word() {
    let cell = |column: &Column<&'static str>, text: &'static str| {
        table::list(&[text], std::slice::from_ref(column), Format::Table, true)
    };
    let status: Column<&'static str> = Column::new("STATUS", |text| (*text).to_owned());
    let part: Column<&'static str> = Column::new("PART", |text| (*text).to_owned());
    let colours =
        ["ok", "unavailable", "sent", "waiting", "failed", "enabled", "disabled", "paused until x: full"];
    for text in colours {
        assert!(cell(&status, text).contains("\u{1b}[38;5;"), "{text} has no colour");
        assert!(!cell(&part, text).contains("\u{1b}[38;5;"), "{text} has a colour outside of a state");
    }
    for text in ["leader, lease expired", "okay", "-"] {
        assert!(!cell(&status, text).contains("\u{1b}[38;5;"), "{text} has a colour");
    }
}

#[test]
fn item_of_a_stream_is_a_line_of_json_or_a_yaml_document() {
    let of = |format| Output { format, colour: false }.streamed(&THINGS[0]).unwrap();
    assert_eq!(of(Format::Json), "{\"name\":\"backup\",\"status\":\"succeeded\",\"note\":null}\n");
    assert!(of(Format::Yaml).starts_with("---\nname: backup\nstatus: succeeded\n"), "{}", of(Format::Yaml));
}

#[test]
fn json_is_the_value_itself() {
    assert_snapshot!(list(Format::Json, true), @r#"
    [
      {
        "name": "backup",
        "status": "succeeded",
        "note": null
      },
      {
        "name": "a-longer-name",
        "status": "failed",
        "note": "no\u001b[2J space\nleft"
      }
    ]
    "#);
}

#[test]
fn yaml_is_the_value_itself_and_escapes_what_a_terminal_would_obey() {
    let text = list(Format::Yaml, true);
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let back: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(back, serde_json::to_value(THINGS).unwrap());
    for control in ['\u{9b}', '\u{202e}', '\u{7f}', '\u{85}', '\u{2028}'] {
        let thing = Thing { name: "x", status: "y", note: None };
        let word = format!("a{control}b");
        let text =
            render(Output { format: Format::Yaml, colour: false }, &word, || thing.name.to_owned()).unwrap();
        assert!(!text.contains(control), "{control:?} stands in {text:?}");
        assert_eq!(serde_saphyr::from_str::<String>(&text).unwrap(), word);
    }
}

#[test]
fn a_record_has_a_line_for_each_column() {
    let thing = THINGS.first().unwrap();
    assert_snapshot!(table::record(thing, COLUMNS, Format::Wide, false), @r"
    Name    backup
    Status  succeeded
    Note    -
    ");
}

#[test]
fn a_page_is_printed_as_the_api_answered_it() {
    let page = Page::new(vec![1, 2], Some("two".to_owned()));
    let output = Output { format: Format::Json, colour: false };
    let text = render(output, &page, || panic!("no table is asked for")).unwrap();
    let printed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(printed, serde_json::json!({"items": [1, 2], "next_cursor": "two"}));
}

#[test]
fn lines_that_come_one_by_one_stand_below_each_other() {
    let mut lines = Lines::new(COLUMNS, Format::Wide);
    let text: String = THINGS.iter().chain(THINGS).map(|thing| lines.item(thing)).collect();
    assert_snapshot!(text, @r"
    NAME    STATUS     NOTE
    backup  succeeded  -
    a-longer-name  failed     no\u{1b}[2J space\nleft
    backup         succeeded  -
    a-longer-name  failed     no\u{1b}[2J space\nleft
    ");
    let first = Lines::new(COLUMNS, Format::Table).item(THINGS.first().unwrap());
    assert_eq!(first, "NAME    STATUS\nbackup  succeeded\n");
}

#[test]
fn an_empty_list_prints_no_header() {
    assert_eq!(table::list::<Thing>(&[], COLUMNS, Format::Table, false), "");
}
