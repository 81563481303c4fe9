//! Closed vocabularies; each variant is sent as a fixed word.
//!
//! Enums of requests list only the words that this release accepts, so the error for another word
//! lists exactly those. Answers and bodies have the exact words; parameters and the command line take
//! them in any case.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize as _;
use serde::de::{Deserializer, Error as _};

/// A word outside its vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    /// The given word.
    pub word: String,
    /// The accepted words.
    pub allowed: &'static [&'static str],
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is unknown; use one of {}", self.word, self.allowed.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

/// For `deserialize_with` of a parameter: a word in any case.
pub(crate) fn any_case<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err = UnknownWord>,
    D: Deserializer<'de>,
{
    let word = String::deserialize(from)?;
    let known = word.parse::<T>().map(Some);
    known.map_err(|unknown| D::Error::unknown_variant(&unknown.word, unknown.allowed))
}

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name { $($(#[$variant_meta])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Every word, in the order of declaration.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns the word of the variant.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                let is_it = |known: &Self| known.as_str().eq_ignore_ascii_case(word);
                let known = Self::ALL.iter().copied().find(is_it);
                known.ok_or_else(|| UnknownWord { word: word.to_owned(), allowed: Self::WORDS })
            }
        }
    };
}

mod definitions;
mod operations;
mod running;

pub use self::definitions::{
    AfterCondition, AfterMode, BackoffType, CalendarRoll, ChannelKind, DstGap, DstOverlap, FireNote,
    HandlerType, JobChange, JobSort, JobStatus, JobType, MisfirePolicy, Occasion, OverlapPolicy, Scope,
    SettingOrigin,
};
pub use self::operations::{
    DeliveryStatus, EndReason, EventType, LeaderState, MessageKind, ResetReason, SchedulerStatus,
    WorkerStatus,
};
pub use self::running::{
    AttemptFilter, AttemptStatus, CancelState, DeadLetterChoice, DeadLetterState, RunFilter, RunStatus,
    StuckReason, TimeSort,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_the_same_in_text_and_in_json() {
        for status in RunStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(*status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        for policy in MisfirePolicy::ALL {
            assert_eq!(serde_json::from_value::<MisfirePolicy>(policy.as_str().into()).unwrap(), *policy);
        }
    }

    #[test]
    fn parameters_take_a_word_in_any_case() {
        assert_eq!("Timed_Out".parse(), Ok(RunFilter::TimedOut));
        let parameter = |word: &str| any_case::<RunFilter, _>(serde_json::Value::from(word));
        assert_eq!(parameter("FAILING").unwrap(), Some(RunFilter::Failing));
        let refused = parameter("PENDING").unwrap_err().to_string();
        assert!(refused.contains("`waiting`") && refused.contains("PENDING"), "{refused}");
        assert!(serde_json::from_value::<RunFilter>("FAILING".into()).is_err(), "a body has the exact word");
    }

    #[test]
    fn filters_take_every_state_and_failing() {
        let with_failing = |states: &[&'static str]| [states, &["failing"]].concat();
        assert_eq!(RunFilter::WORDS, with_failing(RunStatus::WORDS));
        assert_eq!(AttemptFilter::WORDS, with_failing(AttemptStatus::WORDS));
    }

    #[test]
    fn an_unknown_word_is_refused_with_those_that_are_known() {
        let in_json = serde_json::from_str::<OverlapPolicy>("\"wait\"").unwrap_err().to_string();
        let in_text = "wait".parse::<OverlapPolicy>().unwrap_err().to_string();
        for text in [in_json, in_text] {
            assert!(text.contains("skip") && text.contains("allow"), "{text}");
        }
    }
}
