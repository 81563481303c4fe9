//! The logins of an installation as `docs/operate/security.md` describes it: an owner without the
//! rights of a superuser, and one login per daemon.

/// Whose login a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// Owns the database and its tables. Schedulers and `schedctl migrate` sign in as it.
    Owner,
    Api,
    Worker,
}

/// The roles and logins of a server. Two sessions may run it at the same time.
pub(crate) const CREATE: &str = "DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY[
        'sched_api NOLOGIN', 'sched_daemon NOLOGIN', 'sched_worker NOLOGIN',
        'sched LOGIN', 'sched_web LOGIN', 'sched_work LOGIN'] LOOP
        BEGIN
            EXECUTE 'CREATE ROLE ' || wanted;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
    GRANT sched_api, sched_daemon TO sched;
    GRANT sched_api TO sched_web;
    GRANT sched_worker TO sched_work;
END $$";

impl Login {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "sched",
            Self::Api => "sched_web",
            Self::Worker => "sched_work",
        }
    }

    /// The login that `docs` give to a daemon.
    ///
    /// # Panics
    ///
    /// If there is no such daemon.
    #[must_use]
    pub fn of(program: &str) -> Self {
        match program {
            "sched-api" => Self::Api,
            "sched-scheduler" => Self::Owner,
            "sched-worker" => Self::Worker,
            other => panic!("{other} has no login of its own"),
        }
    }

    /// A URL of the server's superuser with this login instead. Another URL stays as it is.
    #[must_use]
    pub fn in_url(self, url: &str) -> String {
        url.replacen("://postgres@", &format!("://{}@", self.name()), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_replaces_only_the_superuser() {
        let url = "postgresql://postgres@127.0.0.1:5/db?x=postgres@";
        assert_eq!(
            Login::of("sched-worker").in_url(url),
            "postgresql://sched_work@127.0.0.1:5/db?x=postgres@"
        );
        assert_eq!(Login::Owner.in_url("postgresql://ada@host/db"), "postgresql://ada@host/db");
    }
}
