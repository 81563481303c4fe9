//! Description of an operation: its input and its answers, by their types. Plain data.

use actix_web::http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::naming::SCHEMAS;
use crate::http::extract::MERGE_PATCH_JSON;

pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

#[derive(Debug, Clone)]
pub(crate) struct OperationDoc {
    pub(super) summary: &'static str,
    pub(super) query: Option<SchemaOf>,
    pub(super) body: Option<RequestBody>,
    pub(super) answers: Vec<ResponseDoc>,
    pub(super) is_conditional: bool,
    pub(super) is_repeatable: bool,
    pub(super) is_resumable: bool,
    /// Whether the operation returns 404 although the path has no parameter.
    pub(super) may_be_missing: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RequestBody {
    pub(super) schema: SchemaOf,
    pub(super) is_required: bool,
    pub(super) media_types: &'static [&'static str],
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseDoc {
    pub(super) status: StatusCode,
    pub(super) media_type: &'static str,
    pub(super) schema: Option<SchemaOf>,
}

pub(super) const EVENT_STREAM: &str = "text/event-stream";
const JSON: &[&str] = &["application/json"];

/// `summary` is an imperative sentence without a full stop.
pub(crate) const fn operation(summary: &'static str) -> OperationDoc {
    OperationDoc {
        summary,
        query: None,
        body: None,
        answers: Vec::new(),
        is_conditional: false,
        is_repeatable: false,
        is_resumable: false,
        may_be_missing: false,
    }
}

impl OperationDoc {
    /// The fields of `T` are the query parameters.
    pub(crate) fn query<T: JsonSchema>(self) -> Self {
        // Its fields become parameters, so it has no own schema.
        Self { query: Some(T::json_schema), ..self }
    }

    pub(crate) const fn has_query(&self) -> bool {
        self.query.is_some()
    }

    /// Whether the operation returns an answer with an end.
    pub(crate) fn has_whole_answer(&self) -> bool {
        !self.answers.is_empty() && self.answers.iter().all(|answer| answer.media_type != EVENT_STREAM)
    }

    pub(crate) fn accepts<T: JsonSchema>(self) -> Self {
        self.body(schema_of::<T>, true, JSON)
    }

    pub(crate) fn merges<T: JsonSchema>(self) -> Self {
        self.body(patch_of::<T>, true, &["application/json", MERGE_PATCH_JSON])
    }

    /// The name is in the path, so the body may omit it.
    pub(crate) fn accepts_named<T: JsonSchema>(self) -> Self {
        self.body(without_name::<T>, true, JSON)
    }

    pub(crate) fn may_take<T: JsonSchema>(self) -> Self {
        self.body(schema_of::<T>, false, JSON)
    }

    fn body(self, schema: SchemaOf, is_required: bool, media_types: &'static [&'static str]) -> Self {
        Self { body: Some(RequestBody { schema, is_required, media_types }), ..self }
    }

    pub(crate) fn returns<T: JsonSchema>(self, status: StatusCode) -> Self {
        self.with_response(ResponseDoc {
            status,
            media_type: "application/json",
            schema: Some(schema_of::<T>),
        })
    }

    pub(crate) fn ok<T: JsonSchema>(self) -> Self {
        self.returns::<T>(StatusCode::OK)
    }

    pub(crate) fn created<T: JsonSchema>(self) -> Self {
        self.returns::<T>(StatusCode::CREATED)
    }

    pub(crate) fn put<T: JsonSchema>(self) -> Self {
        self.ok::<T>().created::<T>()
    }

    pub(crate) fn no_content(self) -> Self {
        self.with_response(ResponseDoc { status: StatusCode::NO_CONTENT, media_type: "", schema: None })
    }

    /// Returns server-sent events with `T` as data, and continues after `Last-Event-ID`.
    pub(crate) fn streams<T: JsonSchema>(self) -> Self {
        let response =
            ResponseDoc { status: StatusCode::OK, media_type: EVENT_STREAM, schema: Some(schema_of::<T>) };
        Self { is_resumable: true, ..self.with_response(response) }
    }

    fn with_response(mut self, response: ResponseDoc) -> Self {
        self.answers.push(response);
        self
    }

    pub(crate) fn if_match(self) -> Self {
        Self { is_conditional: true, ..self }
    }

    pub(crate) fn may_be_missing(self) -> Self {
        Self { may_be_missing: true, ..self }
    }

    /// Accepts `Idempotency-Key`.
    pub(crate) fn repeatable(self) -> Self {
        Self { is_repeatable: true, ..self }
    }
}

/// Has a name, because generators of clients derive one type for each inline schema and media type.
fn patch_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator);
    let required: Vec<String> = match schema.remove("required") {
        Some(Value::Array(names)) => {
            names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
        }
        _ => Vec::new(),
    };
    // `null` removes a field, which is impossible for a required field.
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, field) in fields.iter_mut().filter(|(name, _)| !required.contains(name)) {
            let mut kind = field.take();
            // An absent field stays as it is.
            if let Some(kind) = kind.as_object_mut() {
                kind.remove("default");
            }
            *field = json!({"anyOf": [kind, {"type": "null"}]});
        }
    }
    let name = format!("{}Patch", T::schema_name());
    generator.definitions_mut().insert(name.clone(), schema.to_value());
    Schema::new_ref(format!("{SCHEMAS}{name}"))
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn without_name<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator);
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|field| field != "name");
    }
    schema
}
