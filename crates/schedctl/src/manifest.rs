//! Jobs files: reads them, merges them into one request, and locates errors. The API validates
//! values; [`Files::explain`] converts its pointers to file, line and name. All files are read
//! before a request is sent, so an error in the last one leaves nothing done.

mod mistakes;
pub(crate) mod offline;
mod reading;
mod single;
mod sound_items;

use std::collections::BTreeSet;
use std::path::PathBuf;

use sched_runtime::exit::{self, ExitStatus};
use sched_wire::{CalendarSpec, FunctionSpec, JobSpec, Manifest, Problem, SecretReference, TemplateSpec};
use serde_json::Value;
use url::Url;

use crate::manifest::source_positions::Outline;
use mistakes::{Mistake, Where};

pub(crate) use single::Single;
pub(crate) use sound_items::ReadFiles;

const NOTHING_SENT: &str = "the jobs cannot be applied, and nothing was sent";

/// At the start of the URL of an HTTP function: the URL of the API to which the file is applied.
pub(crate) const API_URL: &str = "${SCHED_API_URL}";

/// Placeholder of the API for a value that may be a secret.
pub(crate) const HIDDEN: &str = "(hidden)";

#[derive(Debug, thiserror::Error)]
#[error("{headline}:{}", lines(.mistakes))]
pub(crate) struct FilesError {
    headline: String,
    mistakes: Vec<Mistake>,
    code: u8,
}

impl ExitStatus for FilesError {
    fn exit_code(&self) -> u8 {
        self.code
    }
}

fn lines(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(|mistake| format!("\n  {mistake}")).collect()
}

#[derive(Debug)]
struct Source {
    path: PathBuf,
    manifest: Manifest,
    /// `None` if the layout is not supported.
    outline: Option<Outline>,
}

#[derive(Debug)]
pub(crate) struct Files {
    sources: Vec<Source>,
}

impl Files {
    /// `-` is standard input. Fails with all errors of all files.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, FilesError> {
        Self::sound(ReadFiles::read(paths))
    }

    #[cfg(test)]
    fn from_texts(texts: Vec<(PathBuf, Result<String, Mistake>)>) -> Result<Self, FilesError> {
        Self::sound(ReadFiles::from_texts(texts))
    }

    fn sound(read: ReadFiles) -> Result<Self, FilesError> {
        if read.is_sound() { Ok(read.files) } else { Err(read.error(Vec::new())) }
    }

    pub(crate) fn manifest(&self) -> Manifest {
        Manifest {
            projects: self.all(|manifest| &manifest.projects),
            secrets: self.secrets(),
            queues: self.all(|manifest| &manifest.queues),
            calendars: self.calendars().cloned().collect(),
            task_functions: self.functions().cloned().collect(),
            templates: self.templates().cloned().collect(),
            jobs: self.jobs().cloned().collect(),
            notification_channels: self.all(|manifest| &manifest.notification_channels),
            notification_rules: self.all(|manifest| &manifest.notification_rules),
        }
    }

    /// Several files may expect one secret.
    fn secrets(&self) -> Vec<SecretReference> {
        let all = self.all(|manifest| &manifest.secrets).into_iter().map(|secret| secret.name);
        all.collect::<BTreeSet<_>>().into_iter().map(|name| SecretReference { name }).collect()
    }

    /// The manifest for the API at `url`, which replaces [`API_URL`] in URLs of HTTP functions.
    pub(crate) fn manifest_for(&self, url: &Url) -> Manifest {
        let mut manifest = self.manifest();
        for function in &mut manifest.task_functions {
            if let Some(Value::String(target)) = function.handler_config.get_mut("url")
                && let Some(rest) = target.strip_prefix(API_URL)
            {
                *target = format!("{}{rest}", url.as_str().trim_end_matches('/'));
            }
        }
        manifest
    }

    pub(crate) fn queues(&self) -> BTreeSet<String> {
        let of = |manifest: &Manifest| {
            let queues = manifest.queues.iter().map(|queue| queue.name.clone());
            let functions = manifest.task_functions.iter().map(|function| function.queue.clone());
            let jobs = manifest.jobs.iter().filter_map(|job| job.queue.clone());
            queues.chain(functions).chain(jobs).collect::<Vec<_>>()
        };
        self.sources.iter().flat_map(|source| of(&source.manifest)).collect()
    }

    pub(crate) fn calendars(&self) -> impl Iterator<Item = &CalendarSpec> {
        self.sources.iter().flat_map(|source| &source.manifest.calendars)
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = &FunctionSpec> {
        self.sources.iter().flat_map(|source| &source.manifest.task_functions)
    }

    fn templates(&self) -> impl Iterator<Item = &TemplateSpec> {
        self.sources.iter().flat_map(|source| &source.manifest.templates)
    }

    fn all<T: Clone>(&self, list: impl Fn(&Manifest) -> &Vec<T>) -> Vec<T> {
        self.sources.iter().flat_map(|source| list(&source.manifest).iter().cloned()).collect()
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = &JobSpec> {
        self.sources.iter().flat_map(|source| &source.manifest.jobs)
    }

    pub(crate) fn explain(&self, problem: &Problem) -> FilesError {
        // The detail repeats a single error with its pointer; the position is more useful.
        let repeats = problem.errors.iter().any(|error| problem.detail.contains(&error.message));
        let detail = if repeats { String::new() } else { format!(": {}", problem.detail) };
        let headline = format!("nothing was applied{detail} (status {}, {})", problem.status, problem.code);
        let mistakes = problem
            .errors
            .iter()
            .map(|error| Mistake { place: self.locate(&error.pointer), message: error.message.clone() });
        FilesError {
            headline: crate::output::neutral::line(&headline).into_owned(),
            mistakes: mistakes.collect(),
            code: exit::REFUSED,
        }
    }

    /// The pointer refers to the merged manifest.
    fn locate(&self, pointer: &str) -> Where {
        let unknown = || Where { field: pointer.to_owned(), ..Where::default() };
        let mut steps = pointer.trim_start_matches('/').split('/').map(unescape);
        let (Some(list), Some(index)) =
            (steps.next(), steps.next().and_then(|text| text.parse::<usize>().ok()))
        else {
            return unknown();
        };
        let Some((source, index)) = self.owner_of(&list, index) else { return unknown() };
        let rest: Vec<String> = steps.collect();
        let mut path = vec![list, index.to_string()];
        path.extend(rest.iter().cloned());
        Where {
            file: Some(source.path.clone()),
            position: source.outline.as_ref().and_then(|outline| outline.position(&path)),
            item: source.item(&path),
            field: rest.join("."),
        }
    }

    /// The file with item `index` of the merged `list`, and its index there.
    fn owner_of(&self, list: &str, mut index: usize) -> Option<(&Source, usize)> {
        for source in &self.sources {
            let count = source.names(list).len();
            if index < count {
                return Some((source, index));
            }
            index -= count;
        }
        None
    }

    /// The second item of a name would silently replace the first.
    fn doubles(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        for list in crate::manifest::source_positions::LISTS {
            let mut seen: Vec<(&str, &Source, usize)> = Vec::new();
            for source in &self.sources {
                for (index, name) in source.names(list).into_iter().enumerate() {
                    if let Some((_, first, at)) = seen.iter().find(|(other, ..)| *other == name) {
                        let first = first.place(list, *at, "name");
                        let message = format!("the name is already used in {}", first.address());
                        found.push(Mistake { place: source.place(list, index, "name"), message });
                    }
                    seen.push((name, source, index));
                }
            }
        }
        found
    }
}

impl Source {
    fn names(&self, list: &str) -> Vec<&str> {
        fn names<T>(specs: &[T], name: impl Fn(&T) -> &str) -> Vec<&str> {
            specs.iter().map(name).collect()
        }
        let manifest = &self.manifest;
        match list {
            crate::manifest::source_positions::PROJECTS => names(&manifest.projects, |spec| &spec.name),
            crate::manifest::source_positions::QUEUES => names(&manifest.queues, |spec| &spec.name),
            crate::manifest::source_positions::CALENDARS => names(&manifest.calendars, |spec| &spec.name),
            crate::manifest::source_positions::FUNCTIONS => {
                names(&manifest.task_functions, |spec| &spec.name)
            }
            crate::manifest::source_positions::TEMPLATES => names(&manifest.templates, |spec| &spec.name),
            crate::manifest::source_positions::JOBS => names(&manifest.jobs, |spec| &spec.name),
            crate::manifest::source_positions::CHANNELS => {
                names(&manifest.notification_channels, |spec| &spec.name)
            }
            crate::manifest::source_positions::RULES => {
                names(&manifest.notification_rules, |spec| &spec.name)
            }
            _ => Vec::new(),
        }
    }

    fn item(&self, path: &[String]) -> Option<String> {
        let [list, index, ..] = path else { return None };
        let name = index.parse().ok().and_then(|index: usize| self.names(list).get(index).copied())?;
        mistakes::item(list, name)
    }

    fn place(&self, list: &str, index: usize, field: &str) -> Where {
        let path = [list.to_owned(), index.to_string(), field.to_owned()];
        Where {
            file: Some(self.path.clone()),
            position: self.outline.as_ref().and_then(|outline| outline.position(&path)),
            item: self.item(&path),
            field: field.to_owned(),
        }
    }
}

/// RFC 6901.
fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod examples;
mod source_positions;
#[cfg(test)]
mod tests;
mod wording;
