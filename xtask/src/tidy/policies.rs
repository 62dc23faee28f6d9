//! Policies must not depend on one another. Code that two of them need is in a separate file next to them.

use super::Complaint;
use super::source::{Source, is_name};

/// Returns all places where a policy names another. A policy is a file of `policies` that has a file with its name in `config`.
pub(crate) fn check(rust: &[Source]) -> Vec<Complaint> {
    let of_keys: Vec<&str> = rust
        .iter()
        .filter_map(|source| source.path.strip_prefix("crates/operations/config/src/policies/"))
        .filter_map(|file| file.strip_suffix(".rs"))
        .collect();
    let policies = rust.iter().filter_map(|source| Some((own(&source.path)?, source)));
    let policies: Vec<(&str, &Source)> =
        policies.filter(|(name, _)| of_keys.contains(name)).collect();
    let mut complaints = Vec::new();
    for (own, source) in &policies {
        for (at, path) in source.shipped.match_indices("crate::") {
            let rest = source.shipped.get(at + path.len()..).unwrap_or_default();
            let name = rest.split(|c: char| !c.is_ascii() || !is_name(c as u8)).next();
            let other = policies.iter().find(|(other, _)| other != own && Some(*other) == name);
            if let Some((other, _)) = other {
                let what = format!("the policy `{own}` names the policy `{other}`");
                let instead = "move what both need into a file of its own".to_owned();
                complaints.push(source.complain(at, what, instead));
            }
        }
    }
    complaints
}

/// Returns the policy that a file of `policies` belongs to, if any.
fn own(path: &str) -> Option<&str> {
    let path = path.strip_prefix("crates/gateway/policies/src/")?;
    path.split('/').next().map(|first| first.strip_suffix(".rs").unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Text;

    #[test]
    fn a_policy_names_no_other() {
        let files = [
            ("crates/operations/config/src/policies/jwt.rs", ""),
            ("crates/operations/config/src/policies/basic.rs", ""),
            ("crates/gateway/policies/src/jwt.rs", "use crate::identity::A;\n"),
            (
                "crates/gateway/policies/src/jwt/token.rs",
                "use crate::jwt::A;\n\nuse crate::basic::B;\n",
            ),
            (
                "crates/gateway/policies/src/basic.rs",
                "#[cfg(test)]\nmod tests {\n use crate::jwt::A;\n}\n",
            ),
            ("crates/gateway/policies/src/identity.rs", "use crate::jwt::A;\n"),
        ];
        let read = |(path, text): &(&str, &str)| {
            Source::read(&Text { path: (*path).to_owned(), text: (*text).to_owned() })
        };
        let found: Vec<String> = check(&files.iter().map(read).collect::<Vec<_>>())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "crates/gateway/policies/src/jwt/token.rs:3: the policy `jwt` names the policy `basic`; move what both need into a file of its own"
            ]
        );
    }
}
