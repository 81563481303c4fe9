//! Cycles of jobs that run after each other.
//!
//! A depth-first walk that visits each edge once, with an explicit stack because chains may be
//! long. Pure.

use std::collections::HashMap;

use crate::ids::JobId;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Underway,
    /// No cycle is reachable from it.
    Done,
}

/// Finds a cycle that is reachable from `starts`.
///
/// Each job in it runs after the one before it, and the first after the last. It begins with the
/// earliest of `starts` on it. `edges` are pairs of a job and its predecessor.
#[must_use]
pub fn find_cycle(starts: &[JobId], edges: &[(JobId, JobId)]) -> Option<Vec<JobId>> {
    let mut after: HashMap<JobId, Vec<JobId>> = HashMap::new();
    for (job, earlier) in edges {
        after.entry(*job).or_default().push(*earlier);
    }
    let mut visits: HashMap<JobId, Visit> = HashMap::new();
    for start in starts {
        if let Some(mut cycle) = walk(*start, &after, &mut visits) {
            // Edges point to predecessors; the result has the order of the runs.
            cycle.reverse();
            let first = starts.iter().find_map(|start| cycle.iter().position(|job| job == start));
            cycle.rotate_left(first.unwrap_or(0));
            return Some(cycle);
        }
    }
    None
}

fn walk(
    start: JobId,
    after: &HashMap<JobId, Vec<JobId>>,
    visits: &mut HashMap<JobId, Visit>,
) -> Option<Vec<JobId>> {
    if visits.contains_key(&start) {
        return None;
    }
    let onwards = |job: JobId| after.get(&job).into_iter().flatten().copied();
    visits.insert(start, Visit::Underway);
    let mut way = vec![(start, onwards(start))];
    while let Some((job, rest)) = way.last_mut() {
        let Some(next) = rest.next() else {
            visits.insert(*job, Visit::Done);
            way.pop();
            continue;
        };
        match visits.get(&next) {
            Some(Visit::Done) => {}
            Some(Visit::Underway) => {
                return Some(way.iter().map(|(job, _)| *job).skip_while(|job| *job != next).collect());
            }
            None => {
                visits.insert(next, Visit::Underway);
                way.push((next, onwards(next)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn job(number: u32) -> JobId {
        JobId(Uuid::from_u128(number.into()))
    }

    /// `ba`: job b runs after job a.
    fn cycle(starts: &str, edges: &str) -> Option<String> {
        let id = |name: char| job(name.into());
        let pair = |pair: &str| {
            let mut names = pair.chars();
            (id(names.next().unwrap()), id(names.next().unwrap()))
        };
        let edges: Vec<(JobId, JobId)> = edges.split_whitespace().map(pair).collect();
        let found = find_cycle(&starts.chars().map(id).collect::<Vec<_>>(), &edges)?;
        let name = |job: JobId| ('a'..='z').find(|name| id(*name) == job).unwrap();
        Some(found.into_iter().map(name).collect())
    }

    #[test]
    fn cycles_are_reported_in_run_order() {
        for (starts, edges, expected) in [
            ("a", "", None),
            ("c", "cb ba", None),
            ("a", "aa", Some("a")),
            ("a", "ab ba", Some("ab")),
            ("a", "ba cb ac", Some("abc")),
            ("c", "ba cb ac", Some("cab")),
            ("x", "xa ba ab", Some("ba")),
            ("d", "db dc ba ca", None),
            ("d", "db dc ba ca ad", Some("dab")),
            ("xb", "xa ba cb ac", Some("bca")),
            ("xy", "xa ya", None),
        ] {
            assert_eq!(cycle(starts, edges).as_deref(), expected, "{starts} of {edges}");
        }
    }

    #[test]
    fn long_chains_and_diamonds_are_walked_once() {
        let mut edges: Vec<(JobId, JobId)> = (0..100_000).map(|n| (job(n), job(n + 1))).collect();
        // Too many paths for a walk of single paths.
        edges.extend((0..1_000).map(|n| (job(n), job(n + 2))));
        assert_eq!(find_cycle(&[job(0)], &edges), None);
        edges.push((job(100_000), job(0)));
        assert!(find_cycle(&[job(0)], &edges).is_some_and(|cycle| cycle.len() > 90_000));
    }
}
