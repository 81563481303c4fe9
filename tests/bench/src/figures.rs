//! The figures: values over repetitions, their references, and whether they pass. Pure.

use serde_json::{Value, json};

use crate::curves::Curve;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bar {
    AtMost(f64),
    Below(f64),
    RatioAtLeast(f64),
    RatioAtMost(f64),
    Exactly(f64),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    pub(crate) what: String,
    /// Value in the unit of the figure, if there is one.
    pub(crate) value: Option<f64>,
}

impl Reference {
    pub(crate) fn none(why: &str) -> Self {
        Self { what: why.to_owned(), value: None }
    }

    pub(crate) fn value(what: impl Into<String>, value: f64) -> Self {
        Self { what: what.into(), value: Some(value) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    Median,
    Largest,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) runs: Vec<f64>,
    pub(crate) judged: Judged,
    pub(crate) reference: Reference,
    pub(crate) bar: Bar,
    pub(crate) also: Vec<(String, f64, &'static str)>,
    pub(crate) curves: Vec<Curve>,
}

#[derive(Debug, Clone)]
pub(crate) struct Goal {
    pub(crate) reference: Reference,
    pub(crate) bar: Bar,
}

impl Figure {
    /// A figure of one or more repetitions. The median decides.
    pub(crate) fn new(name: &str, unit: &'static str, runs: &[f64], goal: Goal) -> Self {
        let Goal { reference, bar } = goal;
        Self {
            name: name.to_owned(),
            unit,
            runs: runs.to_vec(),
            judged: Judged::Median,
            reference,
            bar,
            also: Vec::new(),
            curves: Vec::new(),
        }
    }

    pub(crate) fn by_largest(mut self) -> Self {
        self.judged = Judged::Largest;
        self
    }

    pub(crate) fn also(mut self, name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        self.also.push((name.into(), value, unit));
        self
    }

    pub(crate) fn curve(mut self, curve: Curve) -> Self {
        self.curves.push(curve);
        self
    }

    pub(crate) fn value(&self) -> f64 {
        match self.judged {
            Judged::Median => median(&self.runs),
            Judged::Largest => largest(&self.runs),
        }
    }

    pub(crate) fn ratio(&self) -> Option<f64> {
        self.reference.value.map(|reference| self.value() / reference)
    }

    /// Whether the figure reaches its bar. A figure without a value does not.
    pub(crate) fn passes(&self) -> bool {
        match self.bar {
            Bar::AtMost(most) => self.value() <= most,
            Bar::Below(most) => self.value() < most,
            Bar::RatioAtLeast(least) => self.ratio().is_some_and(|ratio| ratio >= least),
            Bar::RatioAtMost(most) => self.ratio().is_some_and(|ratio| ratio <= most),
            Bar::Exactly(wanted) => self.value() == wanted,
        }
    }

    pub(crate) fn bar_text(&self) -> String {
        match self.bar {
            Bar::AtMost(most) => format!("<= {} {}", number(most), self.unit),
            Bar::Below(most) => format!("< {} {}", number(most), self.unit),
            Bar::RatioAtLeast(least) => format!("ratio >= {least:.2}"),
            Bar::RatioAtMost(most) => format!("ratio <= {most:.2}"),
            Bar::Exactly(wanted) => format!("= {} {}", number(wanted), self.unit),
        }
    }

    pub(crate) fn spread_text(&self) -> String {
        if self.runs.len() < 2 {
            return "1 run".to_owned();
        }
        format!(
            "{} .. {} ({} runs)",
            number(smallest(&self.runs)),
            number(largest(&self.runs)),
            self.runs.len()
        )
    }

    pub(crate) fn json(&self) -> Value {
        let also: Vec<Value> = self
            .also
            .iter()
            .map(|(name, value, unit)| json!({"name": name, "value": value, "unit": unit}))
            .collect();
        json!({
            "name": self.name,
            "value": self.value(),
            "unit": self.unit,
            "reference": self.reference.what,
            "reference_value": self.reference.value,
            "ratio": self.ratio(),
            "bar": self.bar_text(),
            "pass": self.passes(),
            "spread": [smallest(&self.runs), largest(&self.runs)],
            "runs": self.runs,
            "also": also,
            "curves": self.curves.iter().map(Curve::json).collect::<Vec<Value>>(),
        })
    }
}

/// Formats a number with about three significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// NaN of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let middle = (percentile(values, 0.5), percentile_above(values, 0.5));
    (middle.0 + middle.1) / 2.0
}

/// The smallest value that is at least as large as this share of the values; NaN of nothing.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let rank = (values.len() as f64 * share).ceil() - 1.0;
    at(values, rank)
}

fn percentile_above(values: &[f64], share: f64) -> f64 {
    let rank = (values.len() as f64 * share).floor();
    at(values, rank)
}

fn at(values: &[f64], rank: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // A small whole number; a negative one saturates to the first.
    let rank = rank as usize;
    sorted.get(rank.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

pub(crate) fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::min).unwrap_or(f64::NAN)
}

pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::max).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn percentile_is_one_of_the_values() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((percentile(&hundred, 0.5), percentile(&hundred, 0.99)), (50.0, 99.0));
        assert_eq!(percentile(&[5.0], 0.99), 5.0);
        assert_eq!(percentile(&hundred, 1.0), 100.0);
    }

    #[test]
    fn each_kind_of_bar_is_checked() {
        let figure = |bar| {
            Figure::new("a", "ms", &[50.0, 60.0, 40.0], Goal { reference: Reference::value("b", 100.0), bar })
        };
        assert!(figure(Bar::AtMost(50.0)).passes() && !figure(Bar::Below(50.0)).passes());
        assert!(figure(Bar::RatioAtMost(0.5)).passes() && !figure(Bar::RatioAtMost(0.49)).passes());
        assert!(figure(Bar::RatioAtLeast(0.5)).passes() && !figure(Bar::RatioAtLeast(0.51)).passes());
        assert!(!figure(Bar::AtMost(50.0)).by_largest().passes());
        assert!(figure(Bar::Exactly(50.0)).passes() && !figure(Bar::Exactly(51.0)).passes());
    }

    #[test]
    fn figure_without_a_value_passes_no_bar() {
        let nothing = |bar| Figure::new("a", "ms", &[], Goal { reference: Reference::value("b", 1.0), bar });
        for bar in [
            Bar::AtMost(1.0),
            Bar::Below(1.0),
            Bar::RatioAtLeast(0.1),
            Bar::RatioAtMost(1.0),
            Bar::Exactly(1.0),
        ] {
            assert!(!nothing(bar).passes() && !nothing(bar).by_largest().passes(), "{bar:?}");
        }
        let none = Figure::new(
            "a",
            "ms",
            &[1.0],
            Goal { reference: Reference::none("nothing"), bar: Bar::RatioAtLeast(0.1) },
        );
        assert!(!none.passes(), "there is no ratio without a reference");
    }

    #[test]
    fn json_has_the_documented_fields() {
        let figure = Figure::new(
            "a",
            "ms",
            &[1.0],
            Goal { reference: Reference::value("b", 2.0), bar: Bar::AtMost(3.0) },
        )
        .also("c", 4.0, "MiB");
        let json = figure.json();
        assert_eq!(json["name"], "a");
        assert_eq!((json["value"].as_f64(), json["ratio"].as_f64()), (Some(1.0), Some(0.5)));
        assert_eq!((json["bar"].as_str(), json["pass"].as_bool()), (Some("<= 3.00 ms"), Some(true)));
        assert_eq!(json["also"][0]["name"], "c");
    }
}
