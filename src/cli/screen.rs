//! The size of stdout, and whether it gets colors.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use clap::ColorChoice;

use crate::shell::os::terminal;

/// The properties of stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Screen {
    /// Columns and rows of a terminal.
    pub(super) size: Option<(usize, usize)>,
    /// Whether to use colors.
    pub(super) is_colored: bool,
}

impl Screen {
    /// Stdout, as it is now.
    pub(super) fn stdout(color: ColorChoice) -> Screen {
        let is_terminal = io::stdout().is_terminal();
        let is_set = |name: &str| env::var_os(name).is_some_and(|it| !it.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|it| it == "dumb");
        let is_colored = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => is_terminal && !is_set("NO_COLOR") && !is_dumb,
        };
        Screen { size: is_terminal.then(size), is_colored }
    }

    /// The same, with the current size.
    pub(super) fn again(self) -> Screen {
        Screen { size: self.size.map(|_| size()), ..self }
    }

    /// The columns of a terminal.
    pub(super) fn columns(self) -> Option<usize> {
        self.size.map(|(columns, _)| columns)
    }
}

/// The columns and rows of stdout, if it is a terminal.
fn size() -> (usize, usize) {
    let size = terminal::size();
    // Some terminals report zero.
    size.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24))
}

/// Switches off wrapping, so that each line stays in its row, however wide its characters are: a redraw relies on the
/// number of rows.
pub(super) const NO_WRAP: &str = "\x1b[?7l";
/// Switches wrapping on.
pub(super) const WRAP: &str = "\x1b[?7h";

/// The tone of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Strong,
    Faint,
    Good,
    Passing,
    Bad,
}

impl Screen {
    /// The text in the color of its tone.
    pub(super) fn paint(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Passing => "33",
            Tone::Bad => "31",
        };
        if self.is_colored && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
