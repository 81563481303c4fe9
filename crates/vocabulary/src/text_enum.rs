//! A macro for enums that are stored and sent as fixed words.
//!
//! A test compares the words with the CHECK constraint of the column (`sched_model`, tests
//! `enums`).

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is unknown; use one of {}", allowed.join(", "))]
pub struct UnknownWord {
    pub word: String,
    /// The accepted words.
    pub allowed: &'static [&'static str],
}

#[macro_export]
macro_rules! text_enum {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        $vis enum $name { $($(#[$vmeta])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Every word, in the order of declaration.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::UnknownWord { word: word.to_owned(), allowed: Self::WORDS }),
                }
            }
        }
    };
}
