// SPDX-License-Identifier: Apache-2.0
//! A tree of values without the members that nobody reads. Most of a pod is such members, and to build a tree costs
//! ten times what it costs to read past it.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

macro_rules! scalars {
    ($($visit:ident: $value:ty),*) => {
        $(fn $visit<E: Error>(self, value: $value) -> Result<Value, E> {
            Ok(value.into())
        })*
    };
}

/// Reads a value without the members of these names, at any depth.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) without: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Kept {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Kept {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    scalars! {
        visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str, visit_string: String
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.without.contains(&name.as_str()) {
                map.next_value::<IgnoredAny>()?;
            } else {
                members.insert(name, map.next_value_seed(self)?);
            }
        }
        Ok(Value::Object(members))
    }
}
