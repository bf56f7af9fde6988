//! `treering tenant`: lists, creates, deletes and moves the tenants of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anstyle::Style;
use serde::Serialize;
use treering::{StoreOptions, StoreUrl, Sync, TenantId, TenantSummary};
use treering_core::Store;

use super::output::{BOLD, Column, GOOD, Output, TextTable, count, paint};
use super::{CliError, Global};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering tenant list
  treering tenant create ana
  treering tenant delete ana --yes
  treering tenant move ana --to postgres://db2.example.org:5432/treering

A tenant is a memory of its own: no command, token or search reaches another tenant's content. The
first write creates a tenant as well. Give it a token with `treering --tenant NAME token create`.")]
pub(super) struct Args {
    #[command(subcommand)]
    action: TenantAction,
}

#[derive(clap::Subcommand)]
enum TenantAction {
    /// List the tenants of the store
    List,
    /// Add a tenant without content
    Create {
        /// The name
        name: TenantId,
    },
    /// Remove a tenant with everything that belongs to it
    Delete {
        /// The name
        name: TenantId,
        /// Delete it; without, the command only shows what would go
        #[arg(long)]
        yes: bool,
    },
    /// Move a tenant to another store: copy it, compare the two, and remove it here
    ///
    /// If something is written to the tenant meanwhile, it is copied again. Point the servers of
    /// the tenant to the new store before you repeat a command that was interrupted.
    Move {
        /// The name
        name: TenantId,
        /// The other store: a folder or an address
        #[arg(long, value_name = "STORE")]
        to: String,
        /// The file with the user and the password of the other store
        #[arg(long, value_name = "FILE")]
        to_credentials: Option<PathBuf>,
    },
}

#[derive(Serialize)]
struct View {
    tenant: String,
    sessions: u32,
    messages: u32,
    tokens: u64,
}

impl From<&TenantSummary> for View {
    fn from(it: &TenantSummary) -> Self {
        Self {
            tenant: it.tenant.to_string(),
            sessions: it.sessions,
            messages: it.totals.messages,
            tokens: it.totals.tokens,
        }
    }
}

pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let home = global.home()?;
    let options = global.load()?.settings.store.options()?;
    let store = treering::open_store(&home, Sync::Full, &options)?;
    match &args.action {
        TenantAction::List => list(&*store, output),
        TenantAction::Create { name } => {
            treering::add_tenant(&*store, name)?;
            let view = summary(&*store, name)?;
            Ok(output.show(&view, |out| writeln!(out, "created {}", paint(BOLD, &view.tenant)))?)
        }
        TenantAction::Delete { name, yes } => delete(&home, &*store, name, *yes, output),
        TenantAction::Move { name, to, to_credentials } => {
            let credentials = to_credentials.clone().or(options.credentials);
            let options = StoreOptions { url: StoreUrl::new(to)?, credentials };
            let target: Arc<dyn Store> = treering::open_store(Path::new(""), Sync::Full, &options)?;
            let bar = output.counter("messages");
            let moved = treering::move_tenant(&home, &*store, &*target, name, &mut |report| {
                bar.set_position(report.messages);
            });
            bar.finish_and_clear();
            moved?;
            let view = summary(&*target, name)?;
            Ok(output.show(&view, |out| {
                let (tick, messages) =
                    (paint(GOOD, "✓"), count(u64::from(view.messages), "message"));
                writeln!(out, "{tick} moved {} with {messages} to {to}", paint(BOLD, &view.tenant))
            })?)
        }
    }
}

fn list(store: &dyn Store, output: &Output) -> Result<(), CliError> {
    let views: Vec<View> = treering::list_tenants(store)?.iter().map(View::from).collect();
    Ok(output.show(&views, |out| {
        if views.is_empty() {
            return writeln!(out, "no tenants; the first write creates one");
        }
        let mut table = TextTable::new(&[
            Column::Left("tenant"),
            Column::Right("sessions"),
            Column::Right("messages"),
            Column::Right("tokens"),
        ]);
        for view in &views {
            table.row([
                (BOLD, view.tenant.clone()),
                (Style::new(), view.sessions.to_string()),
                (Style::new(), view.messages.to_string()),
                (Style::new(), view.tokens.to_string()),
            ]);
        }
        table.print(out)
    })?)
}

fn delete(
    home: &Path,
    store: &dyn Store,
    name: &TenantId,
    yes: bool,
    output: &Output,
) -> Result<(), CliError> {
    let view = summary(store, name)?;
    if yes {
        treering::remove_tenant(home, store, name)?;
    }
    Ok(output.show(&view, |out| {
        let (tenant, messages) =
            (paint(BOLD, &view.tenant), count(u64::from(view.messages), "message"));
        match yes {
            true => writeln!(out, "deleted {tenant} with {messages}"),
            false => {
                writeln!(
                    out,
                    "{tenant} has {messages}. Repeat the command with --yes to delete it."
                )
            }
        }
    })?)
}

fn summary(store: &dyn Store, name: &TenantId) -> Result<View, CliError> {
    let tenants = treering::list_tenants(store)?;
    let found = tenants.iter().find(|it| it.tenant == *name);
    found.map(View::from).ok_or_else(|| {
        CliError::Usage(format!("there is no tenant {name}; `treering tenant list` shows them"))
    })
}
