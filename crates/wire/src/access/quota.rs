//! Quotas of tenants, and their use.

use chrono::NaiveDate;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The quotas of a tenant. `null` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quotas {
    /// Maximum number of jobs, without built-in and deleted ones.
    pub jobs: Option<i64>,
    /// Maximum number of runs that schedules and triggers create per minute.
    pub runs_per_minute: Option<i64>,
    /// Maximum number of running runs.
    pub concurrent_runs: Option<i64>,
    /// Maximum bytes of stored output per day (UTC).
    pub log_bytes: Option<i64>,
}

/// Changes of quotas. Absent fields keep their value; `null` removes a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotasPatch {
    /// Maximum number of jobs.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Option<i64>>,
    /// Maximum number of runs that schedules and triggers create per minute.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub runs_per_minute: Option<Option<i64>>,
    /// Maximum number of running runs.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub concurrent_runs: Option<Option<i64>>,
    /// Maximum bytes of stored output per day (UTC).
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<Option<i64>>,
}

/// Distinguishes `null` from an absent field.
fn nullable<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<i64>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// Use of one quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaUse {
    /// Limit; `null` without one.
    pub limit: Option<i64>,
    /// Current use; `null` if it is counted only under a limit and no limit is set.
    pub used: Option<i64>,
}

/// Use of the quotas of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Slug of the tenant.
    pub tenant: String,
    /// Number of jobs, without built-in and deleted ones.
    pub jobs: QuotaUse,
    /// Number of runs that schedules and triggers created in this minute.
    pub runs_per_minute: QuotaUse,
    /// Number of running runs.
    pub concurrent_runs: QuotaUse,
    /// Bytes of output stored today.
    pub log_bytes: QuotaUse,
    /// Bytes of output that were dropped today because the quota was used up; `null` without a
    /// quota.
    pub log_bytes_dropped: Option<i64>,
    /// The day (UTC) of the daily counts.
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
