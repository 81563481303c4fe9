//! Suggests a known name. Pure.

/// Jaro-Winkler.
const SIMILAR: f64 = 0.85;

/// `None` if no name is similar enough.
pub(crate) fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let scored = known.into_iter().filter(|candidate| *candidate != name);
    let scored = scored.map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(score, _)| *score >= SIMILAR).map(|(_, candidate)| candidate)
}

pub(crate) fn unknown_field(field: &str, known: &[&str]) -> String {
    let meant = closest(field, known.iter().copied());
    let meant = meant.map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
    format!("unknown field `{field}`{meant}; known are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_much_alike_is_suggested_and_nothing_else() {
        let known = ["job_type", "timezone", "nightly-report"];
        for (name, meant) in [
            ("job_typ", Some("job_type")),
            ("jobtype", Some("job_type")),
            ("time_zone", Some("timezone")),
            ("nightly-reprot", Some("nightly-report")),
            ("Nightly-Report", Some("nightly-report")),
            ("colour", None),
            ("", None),
            ("timezone", None),
        ] {
            assert_eq!(closest(name, known), meant, "{name}");
        }
        assert_eq!(
            unknown_field("job_typ", &known),
            "unknown field `job_typ`, did you mean `job_type`?; known are job_type, timezone, nightly-report"
        );
    }
}
