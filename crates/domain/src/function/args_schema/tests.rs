use serde_json::json;

use super::*;

fn refused(schema: &Value) -> Misfit {
    ArgsSchema::parse(schema).err().unwrap_or_else(|| panic!("was taken: {schema}"))
}

fn pointers(schema: &Value, args: &Value) -> Vec<String> {
    let schema = ArgsSchema::parse(schema).unwrap_or_else(|misfit| panic!("{misfit:?}"));
    schema.misfits(args).into_iter().map(|misfit| misfit.pointer).collect()
}

#[test]
fn every_argument_mistake_has_a_pointer() {
    let schema = json!({
        "$schema": DIALECT,
        "$id": "https://example.com/args.json",
        "type": "object",
        "required": ["day"],
        "additionalProperties": false,
        "properties": {
            "day": {"type": "string", "format": "date"},
            "retries": {"$ref": "#/$defs/count"},
            "of/all": {"type": "array", "items": {"$ref": "#/$defs/count"}},
        },
        "$defs": {"count": {"type": "integer", "minimum": 0}},
    });
    assert_eq!(pointers(&schema, &json!({"day": "2026-02-28", "retries": 3, "of/all": [1, 2]})), [""; 0]);
    assert_eq!(pointers(&schema, &json!({})), [""]);
    let mut found =
        pointers(&schema, &json!({"day": "2026-02-30", "retries": -1, "of/all": [1, "2"], "x": 1}));
    found.sort();
    assert_eq!(found, ["", "/day", "/of~1all/1", "/retries"]);

    let told =
        ArgsSchema::parse(&schema).unwrap().misfits(&json!({"day": "2026-02-28", "retries": "secret"}));
    assert_eq!(
        told[0].message, "value is not of type \"integer\" (args_schema of the function, /$defs/count/type)",
        "which does not repeat the value"
    );
}

#[test]
fn invalid_schema_has_a_pointer() {
    for (schema, pointer) in [
        (json!(true), ""),
        (json!({"type": "objct"}), "/type"),
        (json!({"properties": {"a": {"minimum": "1"}}}), "/properties/a/minimum"),
        (json!({"properties": {"a": {"pattern": "("}}}), "/properties/a/pattern"),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#"}), "/$schema"),
        (json!({"properties": {"a": {"$id": "https://example.com/"}}}), "/properties/a/$id"),
        (json!({"$defs": {"a": {"$anchor": "b"}}}), "/$defs/a/$anchor"),
        (json!({"properties": {"a": {"$ref": "#/$defs/none"}}}), "/properties/a/$ref"),
        (json!({"items": {"pattern": "(a)\\1"}}), "/items/pattern"),
    ] {
        let misfit = refused(&schema);
        assert_eq!(misfit.pointer, pointer, "{schema}: {}", misfit.message);
    }
}

#[test]
fn nothing_is_fetched() {
    for target in
        ["https://example.com/a.json", "http://127.0.0.1:1/", "file:///etc/passwd", "a.json", "#a", "//a"]
    {
        let misfit = refused(&json!({"properties": {"a": {"$ref": target}}}));
        assert_eq!(misfit.pointer, "/properties/a/$ref", "{target}: {}", misfit.message);
    }
    // A property may have this name, and a value may contain this key.
    let named = json!({"properties": {"$ref": {"const": {"$ref": "https://example.com/"}}}});
    assert_eq!(pointers(&named, &json!({"$ref": {"$ref": "https://example.com/"}})), [""; 0]);
}

#[test]
fn recursive_schema_is_rejected() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"properties": {"a": {"$ref": "#"}}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"anyOf": [{"items": {"$ref": "#/anyOf/0"}}]}),
        json!({"$defs": {"unused": {"not": {"$ref": "#/$defs/unused"}}}}),
    ] {
        let misfit = refused(&schema);
        assert!(misfit.message.contains("leads back to itself"), "{schema}: {misfit:?}");
    }
}

/// Schemas `a0`, `a1` …; each refers to the next one `times` times.
fn chain(length: usize, times: usize) -> Value {
    let mut kept = serde_json::Map::new();
    for index in 0..length {
        let next = json!({"$ref": format!("#/$defs/a{}", index + 1)});
        kept.insert(format!("a{index}"), json!({"allOf": vec![next; times]}));
    }
    kept.insert(format!("a{length}"), json!({"type": "object"}));
    json!({"$ref": "#/$defs/a0", "$defs": kept})
}

#[test]
fn validation_cost_is_bounded() {
    assert_eq!(pointers(&chain(7, 2), &json!({})), [""; 0]);
    for schema in [chain(8, 2), chain(20, 2), chain(60, 1), chain(300, 1)] {
        let misfit = refused(&schema);
        assert!(misfit.message.contains("at most"), "{misfit:?}");
    }
    // The deepest accepted schema fits on the stack of a thread.
    assert_eq!(pointers(&chain((DEEPEST - 3) / 2, 1), &json!([])), [""]);
    let deep = (1..DEEPEST).fold(json!({"type": "null"}), |inner, _| json!({"anyOf": [inner]}));
    assert_eq!(pointers(&deep, &json!([])), [""]);

    let long = json!({"enum": vec!["x"; 10_000]});
    assert!(refused(&long).message.contains("bytes long"));
    let many = json!({"properties": {"a": {"items": {"enum": vec![0; 990]}}}});
    assert_eq!(pointers(&many, &json!({"a": vec![0; 400]})), [""; 0]);
    let misfits = ArgsSchema::parse(&many).unwrap().misfits(&json!({"a": vec![0; 3000]}));
    assert!(misfits[0].message.contains("too many"), "{misfits:?}");
    let endless = ArgsSchema::parse(&json!({"pattern": "(x+x+)+y"})).unwrap();
    assert_eq!(endless.misfits(&json!("x".repeat(20_000))).len(), 1, "in linear time");
    let many = json!({"items": {"type": "null"}});
    assert_eq!(pointers(&many, &json!(vec![0; 100])).len(), MOST_MISTAKES);
    assert_eq!(pointers(&many, &json!(vec![0; 20_000])), ["/0"]);
}
