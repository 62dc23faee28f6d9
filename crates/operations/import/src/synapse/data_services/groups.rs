//! Requests of data services that are taken together: batches of one request, and `request_box`. Each is one transaction.

use serde_json::{Value as Json, json};

use super::{NAMESPACE, Request, Service, Source, queries, resource_answer};
use crate::synapse::converter::Converter;

impl<'a> Converter<'a> {
    /// The steps of a batch of a request.
    pub(super) fn batch(
        &mut self,
        service: &Service<'a>,
        request: &Request<'a>,
    ) -> Result<Vec<Json>, String> {
        let element = format!("{}_batch_req", request.name);
        let (steps, _) = self.called(service, &request.call, &Source::Part)?;
        let database = queries::database_of(service, &request.call)?;
        Ok(self.together(&element, &database.name, steps))
    }

    /// The steps of `request_box` for SOAP, or `None` if it was refused. Also makes the route for REST.
    pub(super) fn box_of(
        &mut self,
        service: &Service<'a>,
        requests: &[Request<'a>],
    ) -> Option<Vec<Json>> {
        let what = format!("request_box of {}", service.name);
        let place = requests.first()?.element.place();
        let row = self.table.begin(what.clone(), place.clone());
        let notes = std::mem::take(&mut self.notes);
        let made = self.boxed(service, requests);
        // Harmless: the row says why it was refused.
        let steps = made.as_ref().ok().cloned();
        self.close(row, notes, made.map(|_| ()));
        let steps = steps?;
        let answered = [steps.clone(), resource_answer(true, None)].concat();
        self.data_route(service, "POST", &["request_box"], answered, &what, &place);
        self.out.own(&what, &place);
        let answer = self.operation_answer(true, None);
        Some([steps, answer].concat())
    }

    fn boxed(
        &mut self,
        service: &Service<'a>,
        requests: &[Request<'a>],
    ) -> Result<Vec<Json>, String> {
        let mut databases = Vec::new();
        let last = self.out.variable("dbs last");
        let mut cases = Vec::new();
        for request in requests {
            let (mut steps, _) = self.called(service, &request.call, &Source::Part)?;
            let result = if request.has_result {
                json!({ "value": "$body", "type": "xml" })
            } else {
                json!({ "value": { "text": "" } })
            };
            steps.push(json!({ "set": { last.clone(): result } }));
            cases.push(json!({ "equals": request.name, "steps": steps }));
            databases.extend(queries::databases_of(service, &request.call)?);
        }
        databases.sort();
        databases.dedup();
        let [database] = <[String; 1]>::try_from(databases).map_err(|all| {
            format!("its requests use {} databases, which have no common transaction", all.len())
        })?;
        let unknown =
            json!({ "fault": { "code": "client", "reason": "There is no such operation" } });
        let each =
            json!({ "switch": { "on": "local-name(/*)", "cases": cases, "default": [unknown] } });
        let mut steps = self.together("request_box", &database, vec![each]);
        let text = format!(
            "<d:DATA_SERVICE_REQUEST_BOX_RESPONSE xmlns:d=\"{NAMESPACE}\">{{{{ ${last} }}}}</d:DATA_SERVICE_REQUEST_BOX_RESPONSE>"
        );
        steps.insert(0, json!({ "set": { last: { "value": { "text": "" } } } }));
        steps.push(json!({ "payload": { "xml": text, "content_type": "application/xml" } }));
        Ok(steps)
    }

    /// Makes the steps `each` run in one transaction, for each child of the element with this name.
    fn together(&mut self, element: &str, database: &str, each: Vec<Json>) -> Vec<Json> {
        let all = self.out.variable("dbs all");
        let found = format!(
            "$infoset_body/*[local-name()='{element}'] | $infoset_body/*[local-name()='jsonObject']/*[local-name()='{element}']"
        );
        let value = json!({ "value": found, "type": "xml", "required": true });
        let payload = json!({ "xml": format!("{{{{ ${all} }}}}"), "content_type": "application/xml", "envelope": "drop" });
        let foreach = json!({ "over": "/*/*", "steps": each });
        vec![
            json!({ "set": { all: value } }),
            json!({ "payload": payload }),
            json!({ "transaction": { "database": database, "steps": [{ "foreach": foreach }] } }),
        ]
    }
}
