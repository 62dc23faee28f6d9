//! The objects in the stores of all releases: all are read, and can be changed.

use std::sync::Arc;

use serde_json::json;
use store::nodes::Nodes;
use store::{Change, Expect, Memory, Tables as _};

use crate::foreign_changes::{ForeignChanges, Reader, Writer};
use crate::object_store::ObjectStore;
use crate::objects::{
    Api, ApiState, Application, ApplicationKey, Client, Family, KeyKind, Object, Plan, PlanLevel,
    RemovedKey, Revision, Revoked, SigningKey, Subscription, SubscriptionState,
};
use crate::secrets::{self, Secrets};

#[path = "../../../../tests/harness/releases.rs"]
#[allow(dead_code, reason = "the tests of the store use the rest")]
mod items;
#[path = "../../../../tests/harness/kept.rs"]
mod kept;

use items::Item;

const TABLE: &str = "catalog";
const SECRET: &str = "geheim";

fn objects(store: &Memory) -> ObjectStore {
    ObjectStore::new(Arc::new(store.clone()), Arc::new(Nodes::single()))
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn api() -> Api {
    let dto = json!({
        "name": "Orders", "version": "1.0", "context": "/orders", "type": "HTTP",
        "policies": ["Gold"],
    });
    let document = Some(json!({ "openapi": "3.0.1", "paths": {} }));
    let revision = Revision {
        id: text("revision-1"),
        number: 1,
        description: text("first"),
        created: 2,
        dto: dto.clone(),
        document: document.clone(),
        deployments: vec![json!({ "name": "Default", "vhost": "localhost" })],
        deployed: 3,
    };
    Api {
        id: text("cccccccc-0000-4000-8000-000000000001"),
        state: ApiState::Published,
        owner: text("ann"),
        dto,
        document,
        revisions: vec![revision],
        revision_last: 1,
        created: 1,
        updated: 4,
    }
}

fn application(secret_hash: String) -> Application {
    let key = ApplicationKey {
        id: text("eeeeeeee-0000-4000-8000-000000000001"),
        kind: KeyKind::Sandbox,
        consumer_key: text("eeeeeeee-0000-4000-8000-000000000002"),
        secret_hash,
        grants: vec![text("client_credentials")],
        callback: text("http://a/"),
        scopes: vec![text("orders.read")],
        lifetime: Some(600),
    };
    Application {
        id: text("aaaaaaaa-0000-4000-8000-000000000001"),
        name: text("Shop"),
        owner: text("ann"),
        plan: text("10PerMin"),
        description: text("sells"),
        attributes: json!({ "team": "a" }),
        keys: vec![key],
        created: 5,
        updated: 6,
        removed: false,
    }
}

/// Fills a store as this version does: an object of each kind, and the entry of a change for other gateways.
async fn filled() -> Memory {
    let store = Memory::new();
    let objects = objects(&store);
    let secret_hash = secrets::hash(SECRET).await.unwrap();
    objects.add(api()).await.unwrap();
    objects.add(application(secret_hash.clone())).await.unwrap();
    let subscription = Subscription {
        id: text("bbbbbbbb-0000-4000-8000-000000000001"),
        api: text("cccccccc-0000-4000-8000-000000000001"),
        application: text("aaaaaaaa-0000-4000-8000-000000000001"),
        plan: text("Gold"),
        state: SubscriptionState::ProdOnlyBlocked,
        created: 7,
    };
    objects.add(subscription).await.unwrap();
    let (level, dto) = (PlanLevel::Subscription, json!({ "policyName": "Gold" }));
    objects
        .add(Plan {
            id: text("dddddddd-0000-4000-8000-000000000001"),
            level,
            name: text("Gold"),
            dto,
        })
        .await
        .unwrap();
    let (name, owner, grants) = (text("ctl"), text("ann"), vec![text("password")]);
    let client = Client { id: text("client-1"), secret_hash, name, owner, grants };
    objects.add(client).await.unwrap();
    let pem = text("the key in PEM\n");
    objects.add(SigningKey { id: text("key-1"), pem, created: 8, until: 9 }).await.unwrap();
    let family = Family {
        id: text("family-1"),
        client: text("client-1"),
        subject: text("ann"),
        scope: text("apim:api_view"),
        current: text("00ff"),
        until: 10,
        tokens: vec![(text("jti-1"), 11)],
        revoked: false,
    };
    objects.add(family).await.unwrap();
    objects.add(Revoked { id: text("jti-2"), until: 12 }).await.unwrap();
    objects.add(RemovedKey { id: text("consumer-2"), until: 13 }).await.unwrap();
    let entry = Writer::new().begin(vec![text("revoked/jti-2")]);
    let (key, value) = (entry.key.into_bytes(), Some(entry.value.into()));
    let change = Change { table: TABLE.into(), key, value, expect: Expect::Nothing };
    store.change(vec![change], None).await.unwrap();
    store
}

/// Returns the ids and values of rows whose keys have a prefix.
fn rows<'i>(items: &'i [Item], prefix: &str) -> Vec<(&'i str, &'i [u8])> {
    let found = items.iter().filter_map(|item| {
        let Item::Row { key, value, .. } = item else { panic!("{item:?}") };
        let id = key.strip_prefix(prefix.as_bytes())?;
        Some((std::str::from_utf8(id).unwrap(), &**value))
    });
    found.collect()
}

/// Reads all objects of a kind, compares them with their rows, and writes each again.
async fn continued<T: Object>(store: &Memory, items: &[Item]) {
    let objects = objects(store);
    objects.load::<T>().await.unwrap();
    let rows = rows(items, &format!("{}/", T::KIND));
    assert!(!rows.is_empty(), "{}", T::KIND);
    assert_eq!(objects.all::<T>().len(), rows.len(), "{}", T::KIND);
    for (id, value) in rows {
        kept::assert_kept::<T>(value);
        let read = objects.get::<T>(id).unwrap();
        // Its names are taken too.
        assert!(objects.add(T::clone(&read.object)).await.is_err());
        objects.change(&read, T::clone(&read.object)).await.unwrap();
        objects.remove(&objects.get::<T>(id).unwrap()).await.unwrap();
        objects.add(T::clone(&read.object)).await.unwrap();
    }
}

async fn all_continued(items: &[Item]) {
    let store = Memory::new();
    items::load(&store, items).await;
    continued::<Api>(&store, items).await;
    continued::<Application>(&store, items).await;
    continued::<Subscription>(&store, items).await;
    continued::<Plan>(&store, items).await;
    continued::<Client>(&store, items).await;
    continued::<SigningKey>(&store, items).await;
    continued::<Family>(&store, items).await;
    continued::<Revoked>(&store, items).await;
    continued::<RemovedKey>(&store, items).await;
    let (id, value) = rows(items, "news/")[0];
    let (key, value) = (format!("news/{id}").into(), value.to_vec().into());
    let entries = [store::Row { key, value, version: 1 }];
    let changes = Reader::default().read(&entries, kit::clock::now());
    assert_eq!(changes, ForeignChanges::Rows([text("revoked/jti-2")].into()));
    let (_, client) = rows(items, "client/")[0];
    let client: Client = serde_json::from_slice(client).unwrap();
    assert!(Secrets::new().unwrap().is_right(&client.secret_hash, SECRET).await.unwrap());
}

#[tokio::test]
async fn catalogs_of_all_releases_continue() {
    for items in items::of_all("catalog.txt", (&[], &[TABLE]), filled).await {
        all_continued(&items).await;
    }
}
