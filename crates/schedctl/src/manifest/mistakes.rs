//! Errors of a jobs file: `file:line:column: job "name", field: message`, as editors recognise it.
//! Pure.

use std::fmt;
use std::path::PathBuf;

use crate::manifest::source_positions::{
    CALENDARS, CHANNELS, FUNCTIONS, JOBS, PROJECTS, Position, QUEUES, RULES, TEMPLATES,
};
use crate::output::neutral;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Where {
    pub(super) file: Option<PathBuf>,
    pub(super) position: Option<Position>,
    /// As in `job "name"`.
    pub(super) item: Option<String>,
    /// Below the item; empty for the whole item.
    pub(super) field: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) place: Where,
    pub(super) message: String,
}

pub(super) fn item(list: &str, name: &str) -> Option<String> {
    match list {
        PROJECTS => Some(format!("project {name:?}")),
        QUEUES => Some(format!("queue {name:?}")),
        CALENDARS => Some(format!("calendar {name:?}")),
        FUNCTIONS => Some(format!("task function {name:?}")),
        TEMPLATES => Some(format!("template {name:?}")),
        JOBS => Some(format!("job {name:?}")),
        CHANNELS => Some(format!("notification channel {name:?}")),
        RULES => Some(format!("notification rule {name:?}")),
        _ => None,
    }
}

impl Where {
    pub(super) fn address(&self) -> String {
        let file = self.file.as_ref().map(|file| match file.to_str() {
            Some("-") => "standard input".to_owned(),
            _ => file.display().to_string(),
        });
        match (file, self.position) {
            (Some(file), Some(at)) => format!("{file}:{}:{}", at.line, at.column),
            (Some(file), None) => file,
            (None, _) => String::new(),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Where { item, field, .. } = &self.place;
        let subject = match (item, field.is_empty()) {
            (Some(item), true) => item.clone(),
            (Some(item), false) => format!("{item}, {field}"),
            (None, _) => field.clone(),
        };
        let parts = [self.place.address(), subject, self.message.clone()];
        let parts: Vec<_> =
            parts.iter().filter(|part| !part.is_empty()).map(|part| neutral::line(part)).collect();
        f.write_str(&parts.join(": "))
    }
}
