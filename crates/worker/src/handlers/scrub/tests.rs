use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::super::Outcome;
use super::*;

const VALUE: &str = "p@ss wörd/\"1\"";

fn scrubber(secrets: &[(&str, &str)]) -> Arc<Scrubber> {
    let secrets: Secrets =
        secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned().into())).collect();
    Arc::new(Scrubber::new(&secrets))
}

#[test]
fn value_is_found_in_all_forms() {
    let scrubber = scrubber(&[("db", VALUE)]);
    for form in [
        VALUE,
        "p%40ss%20w%C3%B6rd%2F%221%22",
        "p%40ss+w%c3%b6rd%2f%221%22",
        "p%40ss%20w%C3%B6rd/%221%22",
        r#"p@ss wörd/\"1\""#,
        r#"p@ss wörd\/\"1\""#,
        r#"p@ss w\u00f6rd/\"1\""#,
        "cEBzcyB3w7ZyZC8iMSI=",
        "cEBzcyB3w7ZyZC8iMSI",
        "70407373",
    ] {
        let text = format!("<{form}>");
        let expected = if form == "70407373" { text.clone() } else { "<[secret db]>".to_owned() };
        assert_eq!(scrubber.scrub(&text), expected, "part of the hexadecimal form alone is none");
    }
    let hexadecimal: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(scrubber.scrub(&hexadecimal), "[secret db]");
}

#[test]
fn value_inside_base64_is_found_at_every_offset() {
    let scrubber = scrubber(&[("db", "hunter2-hunter2")]);
    for before in ["", "u", "us", "user:", "some user:"] {
        for after in ["", "!", "!!", "!!!"] {
            let encoded = STANDARD.encode(format!("{before}hunter2-hunter2{after}"));
            let shown = scrubber.scrub(&encoded);
            assert!(shown.contains("[secret db]"), "{before:?} {after:?}: {shown}");
            // At least 19 of the value's 20 characters do not depend on adjacent bytes.
            let most = "[secret db]".len() + encoded.len() - 19;
            assert!(shown.len() <= most, "{before:?} {after:?}: {shown}");
        }
    }
}

#[test]
fn short_values_and_clean_texts_stay_unchanged() {
    let scrubber = scrubber(&[("pin", "123"), ("blank", "  \n"), ("four", "abcd")]);
    for text in ["123 MTIz 313233", "nothing", "", "abc bcd"] {
        assert!(matches!(scrubber.scrub(text), Cow::Borrowed(_)), "{text}");
    }
    assert_eq!(scrubber.scrub("abcdabcd abcd"), "[secret four] [secret four]");
    assert!(Scrubber::new(&Secrets::default()).is_idle());
}

#[test]
fn single_lines_of_a_value_are_found() {
    let pem = "-----BEGIN KEY-----\nMIIBVQIBADANBgkq\nshort\n-----END KEY-----\n";
    let scrubber = scrubber(&[("key", pem)]);
    assert_eq!(scrubber.scrub(&format!("a {pem} b")), "a [secret key] b");
    assert_eq!(scrubber.scrub(pem.trim()), "[secret key]");
    assert_eq!(scrubber.scrub("+ line MIIBVQIBADANBgkq\n"), "+ line [secret key]\n");
    assert_eq!(scrubber.scrub(&pem.replace('\n', "\\n")), "[secret key]");
}

#[test]
fn overlapping_values_are_replaced_completely() {
    let scrubber = scrubber(&[("a", "abcdXY"), ("b", "XYefgh"), ("longer", "abcdXYZZ")]);
    assert_eq!(scrubber.scrub("<abcdXYefgh>"), "<[secret a]>");
    assert_eq!(scrubber.scrub("<abcdXYZZ>"), "<[secret longer]>");
}

#[test]
fn stream_is_scrubbed_alike_for_all_chunk_sizes() {
    let scrubber =
        scrubber(&[("a", "abcdXY"), ("b", "XYefgh"), ("longer", "abcdXYZZ"), ("umlaut", "wörder")]);
    let text = "x abcdXYefgh abcdXY abcdXYZZ abcdabcdXY wörder wörde abcdXabcdXY abcdXY";
    let whole = scrubber.scrub(text).into_owned();
    let longest = scrubber.patterns.iter().map(|(text, _)| text.expose_secret().len()).max().unwrap();
    let characters: Vec<char> = text.chars().collect();
    for size in 1..=characters.len() {
        let mut stream = scrubber.stream();
        let mut shown = String::new();
        for piece in characters.chunks(size) {
            shown.push_str(&stream.feed(&piece.iter().collect::<String>()));
            assert!(stream.held.len() < longest);
        }
        shown.push_str(&stream.finish());
        assert_eq!(shown, whole, "in pieces of {size}");
    }
    let mut idle = Arc::new(Scrubber::default()).stream();
    assert_eq!(idle.feed("abc"), "abc");
}

#[test]
fn stream_holds_back_only_possible_secrets() {
    let scrubber = scrubber(&[("a", "abcdXY")]);
    let mut stream = scrubber.stream();
    assert_eq!(stream.feed("all of this\n"), "all of this\n");
    assert_eq!(stream.feed("some of ab"), "some of ");
    assert_eq!(stream.feed("out"), "about");
    assert_eq!(stream.feed("abcdXY"), "[secret a]");
    assert_eq!(stream.finish(), "");
}

#[test]
fn report_contains_no_secret() {
    let scrubber = scrubber(&[("db", "hunter2"), ("pin", "48151623")]);
    let report = Report {
        result: Some(json!({"a": ["hunter2"], "hunter2": 1, "pin": 48151623, "n": 5, "t": true})),
        error_message: Some("failed with hunter2".into()),
        stdout: CapturedOutput {
            head: "hunter2\nhunt".into(),
            tail: "ter2 hunter2".into(),
            total_bytes: 900,
            dropped_bytes: 869,
        },
        stderr: CapturedOutput {
            head: "hunt hunter2".into(),
            tail: String::new(),
            total_bytes: 12,
            dropped_bytes: 0,
        },
        notes: vec!["note hunter2".into()],
        ..Report::failed(super::super::ErrorClass::ExitCode, "")
    };
    let clean = scrubber.report(report);
    assert_eq!(clean.outcome, Outcome::Failed);
    assert_eq!(
        clean.result.unwrap(),
        json!({"a": ["[secret db]"], "[secret db]": 1, "pin": "[secret pin]", "n": 5, "t": true})
    );
    assert_eq!(clean.error_message.unwrap(), "failed with [secret db]");
    // The edges of the dropped middle may show half a secret.
    assert_eq!(
        (clean.stdout.head.as_str(), clean.stdout.tail.as_str()),
        ("[secret db]\n[secret db]", "[secret db] [secret db]")
    );
    assert_eq!((clean.stdout.total_bytes, clean.stdout.dropped_bytes), (900, 869));
    assert_eq!(clean.stderr.head, "hunt [secret db]");
    assert_eq!(clean.notes, ["note [secret db]"]);
}

#[test]
fn scrubbed_text_has_a_bounded_length() {
    let scrubber = scrubber(&[("a-name-that-is-much-longer-than-its-value", "abcd")]);
    let text = "abcd,".repeat(10_000);
    let shown = scrubber.scrub(&text);
    assert!(shown.len() <= 2 * text.len() && !shown.contains("abcd"));
}

#[test]
fn debug_output_shows_names_only() {
    let scrubber = scrubber(&[("db", "hunter2")]);
    let text = format!("{scrubber:?} {:?}", scrubber.stream());
    assert!(text.contains("db") && !text.contains("hunter2"), "{text}");
}

#[test]
fn longest_overlap_is_found() {
    for (back, front, expected) in [
        ("xabc", "abcy", 3),
        ("abc", "abc", 3),
        ("zabc", "abc", 3),
        ("aaaa", "aab", 2),
        ("aabaab", "aabaabaa", 6),
        ("abc", "x", 0),
        ("", "x", 0),
        ("x", "", 0),
    ] {
        assert_eq!(overlap(back.as_bytes(), front.as_bytes()), expected, "{back} {front}");
    }
}

/// One search per secret, or a comparison at each position, would take minutes. The bound allows
/// for a busy machine.
#[test]
fn many_similar_secrets_take_linear_time() {
    let values: Vec<(String, String)> = (0..50)
        .map(|number| (format!("s{number}"), format!("{}b{number:02}{}", "a".repeat(1000), "a".repeat(1000))))
        .collect();
    let values: Vec<(&str, &str)> =
        values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let scrubber = scrubber(&values);
    let text = format!("{}b07{}", "a".repeat(4_000_000), "a".repeat(1500));
    let begun = sched_runtime::monotonic_clock::monotonic();
    let shown = scrubber.scrub_head(&text);
    // The text after the value may begin another secret.
    assert!(shown.ends_with("aa[secret s7]"), "{} bytes", shown.len());
    let tail = scrubber.scrub_tail(&text);
    assert!(tail.starts_with("[secret s"), "{} bytes", tail.len());
    let mut stream = scrubber.stream();
    let mut streamed = 0;
    for piece in text.as_bytes().chunks(1024) {
        streamed += stream.feed(std::str::from_utf8(piece).unwrap()).len();
    }
    assert!(streamed + stream.finish().len() > 3_900_000);
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
}
