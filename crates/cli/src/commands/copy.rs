//! `treering copy`: copies one store to another. Never changes the source.

use std::path::{Path, PathBuf};

use serde::Serialize;
use treering::{CopyReport, StoreOptions, StoreUrl, Sync};

use super::output::{GOOD, Output, count, paint};
use super::{CliError, Global};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering copy --from ~/.local/share/treering --to neo4j://127.0.0.1:7687
  treering copy --from neo4j://127.0.0.1:7687 --to ./folder

A store is a folder, or the address of a server; user and password come from TREERING_STORE_USER and
TREERING_STORE_PASSWORD, or from a file with USER:PASSWORD. The command copies every tenant:
conversations, messages with their history, trees, jobs, vectors, costs, and what was forgotten. It
compares both stores at the end. If it is interrupted, run it again: it continues. Nothing else may
write to either store meanwhile. Settings and tokens are not copied.")]
pub(super) struct Args {
    /// The store to copy: a folder or an address
    #[arg(long, value_name = "STORE")]
    from: String,
    /// The store to copy to: a folder or an address
    #[arg(long, value_name = "STORE")]
    to: String,
    /// The file with the user and the password of the source
    #[arg(long, value_name = "FILE")]
    from_credentials: Option<PathBuf>,
    /// The file with the user and the password of the target
    #[arg(long, value_name = "FILE")]
    to_credentials: Option<PathBuf>,
}

#[derive(Serialize)]
struct View {
    tenants: u32,
    conversations: u32,
    messages: u64,
    tool_calls: u64,
    nodes: u64,
    jobs: u64,
    vectors: u64,
    tombstones: u64,
}

impl From<CopyReport> for View {
    fn from(report: CopyReport) -> Self {
        let CopyReport {
            tenants,
            conversations,
            messages,
            tool_calls,
            nodes,
            jobs,
            vectors,
            tombstones,
        } = report;
        Self { tenants, conversations, messages, tool_calls, nodes, jobs, vectors, tombstones }
    }
}

pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let configured = global.load()?.settings.store.options()?.credentials;
    let configured =
        configured.map(|file| global.home().map(|home| home.join(file))).transpose()?;
    let options = |url: &str, file: &Option<PathBuf>| -> Result<StoreOptions, CliError> {
        let credentials = file.clone().or_else(|| configured.clone());
        Ok(StoreOptions { url: StoreUrl::new(url)?, credentials })
    };
    let (source, target) =
        (options(&args.from, &args.from_credentials)?, options(&args.to, &args.to_credentials)?);
    if args.from == args.to {
        return Err(CliError::Usage("--from and --to are the same store".into()));
    }
    let is_folder = !source.url.is_server();
    if is_folder && !Path::new(&args.from).join(treering::EmbeddedStore::FILE).exists() {
        return Err(CliError::Usage(format!("there is no store in {}", args.from)));
    }
    let here = Path::new("");
    let from = treering::open_store(here, Sync::Full, &source)?;
    let to = treering::open_store(here, Sync::Full, &target)?;
    let bar = output.counter("messages");
    let report = treering::copy_store(&*from, &*to, &mut |report| {
        bar.set_position(report.messages);
    });
    bar.finish_and_clear();
    let view = View::from(report?);
    output.show(&view, |out| {
        writeln!(
            out,
            "{} copied and compared {}, {}, {}, {}",
            paint(GOOD, "✓"),
            count(u64::from(view.conversations), "conversation"),
            count(view.messages, "message"),
            count(view.tool_calls, "tool call"),
            count(view.nodes, "node"),
        )
    })?;
    Ok(())
}
