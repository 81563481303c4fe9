//! Weights of queues: how the free slots are shared among the queues that have runs.
//!
//! Queues of equal weight form one group with one claim, in which priority decides. As soon as two
//! weights differ, each queue is its own group and gets places in proportion, spread evenly
//! (`critical=5,default=1` means five, one, five, one). A group without runs does not save up its
//! places.

pub(crate) const HEAVIEST: u32 = 1_000;

/// An invalid item of the setting `worker-queues`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueError {
    #[error("{0:?} has no valid weight; write a number between 1 and {most} after the =", most = HEAVIEST)]
    Weight(String),
    #[error("{0:?} has no queue name before the =")]
    Name(String),
    #[error("queue {0:?} is listed twice")]
    Twice(String),
}

/// Parses `name` or `name=weight`; the default weight is 1.
pub(crate) fn parse(items: &[String]) -> Result<(Vec<String>, Vec<u32>), QueueError> {
    let (mut names, mut weights) = (Vec::new(), Vec::new());
    for item in items {
        let (name, weight) = match item.split_once('=') {
            None => (item.as_str(), 1),
            Some((name, weight)) => {
                let weight = weight.trim().parse().ok().filter(|weight| (1..=HEAVIEST).contains(weight));
                (name.trim(), weight.ok_or_else(|| QueueError::Weight(item.clone()))?)
            }
        };
        if name.is_empty() {
            return Err(QueueError::Name(item.clone()));
        }
        if names.iter().any(|known| known == name) {
            return Err(QueueError::Twice(name.to_owned()));
        }
        names.push(name.to_owned());
        weights.push(weight);
    }
    Ok((names, weights))
}

/// For a group of weight 1. The heavier the group, the lower its cost.
const COST: u64 = 1_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) queues: Vec<String>,
    cost: u64,
    /// Sum of the costs of used places. The lowest sum is next.
    paid: u64,
    /// The latest claim found no run in it.
    was_idle: bool,
}

impl Group {
    /// The group had runs for so many places.
    pub(crate) fn used(&mut self, places: usize) {
        self.paid += self.cost * u64::try_from(places).unwrap_or(0);
    }
}

pub(crate) fn groups(queues: &[String], weights: &[u32]) -> Vec<Group> {
    let group = |queues: Vec<String>, weight: u32| Group {
        queues,
        cost: COST / u64::from(weight.max(1)),
        paid: 0,
        was_idle: false,
    };
    match weights.first() {
        Some(first) if weights.iter().any(|weight| weight != first) => {
            queues.iter().zip(weights).map(|(queue, weight)| group(vec![queue.clone()], *weight)).collect()
        }
        _ => vec![group(queues.to_vec(), 1)],
    }
}

/// A group pays only for used places ([`Group::used`]).
pub(crate) fn split(groups: &mut [Group], has_work: &[bool], places: usize) -> Vec<usize> {
    let mut shares = vec![0; groups.len()];
    // An idle group does not save up places.
    let working = groups.iter().zip(has_work).filter(|(group, works)| **works && !group.was_idle);
    let least = working.map(|(group, _)| group.paid).min().unwrap_or(0);
    for (group, works) in groups.iter_mut().zip(has_work) {
        if *works && group.was_idle {
            group.paid = group.paid.max(least);
        }
        group.was_idle = !works;
    }
    let mut costs: Vec<u64> = groups.iter().map(|group| group.paid).collect();
    for _ in 0..places {
        let working =
            groups.iter().zip(&mut costs).zip(&mut shares).zip(has_work).filter(|(_, works)| **works);
        let next = working.min_by_key(|(((group, cost), _), _)| **cost + group.cost);
        if let Some((((group, cost), shares), _)) = next {
            *cost += group.cost;
            *shares += 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Vec<String>, Vec<u32>), QueueError> {
        parse(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    fn groups_of(text: &str) -> Vec<Group> {
        let (queues, weights) = read(text).unwrap();
        groups(&queues, &weights)
    }

    fn use_all(groups: &mut [Group], has_work: &[bool], places: usize) -> Vec<usize> {
        let shares = split(groups, has_work, places);
        groups.iter_mut().zip(&shares).for_each(|(group, used)| group.used(*used));
        shares
    }

    #[test]
    fn queues_may_have_weights() {
        let (names, weights) = read("critical=5,default").unwrap();
        assert_eq!((names.join(" ").as_str(), weights.as_slice()), ("critical default", [5, 1].as_slice()));
    }

    #[test]
    fn invalid_queue_items_are_rejected() {
        for (text, error) in [
            ("a=0", QueueError::Weight("a=0".into())),
            ("a=1001", QueueError::Weight("a=1001".into())),
            ("a=x", QueueError::Weight("a=x".into())),
            ("a=", QueueError::Weight("a=".into())),
            ("=3", QueueError::Name("=3".into())),
            ("a,b,a=2", QueueError::Twice("a".into())),
        ] {
            assert_eq!(read(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn equal_weights_are_one_group_and_others_are_apart() {
        assert_eq!(groups_of("a,b,c=1").len(), 1);
        assert_eq!(groups_of("a=3,b=3").len(), 1);
        assert_eq!(groups_of("a=3,b").len(), 2);
    }

    #[test]
    fn places_are_split_by_weight_one_at_a_time() {
        let mut groups = groups_of("critical=5,default=1");
        assert_eq!(use_all(&mut groups, &[true, true], 12), [10, 2]);
        let mut sums = [0, 0];
        for _ in 0..60 {
            let shares = use_all(&mut groups, &[true, true], 1);
            sums = [sums[0] + shares[0], sums[1] + shares[1]];
        }
        assert_eq!(sums, [50, 10]);
    }

    #[test]
    fn idle_heavy_group_does_not_affect_the_others() {
        let mut groups = groups_of("critical=3,bulk=1,idle=9");
        let mut sums = [0, 0];
        for _ in 0..40 {
            split(&mut groups, &[true, true, true], 1);
            let shares = use_all(&mut groups, &[true, true, false], 1);
            sums = [sums[0] + shares[0], sums[1] + shares[1]];
        }
        assert_eq!(sums, [30, 10]);
    }

    #[test]
    fn idle_group_leaves_its_places_and_saves_none() {
        let mut groups = groups_of("a=5,b=1,c=1");
        assert_eq!(use_all(&mut groups, &[false, true, true], 10), [0, 5, 5]);
        assert_eq!(use_all(&mut groups, &[true, true, true], 7), [5, 1, 1]);
        assert_eq!(split(&mut groups, &[false, false, false], 7), [0, 0, 0]);
    }
}
