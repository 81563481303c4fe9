//! Tests of schedules through their public face.

mod dialect;
