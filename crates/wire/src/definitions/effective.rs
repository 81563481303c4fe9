//! Values that apply to a job or a function, with their origins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::enums::SettingOrigin;

/// Values that apply where several places may set them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EffectiveSettings {
    /// Maximum number of attempts of a run, the first included.
    pub max_attempts: EffectiveNumber,
    /// Timeout of an attempt in seconds.
    pub timeout_seconds: EffectiveNumber,
    /// Queue of new runs.
    pub queue: EffectiveName,
}

/// A number that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EffectiveNumber {
    /// The value.
    pub value: u32,
    /// Origin of the value.
    pub origin: SettingOrigin,
}

/// A name that applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EffectiveName {
    /// The name.
    pub value: String,
    /// Origin of the name.
    pub origin: SettingOrigin,
}
