//! Import of iCalendar files.

use serde_json::{Value, json};

use super::{super::from_icalendar, assert_beginnings, at, calendar};

fn file(head: &[&str], events: &[&[&str]]) -> String {
    let mut lines = vec!["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Example//Calendar//EN"];
    lines.extend(head);
    for event in events {
        lines.push("BEGIN:VEVENT");
        lines.extend(*event);
        lines.push("END:VEVENT");
    }
    lines.push("END:VCALENDAR");
    lines.join("\r\n") + "\r\n"
}

fn import(text: &str) -> Value {
    from_icalendar(text).unwrap_or_else(|error| panic!("{text} is refused: {error}"))
}

fn refusal(text: &str) -> String {
    let error = from_icalendar(text).expect_err(&format!("a refusal of {text}"));
    assert_eq!(error.field(), "icalendar");
    error.message().to_owned()
}

#[test]
fn a_file_of_holidays() {
    let text = file(
        &["X-WR-CALNAME:Holidays", "X-WR-TIMEZONE:Europe/Berlin"],
        &[
            &[
                "UID:1@example.org",
                "SUMMARY:Heiligabend\\, Weihnachten und was folgt\r\n  in einer langen Zeile",
                "DTSTART;VALUE=DATE:20261224",
                "DTEND;VALUE=DATE:20261227",
                "TRANSP:TRANSPARENT",
            ],
            &["UID:2@example.org", "SUMMARY:Karfreitag", "DTSTART;VALUE=DATE:20270326"],
            &[
                "UID:3@example.org",
                "SUMMARY:Tag der Arbeit",
                "DTSTART;VALUE=DATE:20260501",
                "DTEND;VALUE=DATE:20260502",
                "RRULE:FREQ=YEARLY",
            ],
            &["UID:4@example.org", "SUMMARY:Fiel aus", "STATUS:CANCELLED", "DTSTART;VALUE=DATE:20270101"],
            &[
                "UID:5@example.org",
                "SUMMARY:Wartung",
                "DTSTART;TZID=Europe/Berlin:20260105T220000",
                "DURATION:PT2H30M",
                "RRULE:FREQ=MONTHLY;BYDAY=1MO;UNTIL=20270104T210000Z",
                "EXDATE;TZID=Europe/Berlin:20260202T220000,20260302T220000",
                "BEGIN:VALARM",
                "TRIGGER:-PT15M",
                "ACTION:DISPLAY",
                "END:VALARM",
            ],
            &["UID:6@example.org", "SUMMARY:Umzug", "DTSTART:20260618T160000Z", "DTEND:20260620T040000Z"],
        ],
    );
    let definition = import(&text);
    assert_eq!(
        definition,
        json!({
            "timezone": "Europe/Berlin",
            "dates": ["2026-12-24/2026-12-26", "2027-03-26"],
            "windows": [{"from": "2026-06-18T18:00:00", "until": "2026-06-20T06:00:00"}],
            "rules": [
                {"rule": "DTSTART:20260105T220000\nRRULE:FREQ=MONTHLY;BYDAY=1MO;UNTIL=20270104T220000\nEXDATE:20260202T220000,20260302T220000", "duration": "PT150M"},
                "DTSTART;VALUE=DATE:20260501\nRRULE:FREQ=YEARLY",
            ],
        })
    );
    assert_beginnings(
        &definition,
        "2026-01-01",
        &[
            "2026-01-05T22:00",
            "2026-04-06T22:00",
            "2026-05-01",
            "2026-05-04T22:00",
            "2026-06-01T22:00",
            "2026-06-18T18:00",
        ],
    );
    let calendar = calendar(&definition);
    assert!(calendar.exclusion_at(at("2027-01-04T23:00")).is_some());
    assert_eq!(calendar.next_exclusion(at("2027-01-05T01:00")), Some(at("2027-03-26")));
}

#[test]
fn line_ends_and_case_do_not_matter() {
    let text = file(&[], &[&["SUMMARY:A", "DTSTART;VALUE=DATE:20261224"]]);
    let expected = json!({"dates": ["2026-12-24"]});
    for text in [
        text.replace("\r\n", "\n"),
        text.replace("\r\n", "\r"),
        format!("\u{feff}\n{text}\n\n"),
        text.replace("DTSTART;VALUE", "dtstart;value"),
        text.replacen("\r\n", "\n", 3),
    ] {
        assert_eq!(import(&text), expected, "{text:?}");
    }
}

#[test]
fn an_event_that_takes_no_time_is_its_day() {
    for end in [&["SUMMARY:A"][..], &["DTEND:20261224T180000"], &["DURATION:PT0S"]] {
        let event = [&["DTSTART:20261224T180000"], end].concat();
        assert_eq!(import(&file(&[], &[&event])), json!({"dates": ["2026-12-24"]}), "{end:?}");
    }
    let same_day = ["DTSTART;VALUE=DATE:20261224", "DTEND;VALUE=DATE:20261224"];
    assert_eq!(import(&file(&[], &[&same_day])), json!({"dates": ["2026-12-24"]}));
}

#[test]
fn days_that_repeat_keep_their_length() {
    let event = [
        "DTSTART;VALUE=DATE:20261224",
        "DURATION:P3D",
        "RRULE:FREQ=YEARLY;UNTIL=20301224T225959Z",
        "RDATE;VALUE=DATE:20270601",
        "EXDATE:20281224T000000",
    ];
    assert_eq!(
        import(&file(&[], &[&event])),
        json!({"rules": [{"rule": "DTSTART;VALUE=DATE:20261224\nRRULE:FREQ=YEARLY;UNTIL=20301224\nRDATE:20270601\nEXDATE:20281224", "duration": "P3D"}]}),
        "an UNTIL in UTC beside dates needs no zone, its date counts"
    );
}

#[test]
fn override_event_replaces_its_occurrence() {
    let series: &[&str] =
        &["UID:1", "DTSTART:20260105T220000", "DTEND:20260105T230000", "RRULE:FREQ=WEEKLY;COUNT=4"];
    let moved: &[&str] =
        &["UID:1", "RECURRENCE-ID:20260112T220000", "DTSTART:20260113T200000", "DTEND:20260113T210000"];
    let cancelled: &[&str] =
        &["UID:1", "RECURRENCE-ID:20260119T220000", "STATUS:CANCELLED", "DTSTART:20260119T220000"];
    let other: &[&str] =
        &["UID:2", "RECURRENCE-ID:20260105T220000", "STATUS:CANCELLED", "DTSTART:20260105T220000"];
    assert_beginnings(
        &import(&file(&[], &[series, moved, cancelled, other])),
        "2026-01-01",
        &["2026-01-05T22:00", "2026-01-13T20:00", "2026-01-26T22:00"],
    );
}

#[test]
fn a_file_all_in_utc_is_in_utc() {
    let event = ["DTSTART:20260105T220000Z", "DTEND:20260105T230000Z", "RRULE:FREQ=WEEKLY;COUNT=2"];
    assert_eq!(
        import(&file(&[], &[&event])),
        json!({"timezone": "UTC", "rules": [{"rule": "DTSTART:20260105T220000\nRRULE:FREQ=WEEKLY;COUNT=2", "duration": "PT1H"}]})
    );
}

#[test]
fn unsupported_events_are_rejected_by_name() {
    let cases: [(&[&str], &[&str], &str); 15] = [
        (&[], &["DTSTART:20260105T220000Z", "DTEND:20260105T230000"], "the file names no zone"),
        (
            &["X-WR-TIMEZONE:Europe/Berlin"],
            &["DTSTART:20260105T220000Z", "RRULE:FREQ=WEEKLY"],
            "repeats at a time in UTC",
        ),
        (&[], &["SUMMARY:B"], "has no DTSTART"),
        (&[], &["DTSTART:2026"], "has `2026` in DTSTART"),
        (&[], &["DTSTART:20260105,20260106"], "has several times in DTSTART"),
        (&[], &["DTSTART:20260105", "DTEND:20260104"], "ends before it begins"),
        (&[], &["DTSTART:20260105", "DTEND:20260105T100000"], "a date in DTSTART and a time in DTEND"),
        (&[], &["DTSTART:20260105", "DURATION:PT5H"], "lasts no whole days"),
        (&[], &["DTSTART:20260105", "DURATION:5"], "DURATION: `5` is not a duration"),
        (&[], &["DTSTART:20260105", "RRULE:FREQ=SECONDLY"], "too fine for a calendar"),
        (
            &[],
            &["DTSTART:20260105", "RRULE:FREQ=YEARLY", "RRULE:FREQ=WEEKLY"],
            "has several recurrence rules",
        ),
        (&[], &["DTSTART:20260105", "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"], "matches no day"),
        (
            &[],
            &["DTSTART:20260105T100000", "RRULE:FREQ=YEARLY;UNTIL=20300105T100000Z"],
            "has an UNTIL in UTC",
        ),
        (
            &[],
            &["DTSTART:20260105", "RECURRENCE-ID;RANGE=THISANDFUTURE:20260105"],
            "changes all later occurrences",
        ),
        (
            &[],
            &["DTSTART:20260105T100000", "DTEND:20290105T100000", "RRULE:FREQ=YEARLY"],
            "is not a duration",
        ),
    ];
    for (head, lines, message) in cases {
        let found = refusal(&file(head, &[&[&["UID:1@example.org", "SUMMARY:Wartung"], lines].concat()]));
        assert!(found.starts_with("event `Wartung`: ") && found.contains(message), "{lines:?}: {found}");
    }
    let by_uid = refusal(&file(&[], &[&["UID:1@example.org"]]));
    assert_eq!(by_uid, "event `1@example.org`: has no DTSTART");
}

#[test]
fn zones_are_one_or_none() {
    let berlin: &[&str] = &["SUMMARY:A", "DTSTART;TZID=Europe/Berlin:20260105T220000"];
    let paris: &[&str] = &["SUMMARY:B", "DTSTART;TZID=\"Europe/Paris\":20260105T220000"];
    assert_eq!(import(&file(&[], &[berlin])), json!({"timezone": "Europe/Berlin", "dates": ["2026-01-05"]}));
    let mixed = refusal(&file(&[], &[berlin, paris]));
    assert_eq!(
        mixed,
        "mixes the time zones Europe/Berlin and Europe/Paris; a calendar has one, so split the file"
    );
    let mixed = refusal(&file(&["X-WR-TIMEZONE:Europe/Rome"], &[berlin]));
    assert!(mixed.contains("Europe/Rome and Europe/Berlin"), "{mixed}");
    let unknown = refusal(&file(&[], &[&["DTSTART;TZID=W. Europe Standard Time:20260105T220000"]]));
    assert!(unknown.contains("`W. Europe Standard Time` is not a time zone"), "{unknown}");
}

#[test]
fn non_icalendar_texts_are_rejected() {
    let many: Vec<Vec<String>> =
        (0..1001).map(|day| vec![format!("DTSTART:{}", 20_000_101 + day % 28 + day / 28 * 10_000)]).collect();
    let many: Vec<Vec<&str>> = many.iter().map(|event| event.iter().map(String::as_str).collect()).collect();
    let many: Vec<&[&str]> = many.iter().map(Vec::as_slice).collect();
    for (text, message) in [
        (String::new(), "is not an iCalendar file"),
        ("{\"dates\": []}".to_owned(), "begins with"),
        ("x".repeat(10_000), "begins with"),
        ("BEGIN:VCALENDAR\n".repeat(40_000), "bytes; at most"),
        ("BEGIN:VCALENDAR\n".repeat(30_000), "nested more than 8 deep"),
        (
            "BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nEND:VCALENDAR\n".to_owned(),
            "cannot be read past line 4",
        ),
        (file(&[], &[]), "has no event"),
        (file(&[], &[&["STATUS:cancelled", "DTSTART:20260105"]]), "has no event"),
        (file(&[], &many), "1001 entries"),
        (file(&[], &[&["DTSTART:20260105", "RRULE:FREQ=YEARLY"][..]; 101]), "101 events that repeat"),
    ] {
        let found = refusal(&text);
        assert!(found.contains(message), "{:?}: {found}", text.get(..40));
    }
}
