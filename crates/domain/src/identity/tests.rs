use secrecy::{ExposeSecret as _, SecretString};

use super::super::secret::{KEY_BYTES, SecretKeys, key_line};
use super::*;

fn ring(ids: &[&str]) -> SecretKeys {
    let line = |id: &&str| {
        let byte = id.bytes().fold(0_u8, u8::wrapping_add);
        key_line(id, &[byte; KEY_BYTES]).expose_secret().to_owned()
    };
    SecretKeys::parse(&ids.iter().map(line).collect::<String>()).unwrap()
}

fn key(byte: u8) -> ApiKey {
    ApiKey::new("live", [byte; ID_BYTES], [byte + 100; SECRET_BYTES])
}

/// `system` means the system operator only.
const TABLE: &[(&str, &[&str])] = &[
    ("jobs:read", &["viewer", "operator", "admin", "owner"]),
    ("jobs:write", &["admin", "owner"]),
    ("jobs:operate", &["operator", "admin", "owner"]),
    ("jobs:trigger", &["operator", "admin", "owner"]),
    ("runs:read", &["viewer", "operator", "admin", "owner"]),
    ("runs:operate", &["operator", "admin", "owner"]),
    ("queues:read", &["viewer", "operator", "admin", "owner"]),
    ("queues:write", &["admin", "owner"]),
    ("secrets:read", &["viewer", "operator", "admin", "owner"]),
    ("secrets:write", &["admin", "owner"]),
    ("keys:read", &["admin", "owner"]),
    ("keys:write", &["admin", "owner"]),
    ("members:read", &["admin", "owner"]),
    ("members:write", &["owner"]),
    ("audit:read", &["admin", "owner"]),
    ("fleet:read", &["system"]),
    ("system:operate", &["system"]),
];

#[test]
fn roles_have_exactly_the_permissions_of_the_table() {
    assert_eq!(TABLE.iter().map(|(word, _)| *word).collect::<Vec<_>>(), Permission::WORDS);
    for &role in Role::ALL {
        for is_system_operator in [false, true] {
            let permissions = Principal::Member { role, is_system_operator }.permissions(None);
            for (word, holders) in TABLE {
                let expected =
                    holders.contains(&role.as_str()) || is_system_operator && holders.contains(&"system");
                assert_eq!(
                    permissions.has(word.parse().unwrap()),
                    expected,
                    "{role} {is_system_operator} {word}"
                );
            }
        }
    }
}

#[test]
fn documentation_has_the_same_table() {
    let text = include_str!("../../../../docs/operate/identity.md");
    for (word, holders) in TABLE {
        let mark = |role: &&str| if holders.contains(role) { "yes" } else { "–" };
        let cells: Vec<&str> = ["viewer", "operator", "admin", "owner", "system"].iter().map(mark).collect();
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| `{word}` |")))
            .unwrap_or_else(|| panic!("{word}"));
        let shown: Vec<&str> = row.trim_end_matches('|').split('|').skip(3).map(str::trim).collect();
        assert_eq!(shown, cells, "{word}");
    }
}

#[test]
fn scopes_only_remove_permissions() {
    for &role in Role::ALL {
        let principal = Principal::Member { role, is_system_operator: true };
        for &scope in Permission::ALL {
            let scopes = scopes_of(&[scope.as_str()]);
            let bounded = principal.permissions(scopes);
            assert_eq!(
                bounded.iter().collect::<Vec<_>>().len(),
                usize::from(principal.permissions(None).has(scope))
            );
        }
    }
    assert_eq!(scopes_of::<&str>(&[]), None);
}

#[test]
fn tenant_key_has_only_its_tenant_scopes() {
    assert_eq!(Principal::Tenant.permissions(None), Permissions::default());
    let all: Vec<&str> = Permission::WORDS.to_vec();
    let permissions = Principal::Tenant.permissions(scopes_of(&all));
    for &permission in Permission::ALL {
        assert_eq!(permissions.has(permission), permission.least_role().is_some(), "{permission}");
    }
}

#[test]
fn unknown_scope_grants_nothing() {
    let principal = Principal::Member { role: Role::Owner, is_system_operator: true };
    assert_eq!(principal.permissions(scopes_of(&["dreams:read"])), Permissions::default());
    let some = principal.permissions(scopes_of(&["dreams:read", "jobs:read"]));
    assert_eq!(some.iter().collect::<Vec<_>>(), [Permission::JobsRead]);
}

#[test]
fn key_round_trips_through_its_text() {
    let key = key(7);
    let text = key.text().expose_secret();
    assert_eq!(text.len(), 88);
    assert_eq!(key.prefix(), "sched_live_a4dqobyha4dqobyh");
    let read = ApiKey::parse(text).unwrap();
    assert_eq!((read.prefix(), read.environment()), (key.prefix(), "live"));
    assert_eq!(read.text().expose_secret(), text);
    assert!(!format!("{read:?}").contains(text.get(30..40).unwrap()), "{read:?}");
}

#[test]
fn one_wrong_character_fails_without_a_query() {
    let text = key(9).text().expose_secret().to_owned();
    for at in 0..text.len() {
        for other in ["a", "b", "_", "Z", "é", ""] {
            let mut changed = text.clone();
            changed.replace_range(at..=at, other);
            assert!(changed == text || ApiKey::parse(&changed).is_err(), "{changed}");
        }
    }
    for no_key in
        ["", "sched", "sched_live", "sched_live_x_y", "Bearer", "sched_LIVE_a_b", "____", "sk_live_abc_def"]
    {
        assert!(ApiKey::parse(no_key).is_err(), "{no_key}");
    }
    assert_eq!(ApiKey::parse(text.get(..70).unwrap()).unwrap_err(), KeyFormError::Checksum);
    assert_eq!(ApiKey::parse("hello").unwrap_err(), KeyFormError::NoKey);
    assert!(ApiKey::parse(&"sched_".repeat(10_000)).is_err());
}

#[test]
fn hash_matches_only_its_own_key() {
    let (one, other, ring) = (key(1), key(2), ring(&["a"]));
    for ring in [None, Some(&ring)] {
        let kept = one.hash(ring);
        let id = kept.ring_key.as_deref();
        assert_eq!(id, ring.map(|_| "a"));
        assert_eq!(one.fits(&kept.hash, id, ring), Ok(true));
        assert_eq!(other.fits(&kept.hash, id, ring), Ok(false));
        assert_eq!(one.fits(&kept.hash[1..], id, ring), Ok(false));
    }
    assert_ne!(one.hash(None).hash, one.hash(Some(&ring)).hash);
}

#[test]
fn hash_survives_rotation_while_its_key_remains() {
    let key = key(3);
    let kept = key.hash(Some(&ring(&["old"])));
    let id = kept.ring_key.as_deref();
    assert_eq!(key.fits(&kept.hash, id, Some(&ring(&["new", "old"]))), Ok(true));
    assert_eq!(key.fits(&kept.hash, id, Some(&ring(&["new"]))), Err(UnknownRingKey("old".into())));
    assert_eq!(key.fits(&kept.hash, id, None), Err(UnknownRingKey("old".into())));
}

#[test]
fn password_matches_only_its_own_hash() {
    let password: SecretString = "correct horse battery".to_owned().into();
    let hash = hash_password(&password, [5; SALT_BYTES]).unwrap();
    assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
    assert_eq!(verify_password(&password, &hash), Ok(true));
    assert_eq!(verify_password(&"correct horse batter".to_owned().into(), &hash), Ok(false));
    assert_eq!(verify_password(&password, "plain"), Err(InvalidHash));
    // The dummy hash costs as much as a real one and matches no password.
    let parameters = |hash: &str| hash.rsplitn(3, '$').last().map(str::to_owned);
    assert_eq!(parameters(NOBODYS_HASH), parameters(&hash));
    assert_eq!(NOBODYS_HASH.len(), hash.len());
    assert_eq!(verify_password(&password, NOBODYS_HASH), Ok(false));
}

#[test]
fn invalid_passwords_and_names_are_rejected() {
    let long = "x".repeat(LONGEST_PASSWORD + 1);
    for (password, is_fit) in [
        ("twelve chars", true),
        ("eleven char", false),
        (long.as_str(), false),
        ("nul\0nul\0nul\0nul", false),
    ] {
        assert_eq!(check_password(&password.to_owned().into()).is_ok(), is_fit);
    }
    for (email, is_fit) in [
        ("ada@example.com", true),
        ("a@b", true),
        ("ada", false),
        ("@b", false),
        ("a@", false),
        ("a b@c", false),
        ("a\n@c", false),
    ] {
        assert_eq!(check_email(email).is_ok(), is_fit, "{email:?}");
    }
    assert!(check_email(&format!("{}@b", "a".repeat(LONGEST_EMAIL))).is_err());
    for (slug, is_fit) in
        [("acme", true), ("a-1", true), ("-a", false), ("Acme", false), ("", false), ("a_b", false)]
    {
        assert_eq!(check_slug(slug).is_ok(), is_fit, "{slug:?}");
    }
    for (name, is_fit) in [("Ada L.", true), ("", false), (" a", false), ("a\nb", false)] {
        assert_eq!(check_display_name(name).is_ok(), is_fit, "{name:?}");
    }
    for (environment, is_fit) in [("live", true), ("eu1", true), ("", false), ("a_b", false), ("LIVE", false)]
    {
        assert_eq!(check_environment(environment).is_ok(), is_fit, "{environment:?}");
    }
}
