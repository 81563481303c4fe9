//! Splits lists into pages.
//!
//! A read returns one row more than the page shows: the extra row means that there is a next page.
//! The cursor is the key of the last shown row, so rows that appear or disappear neither repeat nor
//! hide a row.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use sched_wire::{DEFAULT_PAGE, MAX_PAGE, Page};
use serde::Serialize;

use crate::error::ApiError;
use crate::http::cursor;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(u32);

impl Limit {
    pub(crate) fn new(requested: Option<u32>) -> Result<Self, ApiError> {
        let limit = requested.unwrap_or(DEFAULT_PAGE);
        if (1..=MAX_PAGE).contains(&limit) {
            return Ok(Self(limit));
        }
        Err(ApiError::parameter("limit", format!("must be between 1 and {MAX_PAGE}, not {limit}")))
    }

    pub(crate) fn rows(self) -> i64 {
        i64::from(self.0) + 1
    }

    pub(crate) fn page<R, T>(
        self,
        mut rows: Vec<R>,
        key: impl Fn(&R) -> String,
        show: impl Fn(R) -> T,
    ) -> Page<T> {
        let shown = usize::try_from(self.0).unwrap_or(usize::MAX);
        let has_more = rows.len() > shown;
        rows.truncate(shown);
        let next_cursor = rows.last().filter(|_| has_more).map(key);
        Page::new(rows.into_iter().map(show).collect(), next_cursor)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Pages {
    limit: Limit,
    mark: String,
    after: Option<String>,
}

impl Pages {
    /// `list` identifies the list and its filters.
    pub(crate) fn of(
        list: &impl Serialize,
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<Self, ApiError> {
        let mark = cursor::mark(list);
        let after = cursor.map(|text| cursor::open_key(&mark, text)).transpose()?;
        Ok(Self { limit: Limit::new(limit)?, mark, after })
    }

    pub(crate) fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// For keys that are not strings.
    pub(crate) fn after_as<T: FromStr>(&self) -> Result<Option<T>, ApiError> {
        self.after().map(str::parse).transpose().map_err(|_other| cursor::broken())
    }

    pub(crate) fn rows(&self) -> i64 {
        self.limit.rows()
    }

    pub(crate) fn page<R, T>(
        &self,
        rows: Vec<R>,
        key: impl Fn(&R) -> String,
        show: impl Fn(R) -> T,
    ) -> Page<T> {
        self.limit.page(rows, |row| cursor::seal_key(&self.mark, key(row)), show)
    }

    pub(crate) fn cursor(&self, key: String) -> String {
        cursor::seal_key(&self.mark, key)
    }
}

pub(crate) fn whole<R, T>(rows: Vec<R>, show: impl Fn(R) -> T) -> Page<T> {
    Page::new(rows.into_iter().map(show).collect(), None)
}

/// The page of a search that ended early; `cursor` continues it.
pub(crate) fn searched_until<T>(page: Page<T>, cursor: String, at: Option<DateTime<Utc>>) -> Page<T> {
    Page { next_cursor: Some(cursor), searched_until: at, ..page }
}

/// Largest exact total.
const MOST_COUNTED: usize = 10_000;

/// Limit of rows to count for a total: one more than `MOST_COUNTED` means that there are more.
pub(crate) const ROWS_COUNTED: i64 = 10_001;

/// At most [`ROWS_COUNTED`] rows were counted.
pub(crate) fn with_total<T>(page: Page<T>, counted: Option<usize>) -> Page<T> {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    Page {
        total: counted.filter(|count| *count <= MOST_COUNTED).map(number),
        total_is_at_least: counted.filter(|count| *count > MOST_COUNTED).map(|_| number(MOST_COUNTED)),
        ..page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: u32, limit: u32) -> Page<u32> {
        Limit::new(Some(limit)).unwrap().page((1..=rows).collect(), u32::to_string, |row| row)
    }

    #[test]
    fn next_cursor_exists_only_before_more_rows() {
        let cut = |page: Page<u32>| (page.items, page.next_cursor);
        assert_eq!(cut(page(3, 2)), (vec![1, 2], Some("2".into())));
        assert_eq!(cut(page(2, 2)), (vec![1, 2], None));
        assert_eq!(cut(page(0, 2)), (vec![], None));
    }

    #[test]
    fn page_of_an_incomplete_search_continues() {
        let at = DateTime::from_timestamp(1_790_000_000, 0);
        let cut = searched_until(page(0, 2), "7".to_owned(), at);
        assert_eq!((cut.items.len(), cut.next_cursor.as_deref(), cut.searched_until), (0, Some("7"), at));
    }

    #[test]
    fn a_total_is_exact_up_to_a_bound() {
        let total = |counted| {
            let page = with_total(page(1, 1), counted);
            (page.total, page.total_is_at_least)
        };
        assert_eq!(total(None), (None, None));
        assert_eq!(total(Some(0)), (Some(0), None));
        assert_eq!(total(Some(10_000)), (Some(10_000), None));
        assert_eq!(total(usize::try_from(ROWS_COUNTED).ok()), (None, Some(10_000)));
    }

    #[test]
    fn limits_out_of_range_are_refused() {
        assert!(Limit::new(Some(0)).is_err() && Limit::new(Some(MAX_PAGE + 1)).is_err());
        assert_eq!(Limit::new(None).unwrap().rows(), i64::from(DEFAULT_PAGE) + 1);
    }
}
