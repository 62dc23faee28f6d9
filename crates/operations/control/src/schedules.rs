//! The schedules of the plan in service, for the admin API.

use plan::nodes::partition;
use plan::{Plan, Schedule};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::Control;
use crate::hubs::HubFailure;

impl Control {
    /// All schedules, with their times and whether they are paused.
    pub async fn schedules(&self) -> Value {
        let plan = self.plan();
        let mut schedules = Vec::new();
        for schedule in &plan.schedules {
            let mut view = schedule.view();
            let is_paused = schedule.is_paused(plan.store.as_deref()).await;
            if let Some(view) = view.as_object_mut() {
                view.insert("paused".to_owned(), json!(is_paused));
            }
            schedules.push(view);
        }
        json!({ "schedules": schedules })
    }

    /// Runs a schedule now.
    pub fn run_schedule(&self, name: &str) -> Result<(), HubFailure> {
        let (plan, schedule) = self.schedule(name)?;
        if let Some(store) = &plan.store
            && !store.nodes().has(partition(name))
        {
            let owner = store.nodes().owner(partition(name));
            let owner = owner.unwrap_or_else(|| "another gateway".to_owned());
            let why = format!("this gateway does not run the schedule now; ask {owner}");
            return Err(HubFailure::Unavailable(why));
        }
        if schedule.run_now() {
            Ok(())
        } else {
            Err(HubFailure::Conflict("A run of this schedule is in progress."))
        }
    }

    /// Pauses a schedule, or resumes it.
    pub async fn pause_schedule(&self, name: &str, paused: bool) -> Result<(), HubFailure> {
        let (plan, schedule) = self.schedule(name)?;
        let set = schedule.set_paused(plan.store.as_deref(), paused).await;
        set.map_err(|error| HubFailure::Unavailable(error.to_string()))
    }

    fn schedule(&self, name: &str) -> Result<(Arc<Plan>, Arc<Schedule>), HubFailure> {
        let plan = self.plan();
        let schedule = plan.schedules.iter().find(|schedule| schedule.name == name).cloned();
        let schedule = schedule.ok_or(HubFailure::Unknown("There is no such schedule."))?;
        Ok((plan, schedule))
    }
}
