//! Metrics that an attempt reports about itself, such as rows read or bytes sent. History keeps
//! them beside the result.

use std::collections::BTreeMap;

use sched_model::domain::metric;
use serde_json::{Number, Value};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Metrics(BTreeMap<String, Number>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MetricError {
    #[error("{0:?} is not a metric name; use up to 64 lower-case letters, digits and _")]
    Name(String),
    #[error("metric {0:?} is not a finite number")]
    Number(String),
    #[error("metric {0:?} was dropped: an attempt keeps at most {most} metrics", most = metric::MOST)]
    TooMany(String),
}

impl Metrics {
    pub(super) fn set(&mut self, name: &str, value: Value) -> Result<(), MetricError> {
        if !metric::is_name(name) {
            // An invalid name may have any content and any length.
            return Err(MetricError::Name(name.chars().take(100).collect()));
        }
        let Value::Number(number) = value else { return Err(MetricError::Number(name.to_owned())) };
        if self.0.len() >= metric::MOST && !self.0.contains_key(name) {
            return Err(MetricError::TooMany(name.to_owned()));
        }
        self.0.insert(name.to_owned(), number);
        Ok(())
    }

    /// Also the first reason why a metric was rejected. A member without any valid number is not a
    /// list of metrics: then there is no error.
    pub(super) fn of_result(result: &Value) -> (Self, Option<MetricError>) {
        let mut metrics = Self::default();
        let members = result.get("metrics").and_then(Value::as_object);
        let refused =
            members.into_iter().flatten().filter_map(|(name, value)| metrics.set(name, value.clone()).err());
        let first = refused.collect::<Vec<_>>().into_iter().next();
        let is_meant = !metrics.0.is_empty();
        (metrics, first.filter(|_| is_meant))
    }

    /// `None` if there are no metrics.
    pub(super) fn into_json(self) -> Option<Value> {
        let numbers = self.0.into_iter().map(|(name, number)| (name, Value::Number(number)));
        Some(numbers.collect::<serde_json::Map<_, _>>()).filter(|all| !all.is_empty()).map(Value::Object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metrics_need_valid_names_and_are_limited() {
        let mut metrics = Metrics::default();
        for (name, value, expected) in [
            ("rows", json!(1), Ok(())),
            ("rows", json!(7), Ok(())),
            ("share", json!(0.5), Ok(())),
            ("Rows", json!(1), Err(MetricError::Name("Rows".into()))),
            ("text", json!("1"), Err(MetricError::Number("text".into()))),
            ("nothing", Value::from(f64::NAN), Err(MetricError::Number("nothing".into()))),
        ] {
            assert_eq!(metrics.set(name, value), expected, "{name}");
        }
        assert_eq!(metrics.clone().into_json(), Some(json!({"rows": 7, "share": 0.5})));
        for number in 0..18 {
            metrics.set(&format!("n{number}"), json!(number)).unwrap();
        }
        assert_eq!(metrics.set("more", json!(1)), Err(MetricError::TooMany("more".into())));
        assert_eq!(metrics.set("rows", json!(8)), Ok(()), "it is there already");
        assert_eq!(Metrics::default().into_json(), None);
    }

    #[test]
    fn foreign_metrics_member_is_ignored() {
        let of = |result: Value| {
            let (metrics, wrong) = Metrics::of_result(&result);
            (metrics.into_json(), wrong.map(|wrong| wrong.to_string()))
        };
        assert_eq!(of(json!({"metrics": {"rows": 3}, "other": 1})), (Some(json!({"rows": 3})), None));
        let mixed = of(json!({"metrics": {"rows": 3, "text": "a"}}));
        assert_eq!(
            mixed,
            (Some(json!({"rows": 3})), Some("metric \"text\" is not a finite number".to_owned()))
        );
        for other in [json!(null), json!([1]), json!({"metrics": 3}), json!({"metrics": {"A": {"b": 1}}})] {
            assert_eq!(of(other.clone()), (None, None), "{other}");
        }
    }
}
