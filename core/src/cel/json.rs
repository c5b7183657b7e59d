//! JSON as CEL values, without a conversion: a map or list borrows the JSON, and only the parts
//! that an expression reads become CEL values.

use std::sync::OnceLock;

use cel_interpreter::ExecutionError;
use cel_interpreter::common::traits::{Container, Indexer, Iterable, Iterator as CelIterator, Sizer, Zeroer};
use cel_interpreter::common::types::{self, CelBool, CelDouble, CelInt, CelList, CelNull, CelString, Type};
use cel_interpreter::common::value::{CowVal, Val};
use serde_json::{Map, Value};

/// The CEL value of a JSON value. Integers are `int`, as in the API server, never `uint`.
pub(super) fn cel_value<'a>(value: &'a Value) -> Box<dyn Val + 'a> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Box::new(CelInt::from(integer)),
            None => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => Box::new(JsonList {
            items,
            values: OnceLock::new(),
        }),
        Value::Object(map) => Box::new(JsonMap::new(map)),
    }
}

/// The JSON value of a scalar, or of a list that an expression made. `None` for any other value: a
/// borrowed map or list cannot be kept.
pub(super) fn to_json(value: &dyn Val) -> Option<Value> {
    if let Some(flag) = value.downcast_ref::<CelBool>() {
        return Some(Value::Bool(*flag.inner()));
    }
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        return Some(Value::from(text.inner()));
    }
    if let Some(number) = value.downcast_ref::<CelInt>() {
        return Some(Value::from(*number.inner()));
    }
    if value.downcast_ref::<CelNull>().is_some() {
        return Some(Value::Null);
    }
    let list = value.downcast_ref::<CelList<'_>>()?;
    list.inner().iter().map(|item| to_json(item.as_ref())).collect()
}

/// Whether a JSON value equals a CEL value. Strings, which are compared most often, are not boxed.
fn same(value: &Value, other: &dyn Val) -> bool {
    match value {
        Value::String(text) => other
            .downcast_ref::<CelString<'_>>()
            .is_some_and(|other| other.inner() == text),
        value => cel_value(value).equals(other),
    }
}

/// A JSON object. Comprehensions iterate over its keys.
#[derive(Debug)]
struct JsonMap<'a> {
    map: &'a Map<String, Value>,
    /// Made for the first comprehension, because an iterator returns references.
    keys: OnceLock<Vec<CelString<'a>>>,
}

impl<'a> JsonMap<'a> {
    fn new(map: &'a Map<String, Value>) -> Self {
        Self {
            map,
            keys: OnceLock::new(),
        }
    }
}

impl Val for JsonMap<'_> {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        &types::MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(self)
    }

    // A `JsonMap` borrows, so it cannot be downcast. The other map is compared key by key.
    fn equals(&self, other: &dyn Val) -> bool {
        if other.get_type() != &types::MAP_TYPE {
            return false;
        }
        let (Some(size), Some(indexer)) = (other.as_sizer(), other.as_indexer()) else {
            return false;
        };
        size.size() == self.size()
            && self.map.iter().all(|(name, own)| {
                let theirs = indexer.get(&CelString::from(name.as_str()));
                theirs.is_ok_and(|theirs| same(own, theirs.as_ref()))
            })
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(Self::new(self.map))
    }
}

impl Container for JsonMap<'_> {
    fn contains(&self, value: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(value
            .downcast_ref::<CelString<'_>>()
            .is_some_and(|key| self.map.contains_key(key.inner())))
    }
}

impl Indexer for JsonMap<'_> {
    fn get<'b, 'v>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let Some(key) = index.downcast_ref::<CelString<'_>>() else {
            return Err(unexpected(index, "string"));
        };
        match self.map.get(key.inner()) {
            Some(value) => Ok(CowVal::Owned(cel_value(value))),
            None => Err(ExecutionError::NoSuchKey(key.inner().to_owned().into())),
        }
    }

    fn steal<'v>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let Some(key) = index.downcast_ref::<CelString<'_>>() else {
            return Err(unexpected(index, "string"));
        };
        // The returned value borrows the JSON, not this box.
        self.map
            .get(key.inner())
            .map(cel_value)
            .ok_or_else(|| ExecutionError::NoSuchKey(key.inner().to_owned().into()))
    }
}

impl Iterable for JsonMap<'_> {
    fn iter<'b, 'v>(&'b self) -> Box<dyn CelIterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        let keys = self
            .keys
            .get_or_init(|| self.map.keys().map(|key| CelString::from(key.as_str())).collect());
        Box::new(Keys(keys.iter()))
    }
}

struct Keys<'b, 'a>(std::slice::Iter<'b, CelString<'a>>);

impl<'b, 'v, 'a: 'v> CelIterator<'b, 'v> for Keys<'b, 'a> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        self.0.next().map(|key| key as &(dyn Val + 'v))
    }
}

impl Sizer for JsonMap<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(length(self.map.len()))
    }
}

impl Zeroer for JsonMap<'_> {
    fn is_zero_value(&self) -> bool {
        self.map.is_empty()
    }
}

/// A JSON array.
#[derive(Debug)]
struct JsonList<'a> {
    items: &'a [Value],
    /// Made for the first comprehension, because an iterator returns references.
    values: OnceLock<Vec<Box<dyn Val + 'a>>>,
}

impl Val for JsonList<'_> {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        &types::LIST_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        if other.get_type() != &types::LIST_TYPE {
            return false;
        }
        let (Some(size), Some(indexer)) = (other.as_sizer(), other.as_indexer()) else {
            return false;
        };
        size.size() == CelInt::from(length(self.items.len()))
            && self.items.iter().enumerate().all(|(position, item)| {
                let index = CelInt::from(length(position));
                indexer.get(&index).is_ok_and(|theirs| same(item, theirs.as_ref()))
            })
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(Self {
            items: self.items,
            values: OnceLock::new(),
        })
    }
}

impl<'a> JsonList<'a> {
    fn item(&self, index: &dyn Val) -> Result<&'a Value, ExecutionError> {
        let Some(position) = index.downcast_ref::<CelInt>() else {
            return Err(unexpected(index, "int"));
        };
        let position = *position.inner();
        usize::try_from(position)
            .ok()
            .and_then(|position| self.items.get(position))
            .ok_or_else(|| ExecutionError::IndexOutOfBounds(position.into()))
    }
}

impl Container for JsonList<'_> {
    fn contains(&self, value: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(self.items.iter().any(|item| same(item, value)))
    }
}

impl Indexer for JsonList<'_> {
    fn get<'b, 'v>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.item(index).map(|item| CowVal::Owned(cel_value(item)))
    }

    fn steal<'v>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.item(index).map(cel_value)
    }
}

impl Iterable for JsonList<'_> {
    fn iter<'b, 'v>(&'b self) -> Box<dyn CelIterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        let values = self.values.get_or_init(|| self.items.iter().map(cel_value).collect());
        Box::new(Items(values.iter()))
    }
}

struct Items<'b, 'a>(std::slice::Iter<'b, Box<dyn Val + 'a>>);

impl<'b, 'v, 'a: 'v> CelIterator<'b, 'v> for Items<'b, 'a> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        self.0.next().map(|item| item.as_ref() as &(dyn Val + 'v))
    }
}

impl Sizer for JsonList<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(length(self.items.len()))
    }
}

impl Zeroer for JsonList<'_> {
    fn is_zero_value(&self) -> bool {
        self.items.is_empty()
    }
}

fn length(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn unexpected(value: &dyn Val, want: &str) -> ExecutionError {
    ExecutionError::UnexpectedType {
        got: value.get_type().name().to_owned(),
        want: want.to_owned(),
    }
}
