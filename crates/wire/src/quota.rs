//! Quotas of tenants, and how much of them is used. Plain data.

use chrono::NaiveDate;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// What a tenant may use. What is `null` has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quotas {
    /// How many jobs it may have, built-in and deleted ones not counted.
    pub jobs: Option<i64>,
    /// How many runs fire times and triggers may make in a minute.
    pub runs_per_minute: Option<i64>,
    /// How many runs may run at once.
    pub concurrent_runs: Option<i64>,
    /// How many bytes of output are kept in a day (UTC).
    pub log_bytes: Option<i64>,
}

/// What is to be different about quotas. What is left out stays; `null` takes the limit away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotasPatch {
    /// How many jobs it may have.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Option<i64>>,
    /// How many runs fire times and triggers may make in a minute.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub runs_per_minute: Option<Option<i64>>,
    /// How many runs may run at once.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub concurrent_runs: Option<Option<i64>>,
    /// How many bytes of output are kept in a day (UTC).
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<Option<i64>>,
}

/// Tells `null` from nothing.
fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<i64>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// How much of one quota is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaUse {
    /// The limit; `null` without one.
    pub limit: Option<i64>,
    /// How much is used; `null` where it is counted only under a limit, and there is none.
    pub used: Option<i64>,
}

/// How much of its quotas a tenant uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Short stable name of the tenant.
    pub tenant: String,
    /// Jobs, built-in and deleted ones not counted.
    pub jobs: QuotaUse,
    /// Runs that fire times and triggers have made in this minute.
    pub runs_per_minute: QuotaUse,
    /// Runs that run.
    pub concurrent_runs: QuotaUse,
    /// Bytes of output kept today.
    pub log_bytes: QuotaUse,
    /// Bytes of output that were not kept today, because the quota was used up; `null` without one.
    pub log_bytes_dropped: Option<i64>,
    /// Which day (UTC) today is.
    pub day: NaiveDate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_takes_a_limit_away_and_nothing_leaves_it() {
        let patch: QuotasPatch = serde_json::from_str(r#"{"jobs": null, "log_bytes": 5}"#).unwrap();
        assert_eq!((patch.jobs, patch.log_bytes, patch.concurrent_runs), (Some(None), Some(Some(5)), None));
        assert_eq!(serde_json::to_string(&patch).unwrap(), r#"{"jobs":null,"log_bytes":5}"#);
        assert!(serde_json::from_str::<QuotasPatch>(r#"{"job": 1}"#).is_err());
    }
}
