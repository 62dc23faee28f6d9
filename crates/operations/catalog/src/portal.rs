//! The authentication and authorization of requests to the catalog's REST interface.

use jose::Token;
use serde_json::Value;

use crate::Catalog;
use crate::http::{CatalogRequest, Refusal};
use crate::objects::{Client, Revoked};
use crate::{oauth, rights};

/// An authorized user.
pub(crate) struct Visitor {
    pub(crate) name: String,
    is_admin: bool,
}

impl Visitor {
    /// True if the user may change the objects of this owner.
    pub(crate) fn owns(&self, owner: &str) -> bool {
        self.is_admin || self.name == owner
    }
}

impl Catalog {
    /// The user of a request, if the request has one of these scopes.
    pub(crate) async fn visitor(
        &self,
        asked: &CatalogRequest,
        scopes: &[&str],
    ) -> Result<Visitor, Refusal> {
        let settings = self.settings()?;
        if oauth::basic(asked).is_some() {
            let name = self.basic_user(asked).await?;
            let roles = settings.roles(&name);
            if !rights::grants(roles, scopes) {
                return Err(Refusal::unauthorized("The user does not have the required role"));
            }
            return Ok(Visitor { is_admin: is_admin(roles), name });
        }
        let refused = || Refusal::unauthorized("Unauthenticated request");
        let text = asked.header("authorization").and_then(|value| value.split_once(' '));
        let (_, text) =
            text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).ok_or_else(refused)?;
        let token = Token::parse(text.trim().as_bytes()).map_err(|_| refused())?;
        if !settings.keys.is_ours(&token) {
            return Err(refused());
        }
        let claims = token.claims().ok_or_else(refused)?;
        // Harmless: an absent claim matches nothing.
        let claim = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
        let now = kit::clock::wall().as_secs();
        // Harmless: a token without an end counts as expired.
        let until = claims.get("exp").and_then(Value::as_u64).unwrap_or_default();
        let is_current = until > now && claim("iss") == settings.issuer;
        let is_revoked = self.objects.get::<Revoked>(claim("jti")).is_some();
        // Tokens of applications are not accepted here.
        if !is_current || is_revoked || self.objects.get::<Client>(claim("azp")).is_none() {
            return Err(refused());
        }
        let name = claim("sub").to_owned();
        let roles = settings.roles(&name);
        let has = |scope: &&str| claim("scope").split(' ').any(|known| known == *scope);
        // The user may have lost the role since the token was issued.
        if !scopes.iter().any(|scope| has(scope) && rights::may_have(roles, scope)) {
            return Err(Refusal::unauthorized(
                "The access token does not allow you to access the requested resource",
            ));
        }
        Ok(Visitor { is_admin: is_admin(roles), name })
    }
}

fn is_admin(roles: &[plan::CatalogRole]) -> bool {
    roles.contains(&plan::CatalogRole::Admin)
}
