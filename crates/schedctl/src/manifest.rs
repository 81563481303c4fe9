//! Jobs files: reads them, merges them into one request, and locates errors. The API validates
//! values; [`Files::explain`] converts its pointers to file, line and name. All files are read
//! before a request is sent, so an error in the last one leaves nothing done.

mod mistakes;
mod reading;
mod single;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sched_runtime::exit::{self, ExitStatus};
use sched_wire::{CalendarSpec, FunctionSpec, JobSpec, Manifest, Problem, TemplateSpec};

use crate::manifest::source_positions::Outline;
use mistakes::{Mistake, Where};

pub(crate) use single::Single;

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
        let texts = paths.iter().map(|path| (path.clone(), reading::text(path)));
        Self::from_texts(texts.collect())
    }

    fn from_texts(texts: Vec<(PathBuf, Result<String, Mistake>)>) -> Result<Self, FilesError> {
        let mut sources = Vec::new();
        let mut found = Vec::new();
        for (path, text) in texts {
            match text.map_err(|mistake| vec![mistake]).and_then(|text| Source::parse(&path, &text)) {
                Ok(source) => sources.push(source),
                Err(mistakes) => found.extend(mistakes),
            }
        }
        let files = Self { sources };
        if found.is_empty() {
            found = files.doubles();
        }
        if found.is_empty() {
            Ok(files)
        } else {
            let headline = "the jobs cannot be applied, and nothing was sent".to_owned();
            Err(FilesError { headline, mistakes: found, code: exit::USAGE })
        }
    }

    pub(crate) fn manifest(&self) -> Manifest {
        Manifest {
            queues: self.all(|manifest| &manifest.queues),
            calendars: self.calendars().cloned().collect(),
            task_functions: self.functions().cloned().collect(),
            templates: self.templates().cloned().collect(),
            jobs: self.jobs().cloned().collect(),
            notification_channels: self.all(|manifest| &manifest.notification_channels),
            notification_rules: self.all(|manifest| &manifest.notification_rules),
        }
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
    fn parse(path: &Path, text: &str) -> Result<Self, Vec<Mistake>> {
        let (manifest, outline) = reading::parse(path, text)?;
        Ok(Self { path: path.to_owned(), manifest, outline })
    }

    fn names(&self, list: &str) -> Vec<&str> {
        fn names<T>(specs: &[T], name: impl Fn(&T) -> &str) -> Vec<&str> {
            specs.iter().map(name).collect()
        }
        let manifest = &self.manifest;
        match list {
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
