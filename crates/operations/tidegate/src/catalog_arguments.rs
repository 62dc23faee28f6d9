//! Command-line arguments of `tidegate catalog` and `tidegate import apictl`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::argument_values::admin_url;

/// The address of the catalog, and the credentials for it.
#[derive(Args, Clone)]
pub(crate) struct CatalogAccess {
    /// The address of the catalog.
    #[arg(long, visible_alias = "url", value_name = "URL", value_parser = admin_url, global = true,
          default_value = "http://127.0.0.1:9443")]
    pub(crate) catalog: String,
    /// A user of the catalog, as NAME or NAME:PASSWORD. Default: the environment variable TIDEGATE_CATALOG_USER.
    #[arg(short, long, value_name = "NAME[:PASSWORD]", global = true)]
    pub(crate) user: Option<String>,
    /// The user's password. Default: the environment variable TIDEGATE_CATALOG_PASSWORD.
    #[arg(long, value_name = "TEXT", global = true)]
    pub(crate) password: Option<String>,
    /// An access token for the catalog, instead of a user.
    #[arg(long, value_name = "TOKEN", global = true, conflicts_with = "user")]
    pub(crate) token: Option<String>,
    /// PEM file with the certificate authorities to trust for https. Default: those of the system.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) ca: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum CatalogCommand {
    /// List published APIs with their plans.
    Apis {
        /// List only APIs that match: `name:X`, `version:X`, `context:X`, `type:X`, or a part of the name.
        #[arg(value_name = "QUERY")]
        query: Option<String>,
        /// List APIs in all states. Requires the role `publisher`.
        #[arg(long)]
        all: bool,
    },
    /// List your applications with their plans.
    Applications {
        /// List only applications whose name contains this text.
        #[arg(value_name = "QUERY")]
        query: Option<String>,
    },
    /// Subscribe an application to an API.
    Subscribe {
        /// The name or the id of the application.
        application: String,
        /// The name of the API, as NAME or NAME:VERSION, or its id.
        api: String,
        /// The plan. Optional if the API has only one plan.
        plan: Option<String>,
    },
    /// Get an access token for an application, to try out an API.
    Token {
        /// The name or the id of the application.
        application: String,
        /// Use the sandbox keys instead of the production keys.
        #[arg(long)]
        sandbox: bool,
        /// A scope of the token. May be repeated.
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Create the application's keys if it has none, and print the secret, which is never shown again.
        #[arg(long)]
        generate: bool,
    },
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate catalog apis                         the published APIs and their plans
  tidegate catalog --user ann:s3cret applications --json
  tidegate catalog --user ann:s3cret subscribe mobile petstore:1.0.0 Gold
  tidegate catalog --user ann:s3cret token mobile --scope pets:read
Exit codes: 0 done, 1 refused, 2 no catalog or no permission.")]
pub(crate) struct CatalogArguments {
    #[command(flatten)]
    pub(crate) access: CatalogAccess,
    #[command(subcommand)]
    pub(crate) what: CatalogCommand,
}

#[derive(Args)]
#[command(after_help = "\
Standard error gets a row for each operation and each part of the project, as with the other imports. An API whose guard is not
supported, such as mutual TLS, answers 503.

Examples:
  tidegate import apictl PizzaShackAPI-1.0.0.zip --into gateway/
  tidegate import apictl PizzaShackAPI-1.0.0/ --environment production")]
pub(crate) struct ImportApictl {
    /// The project: a folder or a .zip archive.
    pub(crate) path: PathBuf,
    /// The environment in `api_params.yaml` whose values apply.
    #[arg(long, value_name = "NAME")]
    pub(crate) environment: Option<String>,
    /// A file with parameters, to use instead of the project's `api_params.yaml`.
    #[arg(long, value_name = "FILE", requires = "environment")]
    pub(crate) params: Option<PathBuf>,
    /// A folder for the configuration and the files that it names. Nothing there is overwritten.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) into: Option<PathBuf>,
}
