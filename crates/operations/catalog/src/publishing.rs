//! The parts that the publisher's interface and its imports share: permissions, new APIs, and the limits of revisions.

use serde_json::{Value, json};

use crate::definition::{self, Site};
use crate::http::{Answer, CatalogRequest, Refusal, created};
use crate::object_store::Read;
use crate::objects::{Api, ApiState};
use crate::{Catalog, endpoints, ids};

/// The limit of revisions of one API, as in WSO2 API Manager.
pub(crate) const REVISIONS_MAX: usize = 5;

pub(crate) const VIEW: [&str; 5] =
    ["apim:api_view", "apim:api_create", "apim:api_publish", "apim:api_manage", "apim:admin"];
pub(crate) const CREATE: [&str; 3] = ["apim:api_create", "apim:api_manage", "apim:admin"];
pub(crate) const PUBLISH: [&str; 3] = ["apim:api_publish", "apim:api_manage", "apim:admin"];

pub(crate) fn api(catalog: &Catalog, id: &str) -> Result<Read<Api>, Refusal> {
    catalog.objects.get::<Api>(id).ok_or_else(|| Refusal::missing("API"))
}

pub(crate) async fn create(
    catalog: &Catalog,
    asked: &CatalogRequest,
    mut dto: Value,
    document: Option<Value>,
) -> Answer {
    let visitor = catalog.visitor(asked, &CREATE).await?;
    let errors = definition::check(&mut dto, &Site::of(&*catalog.settings()?));
    if !errors.is_empty() {
        return Err(Refusal::invalid(errors));
    }
    let now = crate::now();
    let api = Api {
        id: ids::uuid(),
        state: ApiState::Created,
        owner: visitor.name,
        dto,
        document,
        revisions: Vec::new(),
        revision_last: 0,
        created: now,
        updated: now,
    };
    let body = whole(&api);
    catalog.add_api(api).await?;
    created(&body)
}

/// An API as its publisher sees it.
pub(crate) fn whole(api: &Api) -> Value {
    let mut dto = api.dto.clone();
    endpoints::without_secrets(&mut dto);
    if let Some(members) = dto.as_object_mut() {
        members.insert("id".to_owned(), json!(api.id));
        members.insert("provider".to_owned(), json!(api.owner));
        members.insert("lifeCycleStatus".to_owned(), json!(api.state.as_str()));
        members.insert("isRevision".to_owned(), json!(false));
        members.insert("revisionId".to_owned(), json!(0));
        members.insert("createdTime".to_owned(), json!(api.created.to_string()));
        members.insert("lastUpdatedTime".to_owned(), json!(api.updated.to_string()));
    }
    dto
}

pub(crate) fn too_many_revisions() -> Refusal {
    Refusal::bad(
        "Maximum number of revisions per API has reached. Need to remove a revision to create a new one",
    )
}

pub(crate) fn deployment(mut one: Value, revision: &str, now: u64) -> Value {
    if let Some(members) = one.as_object_mut() {
        members.insert("revisionUuid".to_owned(), json!(revision));
        members.insert("status".to_owned(), json!("APPROVED"));
        members.insert("deployedTime".to_owned(), json!(now));
    }
    one
}
