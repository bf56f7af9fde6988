//! `treering retain`: forgets the conversations that the retention rules say are too old.

use std::io::{self, Write};

use serde::Serialize;

use super::CliError;
use super::forget::{describe_preview, describe_report};
use super::output::Output;
use treering_server::service::Service;
use treering_server::views::ForgetView;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering retain --dry-run
  treering --set 'retention.rules=[\"365d\", \"user=42 30d\"]' retain --dry-run

The rules are the setting `retention.rules`; without rules, nothing is forgotten. `treering serve`,
`treering mcp` and `treering work --watch` apply them automatically, every hour.")]
pub(super) struct Args {
    /// List what would be forgotten, and forget nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct View {
    rules: Vec<String>,
    #[serde(flatten)]
    forget: Option<ForgetView>,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let forget = service.retain(args.dry_run)?;
    let rules = &service.settings().retention.rules;
    let view = View { rules: rules.clone(), forget };
    Ok(output.show(&view, |out| describe(out, rules, view.forget.as_ref()))?)
}

fn describe(out: &mut dyn Write, rules: &[String], forget: Option<&ForgetView>) -> io::Result<()> {
    match forget {
        None if rules.is_empty() => {
            writeln!(out, "there are no retention rules; set `retention.rules`")
        }
        None => writeln!(out, "no conversation is too old"),
        Some(view) if view.forgotten => describe_report(out, view),
        Some(view) => {
            describe_preview(out, view)?;
            writeln!(out, "Nothing was forgotten. Repeat the command without --dry-run.")
        }
    }
}
