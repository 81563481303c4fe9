//! Mappings of domain types to columns.
//!
//! A test compares the words of every enum with the CHECK constraint of its column.

use diesel::deserialize::{self, FromSql, Queryable};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::{BigInt, Nullable, SingleValue, Text, Uuid as SqlUuid};

use crate::attempt::AttemptOutcome;
use crate::dependency::{AfterCondition, AfterMode};
use crate::function::HandlerType;
use crate::identity::Role;
use crate::ids::{
    ApiKeyId, ClaimToken, DispatchId, ExecutionId, FunctionId, InstanceId, JobId, ProjectId, SessionId,
    TenantId, Term, UserId, WorkerId,
};
use crate::instance::{TermEnd, WorkerStatus};
use crate::job::{MisfireKind, Scope};
use crate::notification::{ChannelKind, DeliveryStatus, MessageKind, Occasion};
use crate::run_state::{DispatchStatus, Settlement, Trigger};
use crate::schedule::{CalendarRoll, DstGap, DstOverlap, JobType, OverlapPolicy, SkipReason};

/// Binds a type to a column of one SQL type through a plain value.
macro_rules! column {
    ($type:ty as $sql:ty, via $inner:ty: $to:expr) => {
        impl ToSql<$sql, Pg> for $type {
            fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
                let to: fn($type) -> $inner = $to;
                ToSql::<$sql, Pg>::to_sql(&to(*self), &mut out.reborrow())
            }
        }
        column!(@expression $type, $sql, $inner, $to, |value: $type| value);
        column!(@expression &$type, $sql, $inner, $to, |value: &$type| *value);
        column!(@expression $type, Nullable<$sql>, $inner, $to, |value: $type| value);
        column!(@expression &$type, Nullable<$sql>, $inner, $to, |value: &$type| *value);

        impl<ST> Queryable<ST, Pg> for $type
        where
            ST: SingleValue,
            Self: FromSql<ST, Pg>,
        {
            type Row = Self;

            fn build(row: Self) -> deserialize::Result<Self> {
                Ok(row)
            }
        }
    };
    (@expression $type:ty, $sql:ty, $inner:ty, $to:expr, $owned:expr) => {
        impl AsExpression<$sql> for $type {
            type Expression = <$inner as AsExpression<$sql>>::Expression;

            fn as_expression(self) -> Self::Expression {
                AsExpression::<$sql>::as_expression(($to)(($owned)(self)))
            }
        }
    };
}

macro_rules! ids {
    ($($type:ident),+) => {$(
        column!($type as SqlUuid, via uuid::Uuid: |id: $type| id.0);
        impl FromSql<SqlUuid, Pg> for $type {
            fn from_sql(bytes: PgValue<'_>) -> deserialize::Result<Self> {
                <uuid::Uuid as FromSql<SqlUuid, Pg>>::from_sql(bytes).map(Self)
            }
        }
    )+};
}

macro_rules! numbers {
    ($($type:ident),+) => {$(
        column!($type as BigInt, via i64: |number: $type| number.0);
        impl FromSql<BigInt, Pg> for $type {
            fn from_sql(bytes: PgValue<'_>) -> deserialize::Result<Self> {
                <i64 as FromSql<BigInt, Pg>>::from_sql(bytes).map(Self)
            }
        }
    )+};
}

macro_rules! words {
    ($($type:ident),+) => {$(
        column!($type as Text, via String: |word: $type| word.as_str().to_owned());
        impl FromSql<Text, Pg> for $type {
            fn from_sql(bytes: PgValue<'_>) -> deserialize::Result<Self> {
                Ok(std::str::from_utf8(bytes.as_bytes())?.parse::<Self>()?)
            }
        }
    )+};
}

ids!(
    TenantId,
    ProjectId,
    FunctionId,
    JobId,
    DispatchId,
    ExecutionId,
    WorkerId,
    InstanceId,
    UserId,
    ApiKeyId,
    SessionId
);
numbers!(Term, ClaimToken);
words!(
    AfterCondition,
    AfterMode,
    AttemptOutcome,
    DispatchStatus,
    Trigger,
    HandlerType,
    TermEnd,
    WorkerStatus,
    OverlapPolicy,
    Scope,
    Settlement,
    SkipReason,
    JobType,
    MisfireKind,
    DstGap,
    DstOverlap,
    CalendarRoll,
    ChannelKind,
    DeliveryStatus,
    MessageKind,
    Occasion,
    Role
);
