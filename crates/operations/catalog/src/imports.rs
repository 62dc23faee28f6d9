//! Imports: an API from an OpenAPI document, a WSDL, an AsyncAPI document, or a project of apictl; and new documents for an API.

use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use import::apictl::{ApiProject, Environment, Project};
use serde_json::{Value, json};

use crate::Catalog;
use crate::definition::{self, Site};
use crate::http::{Answer, CatalogRequest, Refusal, json as answer_json, ok};
use crate::object_store::Read;
use crate::objects::{Api, ApiState, Revision, set, text};
use crate::publishing::{self, CREATE, PUBLISH, VIEW};
use crate::{api_kind, asyncapi, document, ids, parts, wsdl_document};

/// The parts of a form.
struct Form(Vec<(String, Vec<u8>)>);

impl Form {
    fn read(asked: &CatalogRequest) -> Result<Form, Refusal> {
        let form = Form(parts::read(asked)?);
        if form.part("url").is_some_and(|url| !url.is_empty()) {
            return Err(Refusal::bad("url is not supported; send the document as file"));
        }
        Ok(form)
    }

    fn part(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, body)| body.as_slice())
    }

    fn file(&self) -> Result<&[u8], Refusal> {
        self.part("file").ok_or_else(|| Refusal::bad("the part file is missing"))
    }

    /// The text of the first of these parts that exists.
    fn text(&self, names: &[&str]) -> Result<String, Refusal> {
        let found = names.iter().find_map(|name| self.part(name));
        let found = found
            .ok_or_else(|| Refusal::bad(format!("the part {} is missing", names.join(" or "))))?;
        let text = std::str::from_utf8(found);
        text.map(str::to_owned).map_err(|_| Refusal::bad("the document is not UTF-8 text"))
    }

    /// The properties in the form, which override those of the document.
    fn properties(&self) -> Result<Value, Refusal> {
        let Some(text) = self.part("additionalProperties") else { return Ok(json!({})) };
        let read = serde_json::from_slice::<Value>(text);
        let read =
            read.map_err(|why| Refusal::bad(format!("additionalProperties is not JSON: {why}")))?;
        if read.is_object() {
            Ok(read)
        } else {
            Err(Refusal::bad("additionalProperties must be a JSON object"))
        }
    }
}

/// Sets a member if it is absent.
fn default(dto: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value.filter(|_| dto.get(key).is_none_or(Value::is_null)) {
        set(dto, key, value);
    }
}

fn of_info(dto: &mut Value, document: &Value) {
    let info = document.get("info");
    for (theirs, ours) in
        [("title", "name"), ("version", "version"), ("description", "description")]
    {
        default(dto, ours, info.and_then(|info| info.get(theirs)).cloned());
    }
}

fn endpoint_config(url: String) -> Value {
    json!({ "endpoint_type": "http", "production_endpoints": { "url": url } })
}

/// `import-openapi`
pub(crate) async fn openapi(catalog: &Catalog, asked: &CatalogRequest) -> Answer {
    catalog.visitor(asked, &CREATE).await?;
    let form = Form::read(asked)?;
    let document = openapi_document(form.text(&["file", "inlineAPIDefinition"])?).await?;
    let mut dto = form.properties()?;
    of_info(&mut dto, &document);
    set(&mut dto, "operations", json!(document::operations_of(&document)));
    publishing::create(catalog, asked, dto, Some(document)).await
}

async fn openapi_document(text: String) -> Result<Value, Refusal> {
    let document = parts::document(text).await?;
    let is_openapi = document.get("openapi").or(document.get("swagger")).is_some();
    if is_openapi && document.get("paths").is_some_and(Value::is_object) {
        Ok(document)
    } else {
        Err(Refusal::bad("The document is not an OpenAPI document with paths"))
    }
}

/// `import-asyncapi`
pub(crate) async fn asyncapi(catalog: &Catalog, asked: &CatalogRequest) -> Answer {
    catalog.visitor(asked, &CREATE).await?;
    let form = Form::read(asked)?;
    let document = parts::document(form.text(&["file", "inlineAPIDefinition"])?).await?;
    let mut dto = form.properties()?;
    of_info(&mut dto, &document);
    of_asyncapi(&mut dto, &document).map_err(Refusal::invalid)?;
    publishing::create(catalog, asked, dto, Some(document)).await
}

/// Takes the type, topics and endpoint of an API from its AsyncAPI document.
fn of_asyncapi(dto: &mut Value, document: &Value) -> Result<(), Vec<String>> {
    if !asyncapi::is_asyncapi(document) {
        return Err(vec!["The document is not an AsyncAPI document".to_owned()]);
    }
    let written = Some(text(dto, "type").to_owned()).filter(|kind| !kind.is_empty());
    let described = asyncapi::describe(document, written.as_deref())?;
    let Some(kind) = written.or(described.kind.map(str::to_owned)) else {
        return Err(vec![
            "type is missing: set it to SSE, WS or WEBSUB in additionalProperties".to_owned(),
        ]);
    };
    if !api_kind::is_stream(&kind) {
        return Err(vec![format!("type must be SSE, WS or WEBSUB, and not {kind:?}")]);
    }
    set(dto, "type", json!(kind));
    set(dto, "operations", json!(described.operations));
    default(dto, "endpointConfig", described.server.map(endpoint_config));
    Ok(())
}

/// `import-wsdl`
pub(crate) async fn wsdl(catalog: &Catalog, asked: &CatalogRequest) -> Answer {
    catalog.visitor(asked, &CREATE).await?;
    let form = Form::read(asked)?;
    // Harmless: a kind that is not text is not a known one.
    let kind = String::from_utf8_lossy(form.part("implementationType").unwrap_or(b"SOAP"));
    let kind = if kind.trim().is_empty() { "SOAP" } else { kind.trim() };
    if !api_kind::is_of_wsdl(kind) {
        return Err(Refusal::bad("implementationType must be SOAP or SOAPTOREST"));
    }
    let document = wsdl_files(form.file()?)?;
    let (document, endpoint) = described(document).await?;
    let mut dto = form.properties()?;
    set(&mut dto, "type", json!(kind));
    let operations = if kind == "SOAPTOREST" {
        offered(&document)?
    } else {
        vec![definition::operation("/*", "POST")]
    };
    default(&mut dto, "operations", Some(json!(operations)));
    default(&mut dto, "endpointConfig", endpoint.map(endpoint_config));
    publishing::create(catalog, asked, dto, Some(document)).await
}

/// The operations of a description as a JSON API, named as in the gateway.
fn offered(document: &Value) -> Result<Vec<Value>, Refusal> {
    let names = wsdl_document::operations(document).map_err(Refusal::invalid)?;
    let target = |name: &String| {
        let path = kit::percent::encoded(name.as_bytes(), b"");
        definition::operation(&format!("/{path}"), "POST")
    };
    Ok(names.iter().map(target).collect())
}

/// The description in an archive, or in a single file.
fn wsdl_files(bytes: &[u8]) -> Result<Value, Refusal> {
    if bytes.starts_with(b"PK") {
        let files = import::apictl::texts(bytes)
            .map_err(|why| Refusal::bad(format!("The archive: {why}")))?;
        let root = files
            .iter()
            .map(|(name, _)| name)
            .filter(|name| name.to_ascii_lowercase().ends_with(".wsdl"));
        let root = root.min_by_key(|name| (name.matches('/').count(), name.len())).cloned();
        let root = root.ok_or_else(|| Refusal::bad("the archive has no .wsdl file"))?;
        let files = files.into_iter().map(|(name, text)| (name, Value::String(text)));
        return Ok(json!({ "root": root, "files": files.collect::<serde_json::Map<_, _>>() }));
    }
    let text =
        std::str::from_utf8(bytes).map_err(|_| Refusal::bad("the WSDL is not UTF-8 text"))?;
    Ok(wsdl_document::of_text(text))
}

/// The description with the address of its service. Large ones take a while, so they are read on another thread.
async fn described(document: Value) -> Result<(Value, Option<String>), Refusal> {
    let read = kit::task::run_blocking(move || {
        let endpoint = wsdl_document::endpoint(&document);
        (document, endpoint)
    });
    let (document, endpoint) =
        read.await.ok_or_else(|| Refusal::internal("reading a WSDL has failed"))?;
    Ok((document, endpoint.map_err(Refusal::invalid)?))
}

/// `apis/{id}/swagger`, `apis/{id}/asyncapi` and `apis/{id}/wsdl` of the publisher.
pub(crate) async fn of_api(
    catalog: &Catalog,
    asked: &CatalogRequest,
    id: &str,
    what: &str,
) -> Answer {
    match asked.method {
        Method::GET => {
            catalog.visitor(asked, &VIEW).await?;
            shown(&publishing::api(catalog, id)?.object, what)
        }
        Method::PUT => {
            catalog.visitor(asked, &CREATE).await?;
            replace(catalog, asked, &publishing::api(catalog, id)?, what).await
        }
        _ => Err(Refusal::unsupported()),
    }
}

/// The document of an API, if it has one of this kind.
pub(crate) fn shown(api: &Api, what: &str) -> Answer {
    let is_stream = api_kind::is_stream(api.kind());
    match what {
        "swagger" if !is_stream && api.kind() != "SOAP" => {
            // The document of a SOAP service is a WSDL.
            let imported = api.document.as_ref().filter(|_| api.kind() == "HTTP");
            ok(&document::openapi(&api.dto, imported))
        }
        "asyncapi" | "async-api-specification" if is_stream => {
            ok(&asyncapi::document(&api.dto, api.document.as_ref()))
        }
        "wsdl" => match wsdl_document::root(api.document.as_ref()) {
            Some(wsdl) => {
                let mut response = Response::new(Body::from(wsdl.to_owned()));
                let kind = axum::http::HeaderValue::from_static("text/xml; charset=utf-8");
                response.headers_mut().insert(axum::http::header::CONTENT_TYPE, kind);
                Ok(response)
            }
            None => Err(Refusal::missing("WSDL")),
        },
        _ => Err(Refusal::missing("document")),
    }
}

async fn replace(
    catalog: &Catalog,
    asked: &CatalogRequest,
    read: &Read<Api>,
    what: &str,
) -> Answer {
    crate::http::check_match(asked, read.version)?;
    let api = &read.object;
    let mut dto = api.dto.clone();
    let document = match (what, api.kind()) {
        ("swagger", "HTTP") => {
            let document = openapi_document(definition_text(asked)?).await?;
            set(&mut dto, "operations", json!(document::operations_of(&document)));
            document
        }
        ("asyncapi", kind) if api_kind::is_stream(kind) => {
            let document = parts::document(definition_text(asked)?).await?;
            of_asyncapi(&mut dto, &document).map_err(Refusal::invalid)?;
            document
        }
        ("wsdl", kind) if api_kind::is_of_wsdl(kind) => {
            described(wsdl_files(Form::read(asked)?.file()?)?).await?.0
        }
        _ => return Err(Refusal::bad("An API of this type has no such document")),
    };
    let errors = definition::check(&mut dto, &Site::of(&*catalog.settings()?));
    if !errors.is_empty() {
        return Err(Refusal::invalid(errors));
    }
    let updated = Api { dto, document: Some(document), updated: crate::now(), ..Api::clone(api) };
    catalog.check_bundle(&updated).await?;
    let body = shown(&updated, what);
    catalog.objects.change(read, updated).await?;
    body
}

/// The document of a request: the parameter `apiDefinition` or a file.
fn definition_text(asked: &CatalogRequest) -> Result<String, Refusal> {
    // Harmless: without a content type, the parser of forms refuses the request.
    if asked
        .header("content-type")
        .unwrap_or_default()
        .starts_with("application/x-www-form-urlencoded")
    {
        let form = asked.form();
        let text = crate::http::value_of(&form, "apiDefinition");
        return text.map(str::to_owned).ok_or_else(|| Refusal::bad("apiDefinition is missing"));
    }
    Form::read(asked)?.text(&["apiDefinition", "file"])
}

/// `import`: a project of apictl. Its API is created or, with `overwrite`, changed, and deployed as the project
/// specifies.
pub(crate) async fn project(catalog: &Catalog, asked: &CatalogRequest) -> Answer {
    let visitor = catalog.visitor(asked, &CREATE).await?;
    let form = Form::read(asked)?;
    let bytes = form.file()?.to_vec();
    let read = kit::task::run_blocking(move || {
        Project::unzip(&bytes).map_err(|why| vec![why])?.api(&Environment::default())
    });
    let read = read.await.ok_or_else(|| Refusal::internal("reading a project has failed"))?;
    let project = read.map_err(Refusal::invalid)?;
    let mut imported = api_of(&project, visitor.name.clone(), &Site::of(&*catalog.settings()?))?;
    if imported.state != ApiState::Created || !project.deployments.is_empty() {
        catalog.visitor(asked, &PUBLISH).await?;
    }
    let overwrites = asked.parameter("overwrite") == Some("true");
    let known = catalog.objects.all::<Api>().into_iter().find(|known| {
        (known.object.name(), known.object.version()) == (imported.name(), imported.version())
    });
    match known {
        Some(known) if overwrites => {
            imported = over(&known.object, imported, asked.parameter("rotateRevision"))?;
            revise(&mut imported, &project.deployments)?;
            catalog.check_bundle(&imported).await?;
            catalog.change_deployed(&known, imported).await?;
        }
        Some(_) => {
            return Err(Refusal::conflict("The API exists already; `overwrite=true` changes it"));
        }
        None => {
            if asked.parameter("preserveProvider") != Some("false")
                && !text(&imported.dto, "provider").is_empty()
            {
                let provider = text(&imported.dto, "provider").to_owned();
                if visitor.owns(&provider) {
                    imported.owner = provider;
                }
            }
            revise(&mut imported, &project.deployments)?;
            catalog.check_bundle(&imported).await?;
            catalog.add_api(imported).await?;
        }
    }
    Ok(answer_json(axum::http::StatusCode::OK, &json!("API imported successfully.")))
}

/// The API of a project, which is not deployed yet.
fn api_of(project: &ApiProject, owner: String, site: &Site<'_>) -> Result<Api, Refusal> {
    let mut dto = project.dto.clone();
    let mut errors = prepare(&mut dto, project.document.as_ref());
    errors.extend(definition::check(&mut dto, site));
    let word = text(&dto, "lifeCycleStatus").to_ascii_uppercase();
    let state = match ApiState::read(if word.is_empty() { "CREATED" } else { &word }) {
        Some(state) => state,
        None => {
            errors.push(format!("lifeCycleStatus {word:?} is not supported"));
            ApiState::Created
        }
    };
    if !errors.is_empty() {
        return Err(Refusal::invalid(errors));
    }
    let now = crate::now();
    Ok(Api {
        id: ids::uuid(),
        state,
        owner,
        dto,
        document: project.document.clone(),
        revisions: Vec::new(),
        revision_last: 0,
        created: now,
        updated: now,
    })
}

/// Takes properties that a project's API lacks from the project's document. Returns the errors of that document.
pub(crate) fn prepare(dto: &mut Value, document: Option<&Value>) -> Vec<String> {
    let has_operations = !crate::objects::items(dto.get("operations")).is_empty();
    let Some(document) = document else { return Vec::new() };
    if asyncapi::is_asyncapi(document) {
        let (mut described, operations) = (dto.clone(), dto.get("operations").cloned());
        if let Err(errors) = of_asyncapi(&mut described, document) {
            return errors;
        }
        *dto = described;
        if has_operations {
            set(dto, "operations", json!(operations));
        }
    } else if document.get("files").is_some() {
        match wsdl_document::endpoint(document) {
            Ok(endpoint) => default(dto, "endpointConfig", endpoint.map(endpoint_config)),
            Err(errors) => return errors,
        }
    } else if !has_operations {
        set(dto, "operations", json!(document::operations_of(document)));
    }
    Vec::new()
}

/// An existing API, changed according to a project.
fn over(known: &Api, new: Api, rotates: Option<&str>) -> Result<Api, Refusal> {
    if known.context() != new.context() {
        return Err(Refusal::bad("name, version and context of an API cannot be changed"));
    }
    let mut revisions = known.revisions.clone();
    if revisions.len() >= publishing::REVISIONS_MAX && rotates == Some("true") {
        let oldest = revisions.iter().position(|revision| revision.deployments.is_empty());
        revisions.remove(oldest.unwrap_or(0));
    }
    Ok(Api {
        id: known.id.clone(),
        owner: known.owner.clone(),
        revisions,
        revision_last: known.revision_last,
        created: known.created,
        ..new
    })
}

/// If the project specifies deployments, adds a revision and deploys it in place of the earlier ones.
fn revise(api: &mut Api, deployments: &[Value]) -> Result<(), Refusal> {
    if deployments.is_empty() || api.state == ApiState::Retired {
        return Ok(());
    }
    if api.revisions.len() >= publishing::REVISIONS_MAX {
        return Err(publishing::too_many_revisions());
    }
    let (id, now) = (ids::uuid(), crate::now());
    api.revision_last += 1;
    api.revisions.iter_mut().for_each(|revision| revision.deployments.clear());
    let deployed = deployments.iter().map(|one| publishing::deployment(one.clone(), &id, now));
    api.revisions.push(Revision {
        deployments: deployed.collect(),
        id,
        number: api.revision_last,
        description: String::new(),
        created: now,
        dto: api.dto.clone(),
        document: api.document.clone(),
        deployed: now,
    });
    Ok(())
}
