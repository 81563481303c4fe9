//! The sound items of faulty files, so that further mistakes are reported together with the first
//! ones.

use std::path::PathBuf;

use sched_runtime::exit;
use sched_wire::ProblemError;

use super::mistakes::Mistake;
use super::{Files, FilesError, NOTHING_SENT, offline, reading};

/// The sound items, and the mistakes of the faulty ones.
#[derive(Debug)]
pub(crate) struct ReadFiles {
    pub(crate) files: Files,
    mistakes: Vec<Mistake>,
    /// Whether every item is either in `files` or named by a mistake.
    is_complete: bool,
}

impl ReadFiles {
    /// `-` is standard input.
    pub(crate) fn read(paths: &[PathBuf]) -> Self {
        Self::from_texts(paths.iter().map(|path| (path.clone(), reading::text(path))).collect())
    }

    pub(super) fn from_texts(texts: Vec<(PathBuf, Result<String, Mistake>)>) -> Self {
        let (mut sources, mut mistakes, mut is_complete) = (Vec::new(), Vec::new(), true);
        for (path, text) in texts {
            match text {
                Ok(text) => {
                    let read = reading::parse(&path, &text);
                    is_complete &= read.sound.is_some();
                    mistakes.extend(read.mistakes);
                    let source =
                        read.sound.map(|(manifest, outline)| super::Source { path, manifest, outline });
                    sources.extend(source);
                }
                Err(mistake) => {
                    is_complete = false;
                    mistakes.push(mistake);
                }
            }
        }
        let files = Files { sources };
        mistakes.extend(files.doubles());
        Self { files, mistakes, is_complete }
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.mistakes.is_empty()
    }

    /// Whether the rest of the files shows which names exist.
    pub(crate) fn can_be_checked(&self) -> bool {
        self.is_complete
    }

    /// All mistakes that the files alone show.
    pub(crate) fn offline(self) -> FilesError {
        let further = offline::mistakes(&self.files, "UTC");
        self.error(further)
    }

    /// As [`Self::error`], for a command that sends nothing.
    pub(crate) fn invalid(self, further: Vec<ProblemError>) -> FilesError {
        FilesError { headline: "the files are not valid".to_owned(), ..self.error(further) }
    }

    /// All mistakes, in the order of the files. `further` are those of the sound items.
    pub(crate) fn error(self, further: Vec<ProblemError>) -> FilesError {
        let Self { files, mut mistakes, .. } = self;
        let further = further.into_iter().filter(|error| !is_consequence(error, &mistakes));
        let further: Vec<Mistake> = further
            .map(|error| Mistake { place: files.locate(&error.pointer), message: error.message })
            .collect();
        mistakes.extend(further);
        // The order of the files; without a position last.
        let order = |path: &Option<PathBuf>| {
            files.sources.iter().position(|source| Some(&source.path) == path.as_ref())
        };
        mistakes.sort_by_key(|mistake| {
            let place = &mistake.place;
            (order(&place.file), place.position.is_none(), place.position)
        });
        FilesError { headline: NOTHING_SENT.to_owned(), mistakes, code: exit::USAGE }
    }
}

/// Whether the error is only that a faulty item is not among the sound ones, or repeats a mistake.
fn is_consequence(error: &ProblemError, mistakes: &[Mistake]) -> bool {
    let is_about = |item: &String| {
        let (kind, name) = item.split_once(" \"").unwrap_or_default();
        error.message == format!("there is no {kind} named \"{name}")
    };
    let is_double = error.pointer.ends_with("/name") && error.message.contains(" is already at /");
    is_double || mistakes.iter().filter_map(|mistake| mistake.place.item.as_ref()).any(is_about)
}
