//! The program's own help: commands in groups, and exit codes.

use clap::{Command, CommandFactory as _};

use super::Cli;
use super::output::width;

/// The groups of `treering --help`. Every command is in one of them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Start", &["demo", "import", "append", "create", "remember", "chat"]),
    ("Find", &["search", "context", "sessions", "notes", "show", "expand", "tail"]),
    ("Agents", &["install", "uninstall", "plugin", "hook", "pause", "resume", "mcp"]),
    ("Serve", &["serve", "token"]),
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
            "copy",
            "tenant",
            "export",
            "rename",
            "close",
            "archive",
            "reopen",
            "label",
            "edit",
            "correct",
            "forget",
            "retain",
            "audit",
            "update",
            "summarize",
            "threads",
            "policy",
            "work",
            "jobs",
            "logs",
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
        .mut_subcommands(|command| command.hide(true))
        .override_usage("treering [OPTIONS] <COMMAND>")
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}\n\n{AFTER}\n"
        ))
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
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}
