//! The worker daemon: claims due dispatches, runs them through their handlers and stores how they ended.

pub mod handlers;
