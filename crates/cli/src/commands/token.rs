//! `treering token`: manages access tokens. A secret is printed once; only its hash is stored.

use anstyle::Style;
use serde::Serialize;
use treering_core::TenantId;
use treering_engine::SystemClock;

use super::local_time::local_of;
use super::output::{BOLD, Column, DIM, Output, TextTable, paint, print_dim};
use super::{CliError, Global};
use treering_server::access_tokens::{AccessToken, TokenStore};
use treering_server::service::{TokenScope, TokenScopes};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering token create --name phone --scopes read
  treering token list
  treering token revoke 3f9a21c0")]
pub(super) struct Args {
    #[command(subcommand)]
    action: TokenAction,
}

#[derive(clap::Subcommand)]
enum TokenAction {
    /// Create a token for the tenant (`--tenant`) and print it; it is shown only once
    Create {
        /// Permissions of the token: read, write, admin
        #[arg(long, value_name = "SCOPES", value_delimiter = ',', default_value = "read,write",
              value_parser = |text: &str| text.parse::<TokenScope>())]
        scopes: Vec<TokenScope>,
        /// A description of the token
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
    },
    /// List the tokens of every tenant
    List,
    /// Revoke a token, effective immediately
    Revoke {
        /// The id shown by `token list`
        id: String,
    },
}

#[derive(Serialize)]
struct View {
    id: String,
    name: Option<String>,
    tenant: String,
    scopes: TokenScopes,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl View {
    fn of(token: AccessToken, secret: Option<String>) -> Self {
        Self {
            id: token.id,
            name: token.name,
            tenant: token.tenant.to_string(),
            scopes: token.scopes,
            created_at: token.created_at,
            token: secret,
        }
    }
}

pub(super) fn run(args: Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let tokens = TokenStore::of(&global.home()?);
    match args.action {
        TokenAction::Create { scopes, name } => {
            let tenant = TenantId::new(global.load()?.settings.tenant)?;
            let now = treering_core::Clock::now(&SystemClock);
            let (secret, token) = tokens.create(tenant, TokenScopes::new(scopes), name, now)?;
            output.show(&View::of(token.clone(), Some(secret.clone())), |out| {
                writeln!(out, "{}", paint(BOLD, &secret))?;
                let note = format!(
                    "tenant {}, scopes {}. Save this token: it is not shown again. Send it as \
                     `Authorization: Bearer …`.",
                    token.tenant, token.scopes
                );
                print_dim(out, "", &note)
            })?;
        }
        TokenAction::List => {
            let views: Vec<View> =
                tokens.list()?.into_iter().map(|token| View::of(token, None)).collect();
            output.show(&views, |out| {
                if views.is_empty() {
                    return writeln!(out, "no tokens; create one with `treering token create`");
                }
                let mut table = TextTable::new(&[
                    Column::Left("id"),
                    Column::Left("tenant"),
                    Column::Left("scopes"),
                    Column::Left("created"),
                    Column::Left("name"),
                ]);
                for view in &views {
                    table.row([
                        (BOLD, view.id.clone()),
                        (Style::new(), view.tenant.clone()),
                        (Style::new(), view.scopes.to_string()),
                        (Style::new(), local_of(&view.created_at)),
                        (DIM, view.name.clone().unwrap_or_default()),
                    ]);
                }
                table.print(out)
            })?;
        }
        TokenAction::Revoke { id } => {
            let token = tokens.revoke(&id)?;
            output.show(&View::of(token, None), |out| {
                writeln!(out, "revoked {}", paint(BOLD, &id))
            })?;
        }
    }
    Ok(())
}
