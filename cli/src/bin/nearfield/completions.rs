//! `nearfield completions` and `nearfield man`: what shells and `man` read.

use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use nearfield::io::write_file;

use nearfield_cli::given::files;
use nearfield_cli::terminal::output;

const EXAMPLES: &str = "\
Examples:
  nearfield completions bash > ~/.local/share/bash-completion/completions/nearfield
  nearfield completions zsh > ~/.zfunc/_nearfield       # with fpath+=~/.zfunc before compinit
  nearfield completions fish > ~/.config/fish/completions/nearfield.fish
  nearfield completions powershell >> $PROFILE";

#[derive(Debug, clap::Args)]
#[command(about = "Print completions of commands and options for a shell", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  nearfield man --out ~/.local/share/man/man1 && man nearfield-search";

#[derive(Debug, clap::Args)]
#[command(about = "Write manual pages, one a command", after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// Directory for nearfield.1, nearfield-search.1 and so on
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace existing pages
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, mut command: Command) -> Result<()> {
    let mut text = vec![];
    clap_complete::generate(args.shell, &mut command, "nearfield", &mut text);
    Ok(stdout().write_all(&text)?)
}

pub(crate) fn man(args: &ManArgs, command: Command) -> Result<()> {
    let directory = args.out.display();
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = pages(&command);
    // Refused before any page is written.
    for page in &pages {
        files::refuse_existing("--out", &args.out.join(page.get_filename()), args.force)?;
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("--out {directory}"))?;
    for page in pages {
        write_file(args.out.join(page.get_filename()), |file| page.render(file)).context("--out")?;
    }
    output::print(false, &serde_json::Value::Null, &[("wrote", format!("manual pages to {directory}"))])
}

/// The pages of a command and of those in it.
fn pages(command: &Command) -> Vec<Man> {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    shown.flat_map(pages).chain([Man::new(command.clone())]).collect()
}
