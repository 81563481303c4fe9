#![doc = include_str!("../README.md")]

#[macro_use]
mod text_enum;

pub mod attempt;
#[cfg(feature = "columns")]
mod columns;
pub mod dependency;
pub mod function;
pub mod identity;
pub mod ids;
pub mod instance;
pub mod job;
pub mod notification;
pub mod run_state;
pub mod schedule;

pub use text_enum::UnknownWord;
