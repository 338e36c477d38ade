// SPDX-License-Identifier: Apache-2.0
//! Objects of the API as `kubectl get -o json` or `-o yaml` prints them: one, or a list. Each object of a list is
//! dropped once it was taken, so a list of any length streams through.

mod kept;

use kept::Kept;
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use std::marker::PhantomData;

/// Nodes of a YAML document's tree: a pod has some hundreds.
const TREE: usize = 20_000_000;

/// The documents of a file of YAML, of which JSON is a part; `None` for an empty one.
pub(crate) fn documents<'a, T: ObjectTaker + 'a>(
    file: &'a mut &[u8],
) -> impl Iterator<Item = Result<Option<ObjectDocument<T>>, String>> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: TREE,
            max_nodes: TREE,
            max_total_scalar_bytes: file.len().saturating_mul(2),
        },
    };
    // The first line of such a message says what is wrong, and where.
    let brief = |error: serde_saphyr::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let documents = serde_saphyr::read_with_options::<_, Option<ObjectDocument<T>>>(file, options);
    documents.map(move |document| document.map_err(brief))
}

/// Takes objects, one by one.
pub(crate) trait ObjectTaker: Default {
    /// Members of an object's tree that are dropped while it is read: they are most of it.
    const UNREAD: &[&str];

    /// `kind` is the object's own, or that of its list.
    ///
    /// # Errors
    /// When the object is not one of the API.
    fn take(&mut self, object: &Value, kind: &str) -> Result<(), &'static str>;

    /// Takes an object, or the objects of a list within a list. Items of a typed list have no kind of their own.
    ///
    /// # Errors
    /// As [`Self::take`].
    fn take_all(&mut self, object: &Value, of_list: &str) -> Result<(), &'static str> {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or(of_list);
        match object.get("items").and_then(Value::as_array) {
            Some(items) => items.iter().try_for_each(|item| self.take_all(item, of_items(kind))),
            None => self.take(object, kind),
        }
    }
}

/// `PodList` is a list of `Pod`.
fn of_items(kind: &str) -> &str {
    kind.trim_end_matches("List")
}

/// A document that kubectl printed. `T` takes its objects.
#[derive(serde::Deserialize)]
#[serde(bound = "T: ObjectTaker")]
pub(crate) struct ObjectDocument<T> {
    kind: Option<String>,
    items: Option<ListItems<T>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl<T: ObjectTaker> ObjectDocument<T> {
    /// The items of a list; `None` for a document that is not a list.
    pub(crate) fn items(self) -> Option<T> {
        let ListItems { mut taken, without_kind } = self.items?;
        let kind = self.kind.unwrap_or_default();
        let all = without_kind.iter().try_for_each(|item| taken.take_all(item, of_items(&kind)));
        all.ok().map(|()| taken)
    }

    /// All objects: those of a list, or the one.
    pub(crate) fn objects(mut self) -> T {
        if self.items.is_some() {
            return self.items().unwrap_or_default();
        }
        let kind = self.kind.unwrap_or_default();
        self.rest.insert("kind".to_owned(), Value::String(kind.clone()));
        let mut taken = T::default();
        let _ = taken.take(&Value::Object(self.rest), &kind);
        taken
    }
}

/// The items of a list. The kind of a list may be behind its items.
struct ListItems<T> {
    taken: T,
    without_kind: Vec<Value>,
}

impl<'de, T: ObjectTaker> Deserialize<'de> for ListItems<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemVisitor(PhantomData))
    }
}

struct ItemVisitor<T>(PhantomData<T>);

impl<'de, T: ObjectTaker> Visitor<'de> for ItemVisitor<T> {
    type Value = ListItems<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ListItems<T>, A::Error> {
        let mut items = ListItems { taken: T::default(), without_kind: Vec::new() };
        while let Some(item) = list.next_element_seed(Kept { without: T::UNREAD })? {
            if item.get("kind").is_some() {
                items.taken.take_all(&item, "").map_err(A::Error::custom)?;
            } else {
                items.without_kind.push(item);
            }
        }
        Ok(items)
    }
}
