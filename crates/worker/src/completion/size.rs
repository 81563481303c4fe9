//! A cheap estimate of the size of a result, for the bounds of the completer.

use serde_json::Value;

use crate::backend::Ended;

/// Bytes of a JSON value besides its text.
const EACH: usize = 8;

pub(crate) fn bytes_of(ended: &Ended) -> usize {
    let record = &ended.record;
    let output: usize = record.output.iter().map(|chunk| chunk.content.len()).sum();
    let json = [&record.result, &record.metrics].into_iter().flatten().map(json_bytes).sum::<usize>();
    let texts =
        [&record.error_message, &record.traceback].into_iter().flatten().map(String::len).sum::<usize>();
    output + json + texts
}

fn json_bytes(value: &Value) -> usize {
    EACH + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(json_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + json_bytes(value)).sum(),
    }
}
