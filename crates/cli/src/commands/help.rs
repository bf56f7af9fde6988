//! The program's own help: commands in groups, and exit codes.

use clap::{Command, CommandFactory as _};

use super::Cli;
use super::output::width;

/// The groups of `treering --help`. Every command is in one of them.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Start", &["demo", "import", "append", "create", "remember", "chat"]),
    ("Find", &["search", "context", "sessions", "notes", "show", "expand", "tail"]),
    ("Agents", &["install", "uninstall", "plugin", "hook", "pause", "resume", "mcp"]),
    ("Serve", &["serve", "token"]),
    (
        "Change and forget",
        &[
            "rename", "label", "close", "archive", "reopen", "threads", "edit", "correct",
            "forget", "retain", "audit", "export",
        ],
    ),
    ("Summaries", &["update", "summarize", "policy", "work", "jobs", "logs"]),
    (
        "Maintain",
        &[
            "status",
            "stats",
            "doctor",
            "verify",
            "copy",
            "backup",
            "restore",
            "tenant",
            "reindex",
            "config",
            "eval",
            "completions",
        ],
    ),
];

const AFTER: &str = "\
Start with `treering demo`, or `treering import ~/.claude/projects`.
`treering COMMAND --help` explains a command and shows examples.

Exit codes:
  0  success
  1  the command failed, or found problems
  2  the command line is invalid";

/// The command line, with its commands listed in groups.
pub(super) fn command() -> Command {
    let command = Cli::command();
    let groups = groups(&command);
    // Hidden commands work as usual; the template lists them in groups instead.
    command
        .mut_subcommands(|command| {
            let after = command.get_after_help().map(|text| unwrapped(&text.to_string()));
            command.hide(true).after_help(after.unwrap_or_default())
        })
        .override_usage("treering [OPTIONS] <COMMAND>")
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}\n\n{AFTER}\n"
        ))
}

/// Joins the lines of each paragraph, so that they wrap at the width of the terminal. Examples are
/// indented and keep their lines.
fn unwrapped(text: &str) -> String {
    let mut joined = String::new();
    let mut is_prose = false;
    for line in text.lines() {
        let continues = !line.is_empty() && !line.starts_with(' ') && is_prose;
        if !joined.is_empty() {
            joined.push(if continues { ' ' } else { '\n' });
        }
        joined.push_str(line);
        is_prose = !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
    }
    joined
}

fn groups(command: &Command) -> String {
    const NAME: usize = 14;
    let indent = " ".repeat(NAME);
    let mut text = String::new();
    for (heading, names) in GROUPS {
        text.push_str(&format!("{heading}:\n"));
        for name in names {
            let description = command.find_subcommand(name).and_then(Command::get_about);
            let line = description.map_or_else(String::new, ToString::to_string);
            let first = format!("  {name:<width$}", width = NAME - 2);
            let options = textwrap::Options::new(width().min(100))
                .initial_indent(&first)
                .subsequent_indent(&indent);
            text.push_str(&textwrap::fill(&line, options));
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let mut commands: Vec<String> =
            Cli::command().get_subcommands().map(|it| it.get_name().to_owned()).collect();
        listed.sort_unstable();
        commands.sort();
        assert_eq!(listed, commands);
    }

    #[test]
    fn every_command_shows_examples() {
        for command in Cli::command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "`treering {} --help`", command.get_name());
        }
    }

    #[test]
    fn examples_fit_a_terminal_of_80_columns_and_prose_has_no_breaks() {
        for command in command().get_subcommands() {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = after.lines().collect();
            let is_prose = |it: &str| !it.is_empty() && !it.starts_with(' ');
            let name = command.get_name();
            for line in &lines {
                assert!(is_prose(line) || line.chars().count() < 80, "{name}: {line}");
            }
            for pair in lines.windows(2) {
                let breaks = is_prose(pair[0]) && is_prose(pair[1]) && !pair[0].ends_with(':');
                assert!(!breaks, "{name}: {}", pair[0]);
            }
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}
