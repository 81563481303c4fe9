//! Positions of all values of a jobs file. The file is parsed a second time: the types of the API
//! have no positions. With an unsupported layout, errors have no line numbers. Pure.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, Spanned};

pub(super) const PROJECTS: &str = "projects";
pub(super) const QUEUES: &str = "queues";
pub(super) const CALENDARS: &str = "calendars";
pub(super) const FUNCTIONS: &str = "task_functions";
pub(super) const TEMPLATES: &str = "templates";
pub(super) const JOBS: &str = "jobs";
pub(super) const CHANNELS: &str = "notification_channels";
pub(super) const RULES: &str = "notification_rules";
pub(super) const LISTS: [&str; 8] =
    [PROJECTS, QUEUES, CALENDARS, FUNCTIONS, TEMPLATES, JOBS, CHANNELS, RULES];

/// Both from 1; ordered as in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Position {
    /// `None` if the library reports no position.
    pub(super) fn of(location: Location) -> Option<Self> {
        (location != Location::UNKNOWN).then(|| Self { line: location.line(), column: location.column() })
    }
}

#[derive(Debug)]
pub(super) struct Outline {
    root: Node,
}

#[derive(Debug)]
enum Node {
    Leaf(String),
    Branch(Vec<Child>),
}

#[derive(Debug)]
struct Child {
    /// Key, or index in a list.
    step: String,
    /// Of the key; in a list, of the value.
    at: Option<Position>,
    value_at: Option<Position>,
    node: Node,
}

impl Outline {
    /// Also accepts most JSON texts.
    pub(super) fn of(text: &str) -> Option<Self> {
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::FirstWins, with_snippet: false, strict_booleans: true
        };
        // Errors of the text are reported when its values are parsed.
        serde_saphyr::from_str_with_options::<Node>(text, options).ok().map(|root| Self { root })
    }

    /// The position of `path`, or of its longest existing part.
    pub(super) fn position(&self, path: &[String]) -> Option<Position> {
        let mut node = &self.root;
        let mut found = None;
        for step in path {
            let Some(child) = node.children().iter().find(|child| child.step == *step) else { break };
            found = child.at.or(found);
            node = &child.node;
        }
        found
    }

    /// The path of the value at `at`, or of the last one that begins before it.
    pub(super) fn path_at(&self, at: Position) -> Vec<String> {
        let mut path = Vec::new();
        let mut node = &self.root;
        while let Some(child) =
            node.children().iter().rfind(|child| child.at.is_some_and(|start| start <= at))
        {
            path.push(child.step.clone());
            node = &child.node;
        }
        path
    }

    /// The first number with a leading zero, such as `012`. YAML 1.1 reads it as octal, YAML 1.2 as
    /// decimal.
    pub(super) fn leading_zero(&self, text: &str) -> Option<Position> {
        let lines: Vec<&str> = text.lines().collect();
        self.root.leading_zero(&lines)
    }

    pub(super) fn count(&self, name: &str) -> usize {
        let child = self.root.children().iter().find(|child| child.step == name);
        child.map_or(0, |child| child.node.children().len())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.root.children().iter().any(|child| child.step == name)
    }

    pub(super) fn text(&self, path: &[String]) -> Option<&str> {
        let mut node = &self.root;
        for step in path {
            node = &node.children().iter().find(|child| child.step == *step)?.node;
        }
        match node {
            Node::Leaf(text) => Some(text),
            Node::Branch(_) => None,
        }
    }
}

impl Node {
    fn children(&self) -> &[Child] {
        match self {
            Self::Leaf(_) => &[],
            Self::Branch(children) => children,
        }
    }

    fn leading_zero(&self, lines: &[&str]) -> Option<Position> {
        self.children().iter().find_map(|child| match &child.node {
            Self::Leaf(value) => child.value_at.filter(|at| {
                let scalar = scalar_at(lines, *at);
                // A string keeps the zero.
                has_leading_zero(scalar) && value.trim() != scalar
            }),
            branch @ Self::Branch(_) => branch.leading_zero(lines),
        })
    }
}

/// The plain scalar that begins at a position.
fn scalar_at<'a>(lines: &[&'a str], at: Position) -> &'a str {
    let index = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
    let line = index(at.line).and_then(|line| lines.get(line)).copied().unwrap_or_default();
    let start = index(at.column).and_then(|column| line.char_indices().nth(column));
    let rest = start.and_then(|(start, _)| line.get(start..)).unwrap_or_default();
    rest.split([',', ']', '}', ' ', '\t', '#']).next().unwrap_or_default()
}

fn has_leading_zero(scalar: &str) -> bool {
    let digits = scalar.trim_start_matches(['-', '+']);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

macro_rules! leaf {
    ($($method:ident: $type:ty),+ $(,)?) => {
        $(fn $method<E>(self, value: $type) -> Result<Node, E> {
            Ok(Node::Leaf(value.to_string()))
        })+
    };
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    leaf!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(String::new()))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(String::new()))
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        Node::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut children = Vec::new();
        while let Some(item) = list.next_element::<Spanned<Node>>()? {
            let step = children.len().to_string();
            let at = Position::of(item.referenced);
            children.push(Child { step, at, value_at: at, node: item.value });
        }
        Ok(Node::Branch(children))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut children = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value::<Spanned<Node>>()?;
            let value_at = Position::of(value.referenced);
            children.push(Child {
                step: key.value,
                at: Position::of(key.referenced),
                value_at,
                node: value.value,
            });
        }
        Ok(Node::Branch(children))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# a comment
jobs:
  - name: one
    schedule_config: {minutes: 5}
  - name: two
    schedule_config:
      expression: '* * *'
";

    fn path(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    fn at(line: u64, column: u64) -> Option<Position> {
        Some(Position { line, column })
    }

    #[test]
    fn a_path_leads_to_its_key_or_as_far_as_it_exists() {
        let outline = Outline::of(TEXT).unwrap();
        assert_eq!(outline.position(&path("jobs/1/schedule_config/expression")), at(7, 7));
        assert_eq!(outline.position(&path("jobs/0/schedule_config/minutes")), at(4, 23));
        assert_eq!(outline.position(&path("jobs/1/timezone")), at(5, 5));
        assert_eq!(outline.position(&path("jobs/7")), at(2, 1));
        assert_eq!(outline.position(&path("nothing")), None);
    }

    #[test]
    fn a_position_leads_back_to_the_path() {
        let outline = Outline::of(TEXT).unwrap();
        let find = |line, column| outline.path_at(Position { line, column }).join("/");
        assert_eq!(find(7, 19), "jobs/1/schedule_config/expression");
        assert_eq!(find(4, 32), "jobs/0/schedule_config/minutes");
        assert_eq!(find(5, 5), "jobs/1/name");
        assert_eq!(find(1, 1), "");
        assert_eq!(outline.text(&path("jobs/1/name")), Some("two"));
    }
}
