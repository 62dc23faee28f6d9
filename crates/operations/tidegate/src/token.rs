//! `tidegate token`.

use std::process::ExitCode;

use anyhow::anyhow;
use backends::token::{Claims, Minter};

use crate::arguments::{Expiry, Token};
use crate::log;

pub(crate) fn token(arguments: &Token) -> anyhow::Result<ExitCode> {
    let minter = match &arguments.key {
        Some(file) => Minter::load_or_create(file, arguments.algorithm)
            .map_err(|error| anyhow!("{}: {}", file.display(), config::reason(&error)))?,
        None => Minter::new(arguments.algorithm)?,
    };
    if !arguments.jwks {
        let claims = claims(arguments);
        match arguments.count {
            Some(count) => {
                (1..=count).try_for_each(|number| print(&minter, &numbered(&claims, number)))?;
            }
            None => print(&minter, &claims)?,
        }
    }
    if arguments.jwks || arguments.key.is_none() {
        log::write_out(&serde_json::to_string_pretty(&minter.jwks())?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(minter: &Minter, claims: &Claims) -> anyhow::Result<()> {
    log::write_out(&minter.mint(claims)?)
}

/// The claims for one of several tokens.
fn numbered(claims: &Claims, number: u32) -> Claims {
    let mut claims = claims.clone();
    claims.subject = claims.subject.map(|subject| format!("{subject}-{number}"));
    claims.others.insert("jti".to_owned(), number.to_string().into());
    claims
}

fn claims(arguments: &Token) -> Claims {
    let Expiry { over, time } = arguments.expires;
    let mut others: serde_json::Map<_, _> = arguments.claim.iter().cloned().collect();
    if over {
        let expired = kit::clock::wall().saturating_sub(time).as_secs();
        others.insert("exp".to_owned(), expired.into());
    }
    Claims {
        issuer: arguments.issuer.clone(),
        subject: arguments.subject.clone(),
        audiences: arguments.audience.clone(),
        scope: arguments.scope.clone(),
        expires_in: (!over).then_some(time),
        others,
    }
}
