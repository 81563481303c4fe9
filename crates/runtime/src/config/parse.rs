//! Parsers from text to a value. An error text continues the value: `worker-concurrency = "x" (flag
//! …) must be …`.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Ten years. Much longer durations overflow the clock's arithmetic.
pub(crate) const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

pub(crate) fn text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

pub(crate) fn duration(text: &str, allowed: &RangeInclusive<Duration>) -> Result<Duration, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err("needs a unit, for example 500ms, 10s, 5min or 2h".to_owned());
    }
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("must be a duration with a unit, for example 10s or 5min ({error})"))?;
    if allowed.contains(&duration) {
        return Ok(duration);
    }
    let end = humantime::format_duration(*allowed.end());
    match *allowed.start() {
        start if start <= Duration::from_nanos(1) => Err(format!("must be longer than 0s and at most {end}")),
        start => Err(format!("must be from {} to {end}", humantime::format_duration(start))),
    }
}

pub(crate) fn integer<T: FromStr + PartialOrd + Display>(
    text: &str,
    allowed: &RangeInclusive<T>,
) -> Result<T, String> {
    // The bounds in the message cover both causes.
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("must be a whole number from {} to {}", allowed.start(), allowed.end()))
}

pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

pub(crate) fn list(text: &str) -> Result<Vec<String>, String> {
    let items: Vec<String> =
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect();
    if items.is_empty() {
        Err("must name at least one item, separated by commas".to_owned())
    } else {
        Ok(items)
    }
}

pub(crate) fn choice<T: FromStr>(text: &str, allowed: &[&str]) -> Result<T, String> {
    let fault = || format!("must be one of {}", allowed.join(", "));
    if !allowed.contains(&text) {
        return Err(fault());
    }
    // Callers pass only words that `T` parses.
    text.parse().map_err(|_unknown| fault())
}

pub(crate) fn ip(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse().map_err(|_error| "must be an IP address, for example 127.0.0.1, 0.0.0.0 or ::1".to_owned())
}

pub(crate) fn host(text: &str) -> Result<String, String> {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let name = text.len() <= 253 && text.trim_end_matches('.').split('.').all(label);
    if name || text.parse::<IpAddr>().is_ok() {
        Ok(text.to_owned())
    } else {
        Err("must be a host name or an IP address, without scheme and port".to_owned())
    }
}
