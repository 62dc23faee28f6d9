//! Compiles `for`.

use ::policies::for_clients::{self, Clients, ClientsWanted};
use config::{ForClients, Report};

use super::{Facts, PolicyKind, PolicyPlace, build, facts};
use crate::policy::RouteScope;

impl PolicyKind for ForClients {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let except = &self.except;
        let wanted = ClientsWanted {
            these: Clients { subjects: self.subjects.clone(), groups: self.groups.clone() },
            except: Clients { subjects: except.subjects.clone(), groups: except.groups.clone() },
        };
        if wanted == ClientsWanted::default() {
            let what = "`for` has no effect, because it excludes no client";
            report.warn(written.at, what, "write it without `for`, or name `subjects` or `groups`");
        }
        for_clients::policy(wanted, build(&self.policy.0, place, report))
    }

    /// The facts of the inner policy. Whether it runs depends on the client.
    fn facts(&self, parameters: &[String]) -> Facts<'_> {
        let inner = facts(&self.policy.0.value, parameters);
        Facts { asks_identity: true, replies_differ: true, ..inner }
    }
}
