//! `schedules preview --stdin`: one query per input line, one answer per output line.
//!
//! An invalid line produces an error on its line, and the next one is read. Memory is bounded by
//! the line limit. Output is flushed whenever the input pauses, so a program can alternate queries
//! and answers.

use std::io::{self, BufRead, BufReader, Read, Write};

use sched_model::domain::timetable::{JobType, MAX_FIRE_TIMES};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Shown;
use super::question::{Mistake, Names, Question, Settings, cron_config};
use crate::output::neutral;
use crate::values::instant;

/// In bytes.
const LONGEST_LINE: usize = 64 * 1024;

const KEYS: [&str; 4] = ["expr", "tz", "after", "count"];
const NAMES: Names = Names { schedule: "expr", timezone: "tz" };

/// For an error that concerns no single key.
const LINE: &str = "line";

#[derive(Debug, Serialize)]
struct Failed {
    error: Mistake,
}

/// Missing keys default to `settings`.
pub(super) fn answer_all<R: Read>(
    mut input: BufReader<R>,
    mut output: impl Write,
    settings: &Settings,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        if input.buffer().is_empty() {
            output.flush()?;
        }
        line.clear();
        let limit = u64::try_from(LONGEST_LINE + 1).unwrap_or(u64::MAX);
        if input.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
            return output.flush();
        }
        let whole = line.ends_with(b"\n") || line.len() <= LONGEST_LINE;
        if !whole {
            input.skip_until(b'\n')?;
        }
        let answer = if whole { answer(&line, settings) } else { Err(too_long()) };
        let text = match answer {
            Ok(shown) => serde_json::to_string(&shown)?,
            Err(error) => serde_json::to_string(&Failed { error })?,
        };
        writeln!(output, "{}", neutral::json(&text))?;
    }
}

fn too_long() -> Mistake {
    Mistake::new(LINE, format!("is longer than {LONGEST_LINE} bytes"))
}

fn answer(line: &[u8], settings: &Settings) -> Result<Shown, Mistake> {
    let object: Map<String, Value> = serde_json::from_slice(line).map_err(|error| {
        Mistake::new(LINE, format!("is not a JSON object with {} ({error})", KEYS.join(", ")))
    })?;
    Ok(Shown::from(question(&object, settings)?.answer()?))
}

fn question(object: &Map<String, Value>, settings: &Settings) -> Result<Question, Mistake> {
    if let Some(unknown) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(Mistake::new(
            unknown,
            format!("is not a key of a line; allowed are {}", KEYS.join(", ")),
        ));
    }
    let expression = text(object, "expr")?.ok_or_else(|| Mistake::new("expr", "is missing"))?;
    let mut settings = settings.clone();
    if let Some(timezone) = text(object, "tz")? {
        settings.timezone = timezone.to_owned();
    }
    if let Some(after) = text(object, "after")? {
        settings.after = instant(after).map_err(|message| Mistake::new("after", message))?;
    }
    if let Some(value) = object.get("count") {
        settings.count = count(value)?;
    }
    Ok(Question {
        job_type: JobType::Cron,
        config: cron_config(expression, settings.seconds, settings.day_match),
        settings,
        names: NAMES,
    })
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, Mistake> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Mistake::new(key, "is not text")),
    }
}

fn count(value: &Value) -> Result<usize, Mistake> {
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
    count
        .filter(|count| (1..=MAX_FIRE_TIMES).contains(count))
        .ok_or_else(|| Mistake::new("count", format!("is not a whole number from 1 to {MAX_FIRE_TIMES}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(input: &[u8]) -> Vec<String> {
        let settings = Settings {
            timezone: "UTC".into(),
            after: instant("2026-01-01T00:00:00Z").unwrap(),
            count: 1,
            dst_gap: None,
            dst_overlap: None,
            seconds: false,
            day_match: None,
            job: None,
        };
        let mut output = Vec::new();
        answer_all(BufReader::new(input), &mut output, &settings).unwrap();
        String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_is_answered_with_one_object() {
        let line =
            br#"{"expr":"30 2 * * MON","tz":"Europe/Berlin","after":"2026-03-26T12:00:00Z","count":2}"#;
        let [answer] = answers(line).try_into().unwrap();
        assert_eq!(
            answer,
            r#"{"fire_times":[{"utc":"2026-03-30T00:30:00Z","local":"2026-03-30T02:30:00+02:00","note":null},{"utc":"2026-04-06T00:30:00Z","local":"2026-04-06T02:30:00+02:00","note":null}],"description":"At 02:30 on Monday.","warnings":[]}"#
        );
    }

    #[test]
    fn what_a_line_leaves_out_comes_from_the_flags() {
        let [answer] = answers(b"{\"expr\":\"@daily\"}\r\n").try_into().unwrap();
        assert!(
            answer.starts_with(
                r#"{"fire_times":[{"utc":"2026-01-02T00:00:00Z","local":"2026-01-02T00:00:00+00:00","note":null}],"#
            ),
            "{answer}"
        );
    }

    #[test]
    fn a_bad_line_names_its_field_and_the_next_is_answered() {
        let long_list = format!(r#"{{"expr":"{}"}}"#, "1,".repeat(5000));
        let long_line = format!(r#"{{"expr":"{}"}}"#, " ".repeat(LONGEST_LINE));
        for (line, field) in [
            ("", "line"),
            ("[]", "line"),
            ("{", "line"),
            (r#"{"expr":"* * * * *"} {}"#, "line"),
            ("\u{feff}{}", "line"),
            (&long_line, "line"),
            ("{}", "expr"),
            (r#"{"expr":5}"#, "expr"),
            (r#"{"expr":""}"#, "expr"),
            (r#"{"expr":"* * * *"}"#, "expr"),
            (r#"{"expr":"0 0 31 2 *"}"#, "expr"),
            (&long_list, "expr"),
            (r#"{"expr":"60 * * * *"}"#, "expr.minute"),
            (r#"{"expr":"0 0 * * 8"}"#, "expr.day_of_week"),
            (r#"{"expr":"* * * * *","tz":"Mars/Base"}"#, "tz"),
            (r#"{"expr":"* * * * *","tz":null}"#, "tz"),
            (r#"{"expr":"* * * * *","after":"now"}"#, "after"),
            (r#"{"expr":"* * * * *","count":0}"#, "count"),
            (r#"{"expr":"* * * * *","count":10001}"#, "count"),
            (r#"{"expr":"* * * * *","count":"2"}"#, "count"),
            (r#"{"expr":"* * * * *","zone":"UTC"}"#, "zone"),
        ] {
            let good = r#"{"expr":"* * * * *"}"#;
            let [bad, next] = answers(format!("{line}\n{good}").as_bytes()).try_into().unwrap();
            let bad: Value = serde_json::from_str(&bad).unwrap();
            assert_eq!(bad.pointer("/error/field").unwrap(), field, "{bad}");
            assert!(!bad.pointer("/error/message").unwrap().as_str().unwrap().is_empty());
            assert!(next.starts_with(r#"{"fire_times":[{"#), "{next}");
        }
        let [bad, _] = answers(b"\xff\xfe\n{\"expr\":\"@daily\"}\n").try_into().unwrap();
        assert!(bad.starts_with(r#"{"error":{"field":"line","#), "{bad}");
    }

    #[test]
    fn the_longest_line_is_still_read() {
        let expression = r#"{"expr":"@daily""#;
        let line = format!("{expression}{}}}", " ".repeat(LONGEST_LINE - expression.len() - 1));
        assert_eq!(line.len(), LONGEST_LINE);
        for end in ["", "\n"] {
            let [answer] = answers(format!("{line}{end}").as_bytes()).try_into().unwrap();
            assert!(answer.starts_with(r#"{"fire_times""#), "{answer}");
        }
    }

    #[test]
    fn thousands_of_lines_are_answered_in_order() {
        let input: String = (0..3000)
            .map(|number| format!("{{\"expr\":\"{} {} * * *\"}}\n", number % 60, number % 24))
            .collect();
        let answers = answers(input.as_bytes());
        assert_eq!(answers.len(), 3000);
        for (number, answer) in answers.iter().enumerate() {
            let sentence = format!("\"At {:02}:{:02} every day.\"", number % 24, number % 60);
            assert!(answer.contains(&sentence), "{answer}");
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let [answer] = answers("{\"expr\":\"\u{202e}\u{9b}2J * * * *\"}".as_bytes()).try_into().unwrap();
        assert!(answer.is_ascii() || !answer.contains(['\u{202e}', '\u{9b}']), "{answer}");
    }
}
