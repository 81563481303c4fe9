//! Prometheus histograms and counters of the time between two samples. Pure.

use std::collections::BTreeMap;

/// The number of values up to each bound, the last of which is infinite.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Histogram(Vec<(f64, f64)>);

impl Histogram {
    /// Over all labels; empty when the metric is missing.
    pub(super) fn read(text: &str, metric: &str) -> Self {
        let mut buckets = Vec::<(f64, f64)>::new();
        let start = format!("{metric}_bucket{{");
        for line in text.lines().filter_map(|line| line.strip_prefix(&start)) {
            let Some((_, rest)) = line.split_once("le=\"") else { continue };
            let Some((bound, rest)) = rest.split_once('"') else { continue };
            let count = rest.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok());
            // Rust parses "+Inf" as a number.
            let (Ok(bound), Some(count)) = (bound.parse::<f64>(), count) else { continue };
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, sum)) => *sum += count,
                None => buckets.push((bound, count)),
            }
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(buckets)
    }

    pub(super) fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, count)| *count)
    }

    /// The increase since `before`; the whole histogram after a restart.
    fn since(&self, before: &Self) -> Self {
        if self.count() < before.count() {
            return self.clone();
        }
        let counts = self.0.iter().map(|(bound, count)| {
            let known = before.0.iter().find(|(other, _)| other == bound);
            (*bound, count - known.map_or(0.0, |(_, count)| *count))
        });
        Self(counts.collect())
    }

    pub(super) fn add(&mut self, other: &Self) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        for ((_, count), (_, more)) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    /// Linear interpolation between two bounds; NaN of nothing, and the last finite bound beyond
    /// that.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let wanted = self.count() * share;
        if wanted == 0.0 {
            return f64::NAN;
        }
        let (mut low, mut below) = (0.0, 0.0);
        for (bound, count) in &self.0 {
            if *count >= wanted {
                if bound.is_infinite() {
                    return low;
                }
                return low + (bound - low) * (wanted - below) / (count - below).max(f64::MIN_POSITIVE);
            }
            (low, below) = (*bound, *count);
        }
        low
    }
}

#[derive(Debug, Default)]
pub(super) struct Meters {
    last: BTreeMap<(String, &'static str), Histogram>,
    counters: BTreeMap<String, f64>,
}

impl Meters {
    /// The increase since the last read; nothing the first time.
    pub(super) fn histogram(&mut self, daemon: &str, metric: &'static str, text: &str) -> Histogram {
        let now = Histogram::read(text, metric);
        match self.last.insert((daemon.to_owned(), metric), now.clone()) {
            Some(before) => now.since(&before),
            None => Histogram::default(),
        }
    }

    /// The increase over all labels.
    pub(super) fn counter(&mut self, daemon: &str, metric: &str, text: &str) -> f64 {
        let of = |line: &str| {
            let rest = line.strip_prefix(metric)?;
            rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
        };
        let now: f64 = text.lines().filter_map(of).sum();
        let before = self.counters.insert(format!("{daemon} {metric}"), now).unwrap_or(0.0);
        if now < before { now } else { now - before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(counts: [u32; 3]) -> String {
        let [a, b, c] = counts;
        format!(
            "# TYPE x_seconds histogram\nx_seconds_bucket{{le=\"0.01\"}} {a}\nx_seconds_bucket{{le=\"0.1\"}} {b}\n\
             x_seconds_bucket{{le=\"+Inf\"}} {c}\nx_seconds_sum 3\nx_seconds_count {c}\n\
             y_total{{kind=\"a\"}} {a}\ny_total{{kind=\"b\"}} 1\ny_total_other 100\n"
        )
    }

    #[test]
    fn window_has_the_increase_between_two_samples_also_after_a_restart() {
        let mut meters = Meters::default();
        assert_eq!(meters.histogram("a", "x_seconds", &page([1, 2, 3])).count(), 0.0);
        assert_eq!(meters.histogram("a", "x_seconds", &page([1, 12, 13])).count(), 10.0);
        assert_eq!(meters.histogram("a", "x_seconds", &page([1, 1, 2])).count(), 2.0);
        assert_eq!(meters.counter("a", "y_total", &page([4, 9, 9])), 5.0);
        assert_eq!(meters.counter("a", "y_total", &page([6, 9, 9])), 2.0);
        assert_eq!(meters.counter("a", "y_total", &page([0, 9, 9])), 1.0);
    }

    #[test]
    fn quantile_is_in_its_bucket() {
        let histogram = Histogram::read(&page([50, 100, 100]), "x_seconds");
        assert!((histogram.quantile(0.5) - 0.01).abs() < 1e-9);
        assert!((histogram.quantile(0.75) - 0.055).abs() < 1e-9);
        assert_eq!(Histogram::read(&page([0, 0, 1]), "x_seconds").quantile(0.99), 0.1);
        assert!(Histogram::default().quantile(0.5).is_nan());
        let mut sum = histogram.clone();
        sum.add(&histogram);
        assert_eq!((sum.count(), sum.quantile(0.5)), (200.0, histogram.quantile(0.5)));
    }
}
