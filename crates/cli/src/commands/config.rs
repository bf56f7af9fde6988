//! `treering config`: prints the settings in force. Never writes the settings file.

use std::io::Write as _;

use serde::Serialize;

use super::output::{BOLD, DIM, Output, pad, paint};
use super::{CliError, Global};
use treering::config::{FILE, Settings};

#[derive(clap::Args)]
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
        writeln!(out, "{} {}", pad("home", 20), view.home)?;
        for setting in &view.settings {
            let (key, value) = (pad(&setting.key, 20), pad(&setting.value, 12));
            writeln!(out, "{key} {} {}", paint(BOLD, value), paint(DIM, &setting.from))?;
        }
        writeln!(
            out,
            "{}",
            paint(
                DIM,
                format!("\nChange them in {}; print a template with --template.", view.file)
            )
        )
    })?;
    Ok(())
}
