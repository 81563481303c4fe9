use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::*;

const NONCE: [u8; NONCE_BYTES] = [7; NONCE_BYTES];

fn line(id: &str, byte: u8) -> String {
    key_line(id, &[byte; KEY_BYTES]).expose_secret().to_owned()
}

fn keys(lines: &[String]) -> SecretKeys {
    SecretKeys::parse(&lines.concat()).unwrap()
}

fn value(text: &str) -> SecretValue {
    SecretValue::new(text.to_owned().into()).unwrap()
}

fn place(name: &str) -> SecretPlace<'_> {
    SecretPlace { tenant: TenantId(Uuid::from_u128(1)), project: None, name }
}

fn opened(keys: &SecretKeys, secret: SecretVersion<'_>, sealed: &Sealed) -> Result<String, OpenError> {
    keys.open(secret, sealed).map(|value| value.into_inner().expose_secret().to_owned())
}

#[test]
fn sealed_value_opens_only_in_its_row() {
    let keys = keys(&[line("a", 1)]);
    let project = SecretPlace { project: Some(ProjectId(Uuid::from_u128(2))), ..place("token") };
    let sealed = keys.seal(project.version(3), &value("hunter2"), NONCE).unwrap();
    assert_eq!(opened(&keys, project.version(3), &sealed).unwrap(), "hunter2");
    let refused = Err(OpenError::Refused { key_id: "a".into() });
    for (place, version) in [
        (project, 4),
        (SecretPlace { name: "token2", ..project }, 3),
        (SecretPlace { project: None, ..project }, 3),
        (SecretPlace { project: Some(ProjectId(Uuid::from_u128(9))), ..project }, 3),
        (SecretPlace { tenant: TenantId(Uuid::from_u128(9)), ..project }, 3),
    ] {
        assert_eq!(opened(&keys, place.version(version), &sealed), refused, "{place:?} {version}");
    }
}

#[test]
fn a_changed_row_does_not_open() {
    let keys = keys(&[line("a", 1), line("b", 1)]);
    let sealed = keys.seal(place("token").version(1), &value("hunter2"), NONCE).unwrap();
    assert_eq!(sealed.ciphertext.len(), "hunter2".len() + 16);
    for at in 0..sealed.ciphertext.len() {
        let mut changed = sealed.clone();
        changed.ciphertext[at] ^= 1;
        assert!(opened(&keys, place("token").version(1), &changed).is_err(), "byte {at}");
    }
    let other_nonce = Sealed { nonce: [8; NONCE_BYTES], ..sealed.clone() };
    let other_id = Sealed { key_id: "b".into(), ..sealed.clone() };
    let short = Sealed { ciphertext: vec![1; 15], ..sealed };
    for changed in [other_nonce, other_id, short] {
        assert!(matches!(opened(&keys, place("token").version(1), &changed), Err(OpenError::Refused { .. })));
    }
}

#[test]
fn first_key_encrypts_and_all_keys_decrypt() {
    let old = keys(&[line("old", 1)]);
    let both = keys(&[line("new", 2), line("old", 1)]);
    let new = keys(&[line("new", 2)]);
    let sealed = old.seal(place("token").version(1), &value("hunter2"), NONCE).unwrap();
    let read = both.open(place("token").version(1), &sealed).unwrap();
    let again = both.seal(place("token").version(1), &read, [9; NONCE_BYTES]).unwrap();
    assert_eq!((sealed.key_id.as_str(), again.key_id.as_str()), ("old", "new"));
    assert_eq!(opened(&new, place("token").version(1), &again).unwrap(), "hunter2");
    assert_eq!(
        opened(&new, place("token").version(1), &sealed),
        Err(OpenError::UnknownKey { key_id: "old".into() })
    );
    let same_id = keys(&[line("old", 3)]);
    assert_eq!(
        opened(&same_id, place("token").version(1), &sealed),
        Err(OpenError::Refused { key_id: "old".into() })
    );
}

#[test]
fn key_file_errors_never_show_content() {
    let text = format!("# keys\n\n{}  {}", line("k-2", 2), line("k-1", 1));
    let keys = SecretKeys::parse(&text).unwrap();
    assert_eq!((keys.writing_id(), keys.ids().collect::<Vec<_>>()), ("k-2", vec!["k-2", "k-1"]));
    assert_eq!(format!("{keys:?}"), r#"SecretKeys(["k-2", "k-1"])"#);
    assert_eq!(SecretKeys::parse("# none\n").unwrap_err(), KeyFileError::Empty);
    let short = "k c2hvcnRlci10aGFuLWEta2V5";
    let twice = format!("{}{}", line("a", 1), line("a", 2));
    for (text, number) in [
        ("canary", 1),
        (&format!("\n{short}"), 2),
        ("k canary-no-base64!", 1),
        ("Canary AAAA", 1),
        ("k canary canary", 1),
        (twice.as_str(), 2),
    ] {
        let error = SecretKeys::parse(text).unwrap_err();
        assert!(matches!(error, KeyFileError::Line { line, .. } if line == number), "{text}: {error}");
        assert!(!error.to_string().to_lowercase().contains("canary"), "{error}");
        assert!(!error.to_string().contains("c2hv"), "{error}");
    }
}

#[test]
fn values_unfit_for_a_variable_are_rejected() {
    for text in ["", "a\0b", &"x".repeat(MAX_SECRET_BYTES + 1)] {
        let what = SecretValue::new(text.to_owned().into()).unwrap_err();
        assert!(what.starts_with("is ") || what.starts_with("contains "), "{what}");
    }
    SecretValue::new("x".repeat(MAX_SECRET_BYTES).into()).unwrap();
    assert!(!format!("{:?}", value("hunter2")).contains("hunter2"));
    for name in ["a", "db-password", "a.b_c-1"] {
        check_secret_name(name).unwrap();
    }
    for name in ["", "A", "a b", ".a", &"a".repeat(101)] {
        assert!(check_secret_name(name).is_err(), "{name}");
    }
}

#[test]
fn secret_names_are_found_in_value_positions_only() {
    let config = json!({
        "program": "x", "args": ["secret"],
        "env": {"secret": "a value", "PASSWORD": {"secret": "db"}, "A/B": {"secret": "tilde"}, "PLAIN": "x"},
        "headers": {"authorization": {"secret": "token"}, "secret": "another value"},
        "sign": {"secrets": [{"secret": "whsec-new"}, {"secret": "whsec-old"}]},
        "secrets": ["native", {"secret": "spelt-out"}],
        "body": {"secret": "x", "more": 1}, "other": {"secret": 5},
    });
    let mut found: Vec<(String, String)> =
        named_secrets(&config).into_iter().map(|named| (named.pointer, named.name)).collect();
    found.sort();
    let expected = [
        ("/env/A~1B", "tilde"),
        ("/env/PASSWORD", "db"),
        ("/headers/authorization", "token"),
        ("/secrets/0", "native"),
        ("/secrets/1", "spelt-out"),
        ("/sign/secrets/0", "whsec-new"),
        ("/sign/secrets/1", "whsec-old"),
    ];
    assert_eq!(found, expected.map(|(pointer, name)| (pointer.to_owned(), name.to_owned())));
    assert!(named_secrets(&json!({"secret": "x"})).is_empty(), "the configuration itself is no name");
    for (pointer, name) in found {
        let there = config.pointer(&pointer).unwrap();
        assert!(there == &json!(name) || there == &json!({"secret": name}));
    }
}

proptest! {
    #[test]
    fn whatever_is_sealed_opens_as_it_was(text in "[^\\x00]{1,200}", version in 1_i64.., nonce: [u8; NONCE_BYTES]) {
        let keys = keys(&[line("a", 1)]);
        let sealed = keys.seal(place("n").version(version), &value(&text), nonce).unwrap();
        prop_assert_eq!(opened(&keys, place("n").version(version), &sealed).unwrap(), text);
    }
}
