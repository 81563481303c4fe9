#![doc = include_str!("../README.md")]

pub mod db;
pub mod domain;
pub mod fences;
