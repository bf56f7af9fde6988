//! `treering config`: prints the settings in force. Never writes the settings file.

use std::io::Write as _;

use anstyle::Style;
use serde::Serialize;

use super::output::{BOLD, Column, DIM, Output, TextTable, paint, print_dim};
use super::{CliError, Global};
use treering::config::{FILE, Settings};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering config
  treering config --template > settings.toml
  treering --set context.budget=4000 config")]
pub(super) struct Args {
    /// Print a settings file to start from
    #[arg(long)]
    template: bool,
    /// Print the reference of all settings as Markdown
    #[arg(long, conflicts_with = "template")]
    markdown: bool,
}

#[derive(Serialize)]
struct View {
    home: String,
    file: String,
    settings: Vec<Setting>,
}

#[derive(Serialize)]
struct Setting {
    key: String,
    value: String,
    from: String,
}

pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    if args.template || args.markdown {
        let page = if args.template { Settings::template() } else { Settings::reference() };
        std::io::stdout().lock().write_all(page.as_bytes())?;
        return Ok(());
    }
    let home = global.home()?;
    let settings = global
        .load()?
        .effective
        .into_iter()
        .map(|setting| Setting {
            key: setting.key,
            value: setting.value,
            from: setting.origin.to_string(),
        })
        .collect();
    let file = home.join(FILE).display().to_string();
    let view = View { home: home.display().to_string(), file, settings };
    output.show(&view, |out| {
        writeln!(out, "home {}\n", paint(BOLD, &view.home))?;
        let mut table =
            TextTable::new(&[Column::Left("setting"), Column::Left("value"), Column::Left("from")]);
        for Setting { key, value, from } in &view.settings {
            table.row([(Style::new(), key.clone()), (BOLD, value.clone()), (DIM, from.clone())]);
        }
        table.print(out)?;
        writeln!(out)?;
        let hint = format!("Change them in {}; print a template with --template.", view.file);
        print_dim(out, "", &hint)
    })?;
    Ok(())
}
