//! Weights of queues: how free slots are shared among the queues that have work.
//!
//! Pure arithmetic. Queues of equal weight are one group, claimed from together: there priority decides. As soon as two weights differ,
//! each queue is a group of its own and gets places in proportion, spread evenly (`critical=5,default=1` is five, one, five, one). A group
//! without work gives its places to the others and saves nothing up.

/// The largest weight of a queue.
pub(crate) const HEAVIEST: u32 = 1_000;

/// A queue that is not named as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueError {
    #[error("{0:?} has no weight between 1 and {most} after its =", most = HEAVIEST)]
    Weight(String),
    #[error("{0:?} has no name before its =")]
    Name(String),
    #[error("{0:?} is named twice")]
    Twice(String),
}

/// Reads `name` or `name=weight`; a plain name weighs 1.
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

/// What a place costs a group of weight 1; the heavier the group, the less it costs.
const COST: u64 = 1_000_000;

/// A group of queues that are claimed from together.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) queues: Vec<String>,
    cost: u64,
    /// What it has paid for the places it used. The one that has paid least is next.
    paid: u64,
    /// It had no work when it was last asked.
    was_idle: bool,
}

impl Group {
    /// Notes that it had work for so many places.
    pub(crate) fn used(&mut self, places: usize) {
        self.paid += self.cost * u64::try_from(places).unwrap_or(0);
    }
}

/// The groups for queues with these weights.
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

/// Deals out `places` among the groups that have work: how many each gets. Only what they use of it is held against them ([`Group::used`]).
pub(crate) fn deal(groups: &mut [Group], has_work: &[bool], places: usize) -> Vec<usize> {
    let mut dealt = vec![0; groups.len()];
    // Who comes back has not saved up for what it could not use.
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
            groups.iter().zip(&mut costs).zip(&mut dealt).zip(has_work).filter(|(_, works)| **works);
        let next = working.min_by_key(|(((group, cost), _), _)| **cost + group.cost);
        if let Some((((group, cost), dealt), _)) = next {
            *cost += group.cost;
            *dealt += 1;
        }
    }
    dealt
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

    /// Deals out places, all of which are used.
    fn use_all(groups: &mut [Group], has_work: &[bool], places: usize) -> Vec<usize> {
        let dealt = deal(groups, has_work, places);
        groups.iter_mut().zip(&dealt).for_each(|(group, used)| group.used(*used));
        dealt
    }

    #[test]
    fn queues_may_have_weights() {
        let (names, weights) = read("critical=5,default").unwrap();
        assert_eq!((names.join(" ").as_str(), weights.as_slice()), ("critical default", [5, 1].as_slice()));
    }

    #[test]
    fn mistakes_in_queues_are_told() {
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
    fn places_are_dealt_in_proportion_also_one_at_a_time() {
        let mut groups = groups_of("critical=5,default=1");
        assert_eq!(use_all(&mut groups, &[true, true], 12), [10, 2]);
        let mut sums = [0, 0];
        for _ in 0..60 {
            let dealt = use_all(&mut groups, &[true, true], 1);
            sums = [sums[0] + dealt[0], sums[1] + dealt[1]];
        }
        assert_eq!(sums, [50, 10]);
    }

    #[test]
    fn a_heavy_group_that_never_has_work_changes_nothing_between_the_others() {
        let mut groups = groups_of("critical=3,bulk=1,idle=9");
        let mut sums = [0, 0];
        for _ in 0..40 {
            // Nobody knows before the claim that it has none.
            deal(&mut groups, &[true, true, true], 1);
            let dealt = use_all(&mut groups, &[true, true, false], 1);
            sums = [sums[0] + dealt[0], sums[1] + dealt[1]];
        }
        assert_eq!(sums, [30, 10]);
    }

    #[test]
    fn who_has_no_work_leaves_its_places_to_others_and_saves_nothing_up() {
        let mut groups = groups_of("a=5,b=1,c=1");
        assert_eq!(use_all(&mut groups, &[false, true, true], 10), [0, 5, 5]);
        assert_eq!(use_all(&mut groups, &[true, true, true], 7), [5, 1, 1]);
        assert_eq!(deal(&mut groups, &[false, false, false], 7), [0, 0, 0]);
    }
}
