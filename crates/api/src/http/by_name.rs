//! Deserializes objects by field names only. Pure.
//!
//! Derived readers of structs also accept a list with the fields in declaration order, so its
//! meaning would change between releases. [`ByName`] rejects such a list at any depth, except in
//! untagged enums: serde copies their input before it selects a variant.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

#[derive(Debug, Clone)]
pub(crate) struct ByName(pub(crate) Value);

impl IntoDeserializer<'_, Error> for ByName {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for ByName {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.into_iter().map(ByName));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(fields) => {
                let mut fields =
                    MapDeserializer::new(fields.into_iter().map(|(name, value)| (name, ByName(value))));
                let value = visitor.visit_map(&mut fields)?;
                fields.end()?;
                Ok(value)
            }
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.0 {
            Value::Array(_) => Err(Error::custom("must be an object, not a list")),
            Value::Object(_) => self.deserialize_any(visitor),
            _ => self.0.deserialize_struct(name, fields, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}
