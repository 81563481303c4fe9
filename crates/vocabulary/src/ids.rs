//! Identifiers, one type per kind of object.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    )+};
}

id! {
    TenantId,
    ProjectId,
    FunctionId,
    JobId,
    /// A dispatch: one fire time or trigger to be executed.
    DispatchId,
    /// An attempt: one execution of a dispatch.
    ExecutionId,
    /// Random for every start of a worker.
    WorkerId,
    /// Random for every start of a scheduler.
    InstanceId,
    /// One user may be a member of several tenants.
    UserId,
    ApiKeyId,
    SessionId,
}

/// Every installation has it from its first migration on.
pub const DEFAULT_TENANT: TenantId = TenantId(Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0001));

/// Grows with every change of leader and is never reused; it fences the old leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Term(pub i64);

/// Grows with every claim and is never reused; it fences a worker that lost its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimToken(pub i64);

/// A UUID version 7 for an instant of the database's clock.
///
/// Identifiers of one millisecond are in random order.
#[must_use]
pub fn time_ordered(at: chrono::DateTime<chrono::Utc>) -> Uuid {
    let seconds = u64::try_from(at.timestamp()).unwrap_or(0);
    Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, at.timestamp_subsec_nanos()))
}

/// Identifiers made before the instant sort before it, those made at it or later do not.
#[must_use]
pub fn first_of(at: chrono::DateTime<chrono::Utc>) -> Uuid {
    let milliseconds = u64::try_from(at.timestamp_millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(milliseconds, &[0; 10]).into_uuid()
}

/// The instant of a time-ordered identifier, in milliseconds; `None` for another kind.
#[must_use]
pub fn instant_of(id: Uuid) -> Option<chrono::DateTime<chrono::Utc>> {
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    chrono::DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanoseconds)
}

/// The identifier of the attempt under a claim of `dispatch`.
///
/// It follows from the claim, so that the worker and a leader that gives the attempt up use the
/// same one. Time-ordered like [`time_ordered`]; as hard to guess as the dispatch, whose random
/// part it takes; unique because no token is used twice.
#[must_use]
pub fn execution_id(
    claimed_at: chrono::DateTime<chrono::Utc>,
    dispatch: DispatchId,
    token: ClaimToken,
) -> ExecutionId {
    let milliseconds = u64::try_from(claimed_at.timestamp_millis()).unwrap_or(0);
    let mut rest = [0; 10];
    for (to, from) in rest.iter_mut().zip(dispatch.0.into_bytes().into_iter().skip(6)) {
        *to = from;
    }
    for (to, from) in rest.iter_mut().skip(2).zip(token.0.to_be_bytes()) {
        *to ^= from;
    }
    ExecutionId(uuid::Builder::from_unix_timestamp_millis(milliseconds, &rest).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempt_id_is_derived_from_its_claim() {
        let at = chrono::DateTime::from_timestamp_millis(1_790_000_000_000).unwrap();
        let dispatch = DispatchId(time_ordered(at));
        let id = |token| execution_id(at, dispatch, ClaimToken(token));
        let tokens = (1..2_000).chain([i64::MAX, i64::MAX - 1, 1 << 60, (1 << 60) + 1]);
        let ids: std::collections::HashSet<_> = tokens.map(id).collect();
        assert_eq!(ids.len(), 2_003);
        assert_eq!(id(7), id(7));
        assert_ne!(id(7), execution_id(at, DispatchId(time_ordered(at)), ClaimToken(7)));
        assert!(id(9) < execution_id(at + chrono::TimeDelta::milliseconds(1), dispatch, ClaimToken(1)));
    }

    #[test]
    fn ids_sort_around_the_first_one_of_an_instant() {
        let at = chrono::DateTime::from_timestamp_millis(1_790_000_000_000).unwrap();
        let before = at - chrono::TimeDelta::milliseconds(1);
        for _ in 0..100 {
            assert!(time_ordered(before) < first_of(at) && first_of(at) <= time_ordered(at));
        }
        assert_eq!(instant_of(time_ordered(at)), Some(at));
        assert_eq!(instant_of(Uuid::nil()), None);
    }

    #[test]
    fn time_ordered_ids_sort_by_their_instant() {
        let early = chrono::DateTime::from_timestamp_millis(1_790_000_000_000).unwrap();
        let late = early + chrono::TimeDelta::milliseconds(1);
        for _ in 0..100 {
            assert!(time_ordered(early) < time_ordered(late));
        }
    }
}
