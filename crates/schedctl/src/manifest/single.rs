//! A single definition from a file, flags or both, with the positions of its errors. Values of
//! flags have no position.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sched_runtime::exit;
use sched_wire::Problem;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::mistakes::{Mistake, Where};
use super::wording::{ANSWER, is_answer, plain_message};
use super::{FilesError, reading, unescape};
use crate::manifest::source_positions::Outline;
use crate::output::neutral;

const MOST_MISTAKES: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Single {
    path: Option<PathBuf>,
    /// `None` without a file or with an unsupported layout.
    outline: Option<Outline>,
    by_flags: BTreeSet<String>,
}

impl Single {
    pub(crate) fn read(path: &Path) -> Result<(Self, Map<String, Value>), FilesError> {
        let (fields, outline) =
            reading::fields(path).map_err(|mistake| wrong("nothing was sent", vec![mistake]))?;
        let single = Self { path: Some(path.to_owned()), outline, by_flags: BTreeSet::new() };
        if is_answer(|name| fields.contains_key(name)) {
            let mistake = Mistake { place: single.place(&[]), message: ANSWER.to_owned() };
            return Err(wrong("nothing was sent", vec![mistake]));
        }
        Ok((single, fields))
    }

    pub(crate) fn overrule(&mut self, field: &str) {
        self.by_flags.insert(field.to_owned());
    }

    /// Reports as many missing, unknown or mistyped fields as possible, below `headline`.
    pub(crate) fn shape<T: DeserializeOwned>(
        &self,
        mut fields: Map<String, Value>,
        headline: &str,
    ) -> Result<T, FilesError> {
        let (mut found, mut without) = (Vec::new(), BTreeSet::new());
        while found.len() < MOST_MISTAKES {
            let error = match serde_path_to_error::deserialize(Value::Object(fields.clone())) {
                Ok(thing) if found.is_empty() => return Ok(thing),
                Ok::<T, _>(_without_those) => break,
                Err(error) => error,
            };
            let mut path: Vec<String> = error.path().iter().filter_map(step).collect();
            let (missing, message) = plain_message(&error.into_inner().to_string());
            path.extend(missing);
            let top = path.first().cloned();
            if top.as_ref().is_some_and(|top| without.contains(top)) {
                break;
            }
            found.push(Mistake { place: self.place(&path), message });
            match top {
                Some(top) if fields.remove(&top).is_some() => without.insert(top),
                // A missing field hides further errors.
                _ => break,
            };
        }
        // Errors without a position last.
        found.sort_by_key(|mistake| (mistake.place.position.is_none(), mistake.place.position));
        Err(wrong(headline, found))
    }

    pub(crate) fn explain(&self, problem: &Problem) -> FilesError {
        let repeats = problem.errors.iter().any(|error| problem.detail.contains(&error.message));
        let detail = if repeats { String::new() } else { format!(": {}", problem.detail) };
        let headline = format!("nothing was created{detail} (status {}, {})", problem.status, problem.code);
        let mistakes = problem.errors.iter().map(|error| {
            let path: Vec<String> = error.pointer.split('/').skip(1).map(unescape).collect();
            Mistake { place: self.place(&path), message: error.message.clone() }
        });
        FilesError {
            headline: neutral::line(&headline).into_owned(),
            mistakes: mistakes.collect(),
            code: exit::REFUSED,
        }
    }

    fn place(&self, path: &[String]) -> Where {
        let field = path.join(".");
        if path.first().is_some_and(|top| self.by_flags.contains(top)) {
            return Where { field, ..Where::default() };
        }
        let position = self.outline.as_ref().and_then(|outline| outline.position(path));
        Where { file: self.path.clone(), position, item: None, field }
    }
}

fn wrong(headline: &str, mistakes: Vec<Mistake>) -> FilesError {
    FilesError { headline: headline.to_owned(), mistakes, code: exit::USAGE }
}

fn step(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use sched_wire::{JobSpec, ProblemError};
    use serde_json::json;

    use super::*;

    fn single(text: &str) -> (Single, Map<String, Value>) {
        let single =
            Single { path: Some("job.yaml".into()), outline: Outline::of(text), by_flags: BTreeSet::new() };
        (single, serde_saphyr::from_str(text).unwrap())
    }

    #[test]
    fn every_mistake_of_shape_is_told_with_its_place() {
        let text = "name: a\nfunctoin: f\njob_type: hourly\nretry_policy:\n  max_attempts: many\npriority: 40000\nis_enabled: 1\n";
        let (single, fields) = single(text);
        let error =
            single.shape::<JobSpec>(fields, "this is not a valid job, and nothing was sent").unwrap_err();
        assert_snapshot!(error, @r#"
        this is not a valid job, and nothing was sent:
          job.yaml:2:1: functoin: unknown field `functoin`, did you mean `function`?; known are name, description, scope, project, function, task_args, job_type, schedule_config, timezone, dst_gap, dst_overlap, start_at, end_at, max_runs, jitter_seconds, calendars, calendar_roll, expected_duration_seconds, after, after_mode, misfire_policy, misfire_grace_seconds, misfire_cap, max_instances, overlap_policy, queue, priority, timeout_seconds, start_within_seconds, retry_policy, is_enabled
          job.yaml:3:1: job_type: must be one of cron, interval, oneoff, manual; not "hourly"
          job.yaml:5:3: retry_policy.max_attempts: must be a whole number, not the text "many"
          job.yaml:6:1: priority: must be a smaller whole number, not 40000
          job.yaml:7:1: is_enabled: must be true or false, not 1
          job.yaml: function: is missing
        "#);
    }

    #[test]
    fn what_the_api_objects_to_is_told_with_its_place_unless_a_flag_said_it() {
        let (mut single, _) = single("name: a\nschedule_config:\n  expression: 61 * * * *\npriority: 7\n");
        single.overrule("priority");
        let mut problem =
            Problem::new(422, "Unprocessable Content", "invalid", "2 mistakes; nothing was changed");
        problem.errors = ["/schedule_config/expression", "/priority", "/queue"]
            .map(|pointer| ProblemError { pointer: pointer.into(), message: "is odd".into() })
            .into();
        assert_snapshot!(single.explain(&problem), @r"
        nothing was created: 2 mistakes; nothing was changed (status 422, invalid):
          job.yaml:3:3: schedule_config.expression: is odd
          priority: is odd
          job.yaml: queue: is odd
        ");
    }

    #[test]
    fn an_answer_of_the_api_is_known_as_one() {
        for (fields, is) in [
            (json!({"id": 1, "name": "a", "created_at": 1}), true),
            (json!({"items": [], "next_cursor": null}), true),
            (json!({"name": "a", "function": "f"}), false),
        ] {
            assert_eq!(is_answer(|name| fields.get(name).is_some()), is, "{fields}");
        }
    }
}
