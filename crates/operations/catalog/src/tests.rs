//! The objects in the stores of earlier releases: all are read, and can be changed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use store::nodes::Nodes;
use store::{Memory, Store};

use crate::foreign_changes::{ForeignChanges, Reader};
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

const FILE: &str = "catalog.txt";

fn objects(store: &Memory) -> ObjectStore {
    ObjectStore::new(Arc::new(store.clone()) as Arc<dyn Store>, Arc::new(Nodes::single()))
}

fn api() -> Api {
    let dto = json!({
        "name": "Orders", "version": "1.0", "context": "/orders", "type": "HTTP",
        "policies": ["Gold"],
    });
    let document = Some(json!({ "openapi": "3.0.1", "paths": {} }));
    let revision = Revision {
        id: "revision-1".to_owned(),
        number: 1,
        description: "first".to_owned(),
        created: 2,
        dto: dto.clone(),
        document: document.clone(),
        deployments: vec![json!({ "name": "Default", "vhost": "localhost" })],
        deployed: 3,
    };
    Api {
        id: "api-1".to_owned(),
        state: ApiState::Published,
        owner: "ann".to_owned(),
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
        id: "key-1".to_owned(),
        kind: KeyKind::Sandbox,
        consumer_key: "consumer".to_owned(),
        secret_hash,
        grants: vec!["client_credentials".to_owned()],
        callback: "http://a/".to_owned(),
        scopes: vec!["orders.read".to_owned()],
        lifetime: Some(600),
    };
    Application {
        id: "application-1".to_owned(),
        name: "Shop".to_owned(),
        owner: "ann".to_owned(),
        plan: "10PerMin".to_owned(),
        description: "sells".to_owned(),
        attributes: json!({ "team": "a" }),
        keys: vec![key],
        created: 5,
        updated: 6,
        removed: false,
    }
}

/// Fills a store as this version does: an object of each kind, and the list of a change for other gateways.
async fn filled() -> Memory {
    let store = Memory::new();
    let objects = objects(&store);
    let hash = secrets::hash("geheim").await.unwrap();
    let text = str::to_owned;
    objects.add(api()).await.unwrap();
    objects.add(application(hash.clone())).await.unwrap();
    let subscription = Subscription {
        id: text("subscription-1"),
        api: text("api-1"),
        application: text("application-1"),
        plan: text("Gold"),
        state: SubscriptionState::ProdOnlyBlocked,
        created: 7,
    };
    objects.add(subscription).await.unwrap();
    let dto = json!({ "policyName": "Gold" });
    let plan = Plan { id: text("plan-1"), level: PlanLevel::Subscription, name: text("Gold"), dto };
    objects.add(plan).await.unwrap();
    let (id, owner, grants) = (text("client-1"), text("ann"), vec![text("password")]);
    let client = Client { id, secret_hash: hash, name: text("ctl"), owner, grants };
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
    // Another gateway shares the store.
    let nodes = Arc::new(Nodes::shared("a", Duration::from_secs(3)));
    let other = Nodes::shared("b", Duration::from_secs(3));
    let (first, second) = (store.clone(), store.clone());
    let running = nodes.clone();
    let both = async { tokio::join!(running.run(&first), other.run(&second)) };
    let add = async {
        while !nodes.has_company() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let objects = ObjectStore::new(Arc::new(store.clone()) as Arc<dyn Store>, nodes.clone());
        objects.add(Revoked { id: text("jti-3"), until: 14 }).await.unwrap();
    };
    tokio::select! {
        _ = both => panic!("nodes run until they are dropped"),
        () = add => {}
    }
    store
}

/// Reads all objects of a kind, compares them with their rows, and writes each again.
async fn continued<T: Object>(store: &Memory, rows: &[Item]) {
    let objects = objects(store);
    objects.load::<T>().await.unwrap();
    let prefix = format!("{}/", T::KIND);
    let mut count = 0;
    for row in rows {
        let Item::Row { key, value, .. } = row else { panic!("{row:?}") };
        let Some(id) = key.strip_prefix(prefix.as_bytes()) else { continue };
        let read = objects.get::<T>(std::str::from_utf8(id).unwrap()).unwrap();
        kept::assert_kept(value, &serde_json::to_vec(&*read.object).unwrap());
        // The rows of its names are found: none of them is added again.
        assert!(objects.add(T::clone(&read.object)).await.is_err());
        objects.change(&read, T::clone(&read.object)).await.unwrap();
        let again = objects.get::<T>(read.object.id()).unwrap();
        objects.remove(&again).await.unwrap();
        objects.add(T::clone(&read.object)).await.unwrap();
        count += 1;
    }
    assert!(count > 0 && objects.all::<T>().len() == count, "{}", T::KIND);
}

async fn all_continued(folder: &Path) {
    let rows = items::read(&folder.join(FILE));
    let store = Memory::new();
    items::load(&store, &rows).await;
    continued::<Api>(&store, &rows).await;
    continued::<Application>(&store, &rows).await;
    continued::<Subscription>(&store, &rows).await;
    continued::<Plan>(&store, &rows).await;
    continued::<Client>(&store, &rows).await;
    continued::<SigningKey>(&store, &rows).await;
    continued::<Family>(&store, &rows).await;
    continued::<Revoked>(&store, &rows).await;
    continued::<RemovedKey>(&store, &rows).await;
    let row = |prefix: &str| {
        rows.iter().find_map(|row| {
            let Item::Row { key, value, .. } = row else { return None };
            key.starts_with(prefix.as_bytes()).then(|| (key.clone(), value.clone()))
        })
    };
    let (key, value) = row("news/").unwrap();
    let changes = vec![store::Row { key: key.into(), value: value.into(), version: 1 }];
    let read = Reader::default().read(&changes, kit::clock::now());
    assert_eq!(read, ForeignChanges::Rows(["revoked/jti-3".to_owned()].into()));
    let (_, client) = row("client/").unwrap();
    let client: Value = serde_json::from_slice(&client).unwrap();
    let hash = client["secret_hash"].as_str().unwrap();
    assert!(Secrets::new().unwrap().is_right(hash, "geheim").await.unwrap());
}

#[tokio::test]
async fn catalogs_of_all_releases_continue() {
    if items::is_update() {
        let written = items::dump(&filled().await, &[], &["catalog"]).await;
        items::write(&items::current().join(FILE), &written);
    }
    for folder in items::all() {
        all_continued(&folder).await;
    }
}
