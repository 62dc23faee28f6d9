//! Applications in memory, in a compact form. There may be hundreds of thousands, so each takes some four hundred
//! bytes.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::ids::{self, Id, Words};
use crate::objects::{Application, ApplicationKey, KeyKind};

/// All applications.
#[derive(Default)]
pub(crate) struct ApplicationRows {
    rows: HashMap<Id, Box<CompactRow>>,
    /// While all rows are being read: the applications that were known before and have not been read yet.
    unread: HashSet<Id>,
    /// Owners and plans.
    words: Words,
}

struct CompactRow {
    version: u64,
    created: u64,
    updated: u64,
    name: Box<str>,
    description: Box<str>,
    /// None if the attributes are an empty object.
    attributes: Option<Box<Value>>,
    keys: Box<[CompactKey]>,
    owner: u32,
    plan: u32,
    removed: bool,
}

struct CompactKey {
    id: Id,
    consumer_key: Box<str>,
    secret_hash: Box<str>,
    callback: Box<str>,
    grants: Box<[Box<str>]>,
    scopes: Box<[Box<str>]>,
    lifetime: Option<u64>,
    kind: KeyKind,
}

impl ApplicationRows {
    pub(crate) fn get(&self, id: &str) -> Option<(Application, u64)> {
        let number = ids::number(id)?;
        let row = self.rows.get(&number)?;
        Some((self.whole(number, row), row.version))
    }

    pub(crate) fn version(&self, id: &str) -> Option<u64> {
        self.rows.get(&ids::number(id)?).map(|row| row.version)
    }

    /// Adds or replaces an application. Returns false, without keeping it, if one of its ids is invalid.
    pub(crate) fn insert(&mut self, application: &Application, version: u64) -> bool {
        let keys = application.keys.iter().map(compact).collect::<Option<_>>();
        let (Some(id), Some(keys)) = (ids::number(&application.id), keys) else { return false };
        let owner = self.words.number(&application.owner);
        let (Some(owner), Some(plan)) = (owner, self.words.number(&application.plan)) else {
            return false;
        };
        let attributes = &application.attributes;
        let has_attributes = attributes.as_object().is_none_or(|members| !members.is_empty());
        let row = CompactRow {
            version,
            created: application.created,
            updated: application.updated,
            name: application.name.as_str().into(),
            description: application.description.as_str().into(),
            attributes: has_attributes.then(|| Box::new(attributes.clone())),
            keys,
            owner,
            plan,
            removed: application.removed,
        };
        self.rows.insert(id, Box::new(row));
        self.unread.remove(&id);
        true
    }

    pub(crate) fn remove(&mut self, id: &str) {
        if let Some(id) = ids::number(id) {
            self.rows.remove(&id);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Application, u64)> {
        self.rows.iter().map(|(id, row)| (self.whole(*id, row), row.version))
    }

    /// Begins a reading of all rows.
    pub(crate) fn begin_reading(&mut self) {
        self.unread = self.rows.keys().copied().collect();
    }

    /// Notes that the store has this row.
    pub(crate) fn note(&mut self, id: &str) {
        if let Some(id) = ids::number(id) {
            self.unread.remove(&id);
        }
    }

    /// Ends a reading of all rows. Applications without a row are removed.
    pub(crate) fn end_reading(&mut self) {
        for id in std::mem::take(&mut self.unread) {
            self.rows.remove(&id);
        }
    }

    fn whole(&self, id: Id, row: &CompactRow) -> Application {
        Application {
            id: ids::text(id),
            name: row.name.to_string(),
            owner: self.words.text(row.owner),
            plan: self.words.text(row.plan),
            description: row.description.to_string(),
            attributes: row.attributes.as_deref().cloned().unwrap_or_else(|| json!({})),
            keys: row.keys.iter().map(whole).collect(),
            created: row.created,
            updated: row.updated,
            removed: row.removed,
        }
    }
}

fn compact(key: &ApplicationKey) -> Option<CompactKey> {
    let texts = |all: &[String]| all.iter().map(|one| one.as_str().into()).collect();
    Some(CompactKey {
        id: ids::number(&key.id)?,
        consumer_key: key.consumer_key.as_str().into(),
        secret_hash: key.secret_hash.as_str().into(),
        callback: key.callback.as_str().into(),
        grants: texts(&key.grants),
        scopes: texts(&key.scopes),
        lifetime: key.lifetime,
        kind: key.kind,
    })
}

fn whole(key: &CompactKey) -> ApplicationKey {
    let texts = |all: &[Box<str>]| all.iter().map(|one| one.to_string()).collect();
    ApplicationKey {
        id: ids::text(key.id),
        kind: key.kind,
        consumer_key: key.consumer_key.to_string(),
        secret_hash: key.secret_hash.to_string(),
        grants: texts(&key.grants),
        callback: key.callback.to_string(),
        scopes: texts(&key.scopes),
        lifetime: key.lifetime,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids;

    fn application(attributes: Value, lifetime: Option<u64>) -> Application {
        let key = |kind: KeyKind| ApplicationKey {
            id: ids::uuid(),
            kind,
            consumer_key: ids::uuid(),
            secret_hash: "hash".to_owned(),
            grants: vec!["client_credentials".to_owned(), "a b".to_owned()],
            callback: "https://a.test/".to_owned(),
            scopes: vec!["read".to_owned()],
            lifetime,
        };
        Application {
            id: ids::uuid(),
            name: "日本".to_owned(),
            owner: "admin".to_owned(),
            plan: "Gold".to_owned(),
            description: "text".to_owned(),
            attributes,
            keys: vec![key(KeyKind::Production), key(KeyKind::Sandbox)],
            created: 3,
            updated: 4,
            removed: lifetime.is_some(),
        }
    }

    fn written(application: &Application) -> Value {
        serde_json::to_value(application).unwrap()
    }

    #[test]
    fn a_kept_application_equals_the_written_one() {
        let mut rows = ApplicationRows::default();
        for one in [
            application(json!({}), None),
            application(json!({ "a": [1, null] }), Some(7)),
            application(Value::Null, None),
            Application { keys: Vec::new(), ..application(json!("text"), None) },
        ] {
            assert!(rows.insert(&one, 5));
            let (read, version) = rows.get(&one.id).unwrap();
            assert_eq!((written(&read), version), (written(&one), 5));
            assert_eq!(rows.version(&one.id), Some(5));
        }
        assert_eq!(rows.iter().count(), 4);
        let strange = Application { id: "x".to_owned(), ..application(json!({}), None) };
        assert!(!rows.insert(&strange, 1));
        let mut strange = application(json!({}), None);
        strange.keys[1].id = "x".to_owned();
        assert!(!rows.insert(&strange, 1));
        assert_eq!(rows.iter().count(), 4);
    }

    #[test]
    fn rows_missing_in_the_store_are_removed_unless_written_meanwhile() {
        let mut rows = ApplicationRows::default();
        let all: Vec<Application> = (0..4).map(|_| application(json!({}), None)).collect();
        all[..3].iter().for_each(|one| assert!(rows.insert(one, 1)));
        rows.begin_reading();
        rows.note(&all[0].id);
        assert!(rows.insert(&all[1], 2) && rows.insert(&all[3], 2));
        rows.end_reading();
        let is_there = |at: usize| rows.get(&all[at].id).is_some();
        assert_eq!([0, 1, 2, 3].map(is_there), [true, true, false, true]);
    }

    #[test]
    fn a_row_is_small() {
        assert!(size_of::<CompactRow>() <= 96, "{}", size_of::<CompactRow>());
        assert!(size_of::<CompactKey>() <= 120, "{}", size_of::<CompactKey>());
    }
}
