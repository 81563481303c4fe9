//! Schedules as sentences.

use chrono::NaiveDateTime;
use proptest::prelude::*;
use serde_json::json;

use super::{
    super::{CronSpec, JobType, Schedule, cron::CronOptions, describe},
    day_match::{day_match, parse_with},
    parse,
    properties::expression,
    seconds, spec, utc,
};

#[test]
fn an_expression_reads_as_an_exact_sentence() {
    for (text, sentence) in [
        ("* * * * *", "Every minute."),
        ("*/15 * * * *", "Every 15 minutes."),
        ("0,30 * * * *", "Every 30 minutes."),
        ("5/15 * * * *", "Every 15 minutes from 00:05 to 23:50."),
        ("5,35 * * * *", "At minutes 5 and 35 of every hour."),
        ("*/7 * * * *", "At every 7th minute from 0 to 56 of every hour."),
        ("0-10,30 * * * *", "At minutes 0 to 10 and 30 of every hour."),
        ("5 * * * *", "At minute 5 of every hour."),
        ("@hourly", "Every hour on the hour."),
        ("0 */2 * * *", "Every 2 hours from 00:00 to 22:00 every day."),
        ("30 9-17 * * *", "Every hour from 09:30 to 17:30 every day."),
        ("0 */5 * * *", "At 00:00, 05:00, 10:00, 15:00 and 20:00 every day."),
        ("*/15 9-17 * * 1-5", "Every 15 minutes from 09:00 to 17:45, Monday to Friday."),
        ("*/30 9-17 * * *", "Every 30 minutes from 09:00 to 17:30 every day."),
        ("*/20 9 * * *", "Every 20 minutes from 09:00 to 09:40 every day."),
        ("* 9,17 * * *", "Every minute from 09:00 to 09:59 and from 17:00 to 17:59 every day."),
        ("* 22-2 * * *", "Every minute from 00:00 to 02:59 and from 22:00 to 23:59 every day."),
        ("* */2 * * *", "Every minute of every 2nd hour from 0 to 22 every day."),
        ("*/10 1,3,5,8 * * *", "At minutes 0, 10, 20, 30, 40 and 50 of hours 1, 3, 5 and 8 every day."),
        ("1-5 8-18 * * *", "At minutes 1 to 5 of hours 8 to 18 every day."),
        ("0,1 9,17 * * *", "At 09:00, 09:01, 17:00 and 17:01 every day."),
        ("@daily", "At 00:00 every day."),
        ("30 14 * * *", "At 14:30 every day."),
        ("30 14 1-31 * *", "At 14:30 every day."),
        ("30 14 13 * 0-6", "At 14:30 every day."),
        ("30 14 1-31 * FRI", "At 14:30 every day."),
        ("0 0 * * 1-5", "At 00:00, Monday to Friday."),
        ("0 0 * * FRI-MON", "At 00:00, Friday to Monday."),
        ("0 0 * * 6,7", "At 00:00 on Saturday and Sunday."),
        ("0 0 * * MON,WED,FRI", "At 00:00 on Monday, Wednesday and Friday."),
        ("0 0 * * 7", "At 00:00 on Sunday."),
        ("0 0 13 * *", "At 00:00 on day 13 of the month."),
        ("0 0 1,15 * *", "At 00:00 on days 1 and 15 of the month."),
        ("0 0 1-7,15 * *", "At 00:00 on days 1 to 7 and 15 of the month."),
        ("0 0 */2 * *", "At 00:00 on every 2nd day from 1 to 31 of the month."),
        ("0 0 13 * FRI", "At 00:00 on day 13 of the month or on Friday."),
        ("0 0 13 * 1-5", "At 00:00 on day 13 of the month or on any day from Monday to Friday."),
        ("0 0 1,15 * SAT,SUN", "At 00:00 on days 1 and 15 of the month or on Saturday and Sunday."),
        ("0 0 13 6 FRI", "At 00:00 on day 13 of the month or on Friday, in June."),
        ("0 0 */2 * FRI", "At 00:00 on every 2nd day from 1 to 31 of the month if the day is a Friday."),
        (
            "0 0 */2 * */3",
            "At 00:00 on every 2nd day from 1 to 31 of the month if the day is a Wednesday, a Saturday or a Sunday.",
        ),
        (
            "0 0 */2 6 MON-FRI",
            "At 00:00 on every 2nd day from 1 to 31 of June if the day is a day from Monday to Friday.",
        ),
        (
            "0 0 */2 6,7 FRI",
            "At 00:00 on every 2nd day from 1 to 31 of the month if the day is a Friday, in June and July.",
        ),
        (
            "0 0 */20,L * FRI",
            "At 00:00 on days 1 and 21 of the month or on the last day of the month, if the day is a Friday.",
        ),
        (
            "0 0 */20 * MON,FRI#2",
            "At 00:00 on days 1 and 21 of the month if the day is a Monday or the second Friday of the month.",
        ),
        ("0 0 *,5 * MON", "At 00:00 on Monday."),
        ("0 0 5,* * MON", "At 00:00 every day."),
        ("0 0 */2 * 0-6", "At 00:00 on every 2nd day from 1 to 31 of the month."),
        ("0 0 L * *", "At 00:00 on the last day of the month."),
        ("0 0 L-1 * *", "At 00:00 on the day before the last day of the month."),
        ("0 0 L-3 * *", "At 00:00 3 days before the last day of the month."),
        ("0 0 LW * *", "At 00:00 on the last working day (Monday to Friday) of the month."),
        ("0 0 15W * *", "At 00:00 on the working day (Monday to Friday) nearest to day 15 of the month."),
        ("0 0 1,L * *", "At 00:00 on day 1 of the month or on the last day of the month."),
        ("0 0 * * FRI#2", "At 00:00 on the second Friday of the month."),
        ("0 0 * * 5L", "At 00:00 on the last Friday of the month."),
        (
            "0 0 1 * MON#1,TUE",
            "At 00:00 on day 1 of the month, on the first Monday of the month or on Tuesday.",
        ),
        (
            "0 0 * * MON#1,TUE-THU",
            "At 00:00 on the first Monday of the month or on any day from Tuesday to Thursday.",
        ),
        ("@yearly", "At 00:00 on day 1 of January."),
        ("0 0 * 11 4#4", "At 00:00 on the fourth Thursday of November."),
        ("0 0 L 2 *", "At 00:00 on the last day of February."),
        ("0 9 * 6-8 *", "At 09:00 every day from June to August."),
        ("0 9 * 11-2 *", "At 09:00 every day from November to February."),
        ("0 9 * 1,3 *", "At 09:00 every day in January and March."),
        ("0 9 * */2 *", "At 09:00 every day in January, March, May, July, September and November."),
        ("* * * 1 *", "Every minute in January."),
        ("0 9 1 */3 *", "At 09:00 on day 1 of the month, in January, April, July and October."),
        ("0 9 * 12 MON-FRI", "At 09:00, Monday to Friday, in December."),
    ] {
        assert_eq!(spec(text).sentence(), sentence, "{text}");
    }
}

#[test]
fn seconds_appear_only_when_relevant() {
    for (text, sentence) in [
        ("* * * * * *", "Every second."),
        ("*/10 * * * * *", "Every 10 seconds."),
        ("0,30 * * * * *", "Every 30 seconds."),
        ("30 * * * * *", "At second 30 of every minute."),
        ("5/10 * * * * *", "At seconds 5, 15, 25, 35, 45 and 55 of every minute."),
        ("*/7 * * * * *", "At every 7th second from 0 to 56 of every minute."),
        ("0 * * * * *", "Every minute."),
        ("0 */15 * * * *", "Every 15 minutes."),
        ("0 30 9 * * *", "At 09:30 every day."),
        ("30 0 9 * * *", "At 09:00:30 every day."),
        ("0,30 0 9,17 * * *", "At 09:00:00, 09:00:30, 17:00:00 and 17:00:30 every day."),
        ("30 0 9-17 * * 1-5", "Every hour from 09:00:30 to 17:00:30, Monday to Friday."),
        ("30 */15 9-17 * * *", "Every 15 minutes from 09:00:30 to 17:45:30 every day."),
        ("30 */15 * * * *", "Every 15 minutes from 00:00:30 to 23:45:30."),
        ("30 5 * * * *", "At second 30 of minute 5 of every hour."),
        ("30 * 9 * * *", "Every minute from 09:00:30 to 09:59:30 every day."),
        ("* 0 9 * * *", "Every second from 09:00:00 to 09:00:59 every day."),
        ("*/20 0-4 9 * * *", "Every 20 seconds from 09:00:00 to 09:04:40 every day."),
        (
            "*/20 0-4 9,10 * * *",
            "Every 20 seconds from 09:00:00 to 09:04:40 and from 10:00:00 to 10:04:40 every day.",
        ),
        ("*/10 * 9-10 * * *", "Every 10 seconds from 09:00:00 to 10:59:50 every day."),
        ("*/30 */2 9 * * *", "Every 30 seconds in every 2nd minute from 0 to 58 of hour 9 every day."),
        ("* 0,30 * * * *", "Every second in minutes 0 and 30 of every hour."),
        ("* * */2 * * *", "Every second in every minute of every 2nd hour from 0 to 22 every day."),
        ("1,2 * 1,3,5,7 * * *", "At seconds 1 and 2 of every minute of hours 1, 3, 5 and 7 every day."),
        ("*/10 * * * 1 *", "Every 10 seconds in January."),
        ("*/10 * * 13 * FRI", "Every 10 seconds on day 13 of the month or on Friday."),
    ] {
        let options = CronOptions { seconds: true, ..CronOptions::default() };
        let spec = CronSpec::parse_with(text, &options).unwrap_or_else(|error| panic!("`{text}`: {error}"));
        assert_eq!(spec.sentence(), sentence, "{text}");
    }
}

#[test]
fn every_other_kind_of_schedule_has_its_sentence() {
    for (job_type, config, sentence) in [
        (JobType::Interval, json!({"minutes": 90}), "Every 90 minutes, counted from 2026-01-05T08:30:00Z."),
        (JobType::Interval, json!({"hours": 1}), "Every hour, counted from 2026-01-05T08:30:00Z."),
        (
            JobType::Interval,
            json!({"seconds": 3661}),
            "Every 1 hour, 1 minute and 1 second, counted from 2026-01-05T08:30:00Z.",
        ),
        (JobType::Interval, json!({"hours": 24}), "Every 24 hours, counted from 2026-01-05T08:30:00Z."),
        (JobType::Interval, json!({"days": 1}), "Every day, counted from 2026-01-05T09:30:00+01:00."),
        (JobType::Interval, json!({"days": 14}), "Every 2 weeks, counted from 2026-01-05T09:30:00+01:00."),
        (
            JobType::Interval,
            json!({"days": 200}),
            "Every 28 weeks and 4 days, counted from 2026-01-05T09:30:00+01:00.",
        ),
        (
            JobType::Interval,
            json!({"seconds": 1, "anchor": "2026-02-01T12:00:00.5+05:30"}),
            "Every second, counted from 2026-02-01T06:30:00.500Z.",
        ),
        (JobType::OneOff, json!({"run_at": "2030-01-31T09:00:00+01:00"}), "Once, at 2030-01-31T08:00:00Z."),
        (JobType::Manual, json!({}), "Only when triggered."),
    ] {
        let schedule = parse(job_type, &config, "Europe/Berlin").expect("a schedule");
        assert_eq!(describe(&schedule), sentence, "{config}");
    }
    for (config, sentence) in [
        (json!({"day": 13, "day_of_week": "fri"}), "At 00:00 on day 13 of the month if the day is a Friday."),
        (json!({"day": "last sun,1"}), "At 00:00 on day 1 of the month or on the last Sunday of the month."),
        (
            json!({"expression": "0 0 13 * FRI", "day_match": "both"}),
            "At 00:00 on day 13 of the month if the day is a Friday.",
        ),
        (json!({"expression": "0 0 1-31 * FRI", "day_match": "both"}), "At 00:00 on Friday."),
        (
            json!({"expression": "0 0 L 6 FRIL", "day_match": "both"}),
            "At 00:00 on the last day of June if the day is the last Friday of June.",
        ),
    ] {
        assert_eq!(
            describe(&parse(JobType::Cron, &config, "UTC").expect("a schedule")),
            sentence,
            "{config}"
        );
    }
    let cron = parse(JobType::Cron, &json!({"hour": "9", "day": "2nd fri"}), "UTC").expect("a schedule");
    assert!(matches!(cron, Schedule::Cron(_)));
    assert_eq!(describe(&cron), "At 09:00 on the second Friday of the month.");
}

fn fires(spec: &CronSpec, count: usize) -> Vec<NaiveDateTime> {
    let next = |at: &NaiveDateTime| spec.next_naive(*at).expect("the engine works");
    std::iter::successors(next(&utc("2026-01-01T00:00:00Z").naive_utc()), next).take(count).collect()
}

fn neighbours() -> impl Strategy<Value = (String, String)> {
    (expression(), expression(), 0..5_usize).prop_map(|(text, other, index)| {
        let replaced = text.split(' ').zip(other.split(' ')).enumerate();
        let words: Vec<&str> = replaced
            .map(|(position, (mine, theirs))| if position == index { theirs } else { mine })
            .collect();
        (text.clone(), words.join(" "))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_expression_has_a_sentence_of_its_own_meaning(
        (text, other) in neighbours(), chosen in day_match(), others in day_match(),
    ) {
        let (Ok(one), Ok(two)) = (parse_with(&text, chosen), parse_with(&other, others)) else { return Ok(()) };
        for sentence in [one.sentence(), two.sentence()] {
            prop_assert!(sentence.ends_with('.') && sentence.starts_with(char::is_uppercase), "{}", sentence);
            prop_assert!(!sentence.contains("  ") && !sentence.contains(" ."), "{}", sentence);
        }
        if one.sentence() == two.sentence() {
            prop_assert_eq!(fires(&one, 200), fires(&two, 200), "{} and {} are both: {}", text, other, one.sentence());
        }
    }

    #[test]
    fn every_expression_with_seconds_has_a_sentence_of_its_own_meaning(
        (text, other) in neighbours(), second in seconds::second(), others in seconds::second(),
    ) {
        let parse = |second: &str, text: &str| {
            CronSpec::parse_with(&format!("{second} {text}"), &CronOptions { seconds: true, ..CronOptions::default() })
        };
        let (Ok(one), Ok(two), Ok(three)) = (parse(&second, &text), parse(&others, &text), parse(&second, &other)) else {
            return Ok(());
        };
        prop_assert!(!one.sentence().contains("  ") && !one.sentence().contains(" ."), "{}", one.sentence());
        for two in [two, three] {
            if one.sentence() == two.sentence() {
                prop_assert_eq!(fires(&one, 300), fires(&two, 300), "{} and {} are both: {}", one, two, one.sentence());
            }
        }
    }

    #[test]
    fn no_text_of_cron_characters_makes_the_sentence_panic(
        words in prop::collection::vec("[*?L]|[0-9*/,-]{1,7}|[0-9]{1,2}[W#L][0-9]?|[A-Za-z]{3}(-[A-Za-z]{3})?", 5),
    ) {
        if let Ok(spec) = CronSpec::parse(&words.join(" ")) {
            prop_assert!(spec.sentence().len() > 5);
        }
    }

    #[test]
    fn every_interval_has_a_sentence(seconds in 1..3_000_000_000_u32, days in 1..36_000_u32) {
        for config in [json!({"seconds": seconds}), json!({"days": days})] {
            let schedule = parse(JobType::Interval, &config, "America/New_York").expect("a schedule");
            let sentence = describe(&schedule);
            prop_assert!(sentence.starts_with("Every ") && sentence.contains(", counted from 2026-01-05T"), "{}", sentence);
        }
    }
}
