//! `treering token`: manages access tokens. A secret is printed once; only its hash is stored.

use anstyle::Style;
use serde::Serialize;
use treering_core::{Clock as _, TenantId, Timestamp, parse_duration_ms};
use treering_engine::SystemClock;

use super::local_time::local_of;
use super::output::{BOLD, Column, DIM, Output, TextTable, paint, print_dim};
use super::{CliError, Global};
use treering_server::access_tokens::{AccessToken, NewToken, TokenStore};
use treering_server::service::{TokenScope, TokenScopes};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering token create --name phone --scopes read
  treering token create --name visitor --expires 30d
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
        /// How long the token is valid, such as 12h or 30d; without end if absent
        #[arg(long = "expires", value_name = "DURATION", value_parser = duration_ms)]
        expires_ms: Option<u64>,
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
    expires_at: Option<String>,
    last_used_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl View {
    fn of(token: AccessToken, last_use: Option<Timestamp>, secret: Option<String>) -> Self {
        Self {
            id: token.id,
            name: token.name,
            tenant: token.tenant.to_string(),
            scopes: token.scopes,
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: last_use.map(|at| at.to_string()),
            token: secret,
        }
    }
}

pub(super) fn run(args: Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let tokens = TokenStore::of(&global.home()?);
    match args.action {
        TokenAction::Create { scopes, name, expires_ms } => {
            let tenant = TenantId::new(global.load()?.settings.tenant)?;
            let now = SystemClock.now();
            let expires_at = expires_ms.map(|ms| now.plus_micros(micros(ms)));
            let new = NewToken { tenant, scopes: TokenScopes::new(scopes), name, expires_at };
            let (secret, token) = tokens.create(new, now)?;
            output.show(&View::of(token.clone(), None, Some(secret.clone())), |out| {
                writeln!(out, "{}", paint(BOLD, &secret))?;
                let until = token.expires_at.as_deref().map(local_of);
                let until = until.map(|at| format!(", valid until {at}")).unwrap_or_default();
                let note = format!(
                    "tenant {}, scopes {}{until}. Save this token: it is not shown again. Send it \
                     as `Authorization: Bearer …`.",
                    token.tenant, token.scopes
                );
                print_dim(out, "", &note)
            })?;
        }
        TokenAction::List => {
            let mut last_uses = tokens.last_uses()?;
            let view = |token: AccessToken| {
                let last_use = last_uses.remove(&token.id);
                View::of(token, last_use, None)
            };
            let views: Vec<View> = tokens.list()?.into_iter().map(view).collect();
            output.show(&views, |out| {
                if views.is_empty() {
                    return writeln!(out, "no tokens; create one with `treering token create`");
                }
                let mut table = TextTable::new(&[
                    Column::Left("id"),
                    Column::Left("tenant"),
                    Column::Left("scopes"),
                    Column::Left("created"),
                    Column::Left("last used"),
                    Column::Left("expires"),
                    Column::Left("name"),
                ]);
                for view in &views {
                    table.row([
                        (BOLD, view.id.clone()),
                        (Style::new(), view.tenant.clone()),
                        (Style::new(), view.scopes.to_string()),
                        (Style::new(), local_of(&view.created_at)),
                        (Style::new(), time_or_never(view.last_used_at.as_deref())),
                        (Style::new(), time_or_never(view.expires_at.as_deref())),
                        (DIM, view.name.clone().unwrap_or_default()),
                    ]);
                }
                table.print(out)
            })?;
        }
        TokenAction::Revoke { id } => {
            let token = tokens.revoke(&id)?;
            output.show(&View::of(token, None, None), |out| {
                writeln!(out, "revoked {}", paint(BOLD, &id))
            })?;
        }
    }
    Ok(())
}

fn duration_ms(text: &str) -> Result<u64, String> {
    let parsed = parse_duration_ms(text).ok().flatten().filter(|ms| *ms > 0);
    parsed.ok_or_else(|| "expected a duration such as 12h or 30d".to_owned())
}

/// A duration in microseconds, limited so that the time that it leads to can be written.
fn micros(ms: u64) -> i64 {
    const CENTURY_MICROS: i64 = 100 * 366 * 86_400_000_000;
    i64::try_from(ms.saturating_mul(1000)).unwrap_or(i64::MAX).min(CENTURY_MICROS)
}

fn time_or_never(at: Option<&str>) -> String {
    at.map_or_else(|| "never".to_owned(), local_of)
}
