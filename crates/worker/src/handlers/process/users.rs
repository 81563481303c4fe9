//! The users that functions may run as: the operator's list (`WORKER_RUN_AS`), compared with the
//! machine.
//!
//! Root cannot be listed. The check resolves names to numbers and then compares numbers, so another
//! spelling does not bypass it. It runs on launching threads, because looking up a name may use the
//! network. It caches nothing, so a changed group takes effect with the next attempt.

use std::ffi::CString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use sched_model::domain::handler_config::RunAs;

/// Change the owner of files, send signals, change the user.
const NEEDED: [(u32, &str); 4] = [(0, "CAP_CHOWN"), (5, "CAP_KILL"), (6, "CAP_SETGID"), (7, "CAP_SETUID")];

#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    /// Name and home, if the machine knows them.
    pub(super) account: Option<(String, PathBuf)>,
}

/// Users that functions may run as, from items `user` and `user:group`, each a name or a number.
/// The first form permits the user's own groups, the second form one additional group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunAsList(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    user: String,
    group: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunAsListError {
    #[error("{0:?} is neither a user nor user:group")]
    Shape(String),
    /// Root, or the number for no change.
    #[error("{0:?} names root or no user at all; functions cannot run as it")]
    Never(String),
}

impl FromStr for Entry {
    type Err = RunAsListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let is_fit = |name: &str| !name.is_empty() && !name.contains([':', '\0']);
        if !is_fit(user) || !group.is_none_or(is_fit) {
            return Err(RunAsListError::Shape(text.to_owned()));
        }
        let is_never = |name: &str| name == "root" || number(name).is_some_and(is_forbidden);
        if is_never(user) || group.is_some_and(is_never) {
            return Err(RunAsListError::Never(text.to_owned()));
        }
        Ok(Self { user: user.to_owned(), group: group.map(str::to_owned) })
    }
}

impl RunAsList {
    /// Parses a list.
    ///
    /// # Errors
    /// The first invalid item. Users are checked when an attempt needs them.
    pub fn parse<T: AsRef<str>>(items: &[T]) -> Result<Self, RunAsListError> {
        items.iter().map(|item| item.as_ref().parse()).collect::<Result<_, _>>().map(Self)
    }

    fn permits(&self, uid: Uid, gid: Gid, account: Option<&User>) -> bool {
        let is_of_user = |entry: &&Entry| uid_of(&entry.user).is_some_and(|allowed| allowed == uid);
        let is_own = || account.is_some_and(|user| is_member(user, gid));
        self.0.iter().filter(is_of_user).any(|entry| match &entry.group {
            Some(group) => group_of(group).is_ok_and(|allowed| allowed == gid) || is_own(),
            None => is_own(),
        })
    }
}

/// In the format of the setting.
impl fmt::Display for RunAsList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Entry { user, group }) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{user}")?;
            if let Some(group) = group {
                write!(f, ":{group}")?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum RunAsError {
    #[error(
        "the function must run as user {0:?}, but this worker permits no other user: its WORKER_RUN_AS is empty"
    )]
    NoUserPermitted(String),
    #[error("the function must run as {identity}, which is not in WORKER_RUN_AS of this worker ({list})")]
    NotPermitted { identity: String, list: String },
    #[error("the function must run as {identity}, which is root or means no change; this is always refused")]
    Never { identity: String },
    #[error(
        "the function must run as user {user:?}, which requires a worker that runs as root or has {missing}"
    )]
    NotAllowed { user: String, missing: String },
    #[error("there is no user {0:?} on this worker")]
    NoSuchUser(String),
    #[error("there is no group {0:?} on this worker")]
    NoSuchGroup(String),
    #[error("user {0:?} is unknown on this worker and has no primary group; name one in run_as.group")]
    NoGroup(String),
    #[error("failed to look up {name:?}")]
    LookUp { name: String, source: nix::Error },
}

impl Identity {
    pub(super) fn of(run_as: &RunAs, permitted: &RunAsList) -> Result<Self, RunAsError> {
        if permitted.0.is_empty() {
            return Err(RunAsError::NoUserPermitted(run_as.user.clone()));
        }
        let account = account_of(&run_as.user)?;
        let uid = number(&run_as.user)
            .map(Uid::from_raw)
            .or(account.as_ref().map(|user| user.uid))
            .ok_or_else(|| RunAsError::NoSuchUser(run_as.user.clone()))?;
        let gid = match &run_as.group {
            Some(group) => group_of(group)?,
            None => account
                .as_ref()
                .map(|user| user.gid)
                .ok_or_else(|| RunAsError::NoGroup(run_as.user.clone()))?,
        };
        let identity = || format!("user {:?} (number {uid}) with group {gid}", run_as.user);
        if is_forbidden(uid.as_raw()) || is_forbidden(gid.as_raw()) {
            return Err(RunAsError::Never { identity: identity() });
        }
        if !permitted.permits(uid, gid, account.as_ref()) {
            return Err(RunAsError::NotPermitted { identity: identity(), list: permitted.to_string() });
        }
        let missing = missing_capabilities();
        if !missing.is_empty() {
            return Err(RunAsError::NotAllowed { user: run_as.user.clone(), missing: missing.join(", ") });
        }
        Ok(Self { uid, gid, account: account.map(|user| (user.name, user.dir)) })
    }
}

/// Root, or -1, which means "unchanged" to the kernel.
fn is_forbidden(number: u32) -> bool {
    number == 0 || number == u32::MAX
}

fn number(name: &str) -> Option<u32> {
    name.parse().ok()
}

fn account_of(user: &str) -> Result<Option<User>, RunAsError> {
    let found = match number(user) {
        Some(uid) => User::from_uid(Uid::from_raw(uid)),
        None => User::from_name(user),
    };
    found.map_err(|source| RunAsError::LookUp { name: user.to_owned(), source })
}

fn uid_of(user: &str) -> Option<Uid> {
    match number(user) {
        Some(uid) => Some(Uid::from_raw(uid)),
        None => account_of(user).ok().flatten().map(|user| user.uid),
    }
}

fn group_of(name: &str) -> Result<Gid, RunAsError> {
    if let Some(number) = number(name) {
        return Ok(Gid::from_raw(number));
    }
    let found =
        Group::from_name(name).map_err(|source| RunAsError::LookUp { name: name.to_owned(), source })?;
    found.map(|group| group.gid).ok_or_else(|| RunAsError::NoSuchGroup(name.to_owned()))
}

fn is_member(user: &User, gid: Gid) -> bool {
    let listed = || {
        let name = CString::new(user.name.as_str()).ok()?;
        // If the groups are unreadable, only the primary group counts.
        getgrouplist(&name, user.gid).ok().map(|groups| groups.contains(&gid))
    };
    user.gid == gid || listed().unwrap_or(false)
}

/// For programs of other users.
fn missing_capabilities() -> Vec<&'static str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // On systems other than Linux, being root decides.
    let held = held.unwrap_or(if nix::unistd::geteuid().is_root() { u64::MAX } else { 0 });
    NEEDED.iter().filter(|(number, _)| held & (1 << number) == 0).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(user: &str, group: Option<&str>, list: &[&str]) -> String {
        let run_as = RunAs { user: user.into(), group: group.map(str::to_owned) };
        // The last check: whether this process may change users.
        match Identity::of(&run_as, &RunAsList::parse(list).unwrap()) {
            Ok(_) | Err(RunAsError::NotAllowed { .. }) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn user_list_rejects_root() {
        for (items, expected) in [
            (vec!["reports", "1000:www-data", "5:5"], Ok("reports,1000:www-data,5:5")),
            (vec![], Ok("")),
            (vec!["a:b:c"], Err("\"a:b:c\" is neither a user nor user:group")),
            (vec![":b"], Err("\":b\" is neither a user nor user:group")),
            (vec!["a:"], Err("\"a:\" is neither a user nor user:group")),
            (vec!["ok", "root"], Err("\"root\" names root or no user at all; functions cannot run as it")),
            (vec!["00"], Err("\"00\" names root or no user at all; functions cannot run as it")),
            (vec!["5:0"], Err("\"5:0\" names root or no user at all; functions cannot run as it")),
            (
                vec!["4294967295"],
                Err("\"4294967295\" names root or no user at all; functions cannot run as it"),
            ),
        ] {
            let read =
                RunAsList::parse(&items).map(|list| list.to_string()).map_err(|error| error.to_string());
            assert_eq!(read, expected.map(str::to_owned).map_err(str::to_owned), "{items:?}");
        }
    }

    #[test]
    fn root_and_minus_one_are_always_refused() {
        // A name on a list could be mapped to root later.
        let entry =
            |user: &str, group: Option<&str>| Entry { user: user.into(), group: group.map(str::to_owned) };
        let list = RunAsList(vec![
            entry("root", None),
            entry("0", None),
            entry("4294967295", Some("4294967295")),
            entry("65534", Some("0")),
            entry("65534", Some("4294967295")),
        ]);
        for (user, group) in [
            ("root", None),
            ("0", Some("65534")),
            ("000", Some("65534")),
            ("4294967295", Some("4294967295")),
            ("65534", Some("root")),
            ("65534", Some("0")),
            ("65534", Some("4294967295")),
        ] {
            let run_as = RunAs { user: user.into(), group: group.map(str::to_owned) };
            let error = Identity::of(&run_as, &list).unwrap_err();
            assert!(matches!(error, RunAsError::Never { .. }), "{user} {group:?}: {error}");
        }
    }

    #[test]
    fn function_runs_as_listed_users_only() {
        assert_eq!(
            refusal("65533", Some("65533"), &[]),
            "the function must run as user \"65533\", but this worker permits no other user: its WORKER_RUN_AS is empty"
        );
        // A number without an account has no own group.
        assert_eq!(refusal("65533", Some("65533"), &["65533:65533"]), "");
        for (group, list) in [("65532", &["65533:65533"]), ("65533", &["65533"]), ("65533", &["65532:65533"])]
        {
            let refusal = refusal("65533", Some(group), list);
            let expected = format!(
                "(number 65533) with group {group}, which is not in WORKER_RUN_AS of this worker ({})",
                list[0]
            );
            assert!(refusal.contains(&expected), "{refusal}");
        }
        // On every system: its own group, and no group of root or of another user.
        let daemon = User::from_name("daemon").unwrap().unwrap();
        let (uid, gid) = (daemon.uid.to_string(), daemon.gid.to_string());
        for list in ["daemon", &uid] {
            for user in ["daemon", &uid] {
                assert_eq!(refusal(user, None, &[list]), "");
                assert_eq!(refusal(user, Some(&gid), &[list]), "");
                assert!(refusal(user, Some("65531"), &[list]).contains("WORKER_RUN_AS"));
                assert_eq!(refusal(user, Some("65531"), &[&format!("{list}:65531")]), "");
            }
        }
    }
}
