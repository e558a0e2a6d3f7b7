//! Tables for people, as wide as the terminal.

use super::{
    columns::{pad, shorten, width},
    screen::{Screen, Tone},
};

/// The gap between two columns.
const GAP: &str = "  ";
/// The least width of a shortened column.
const NARROWEST: usize = 8;

/// A cell.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone }
    }

    pub(super) fn in_tone(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }

    pub(super) fn plain(text: impl Into<String>) -> Cell {
        Cell::new(text, Tone::Plain)
    }
}

/// Renders a table with a head. The last column is not padded. On a narrow screen, the table first shortens the
/// columns in `give_way`, in that order, and then leaves out the last columns.
pub(super) fn table<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [Cell; N]>,
    give_way: &[usize],
    screen: Screen,
) -> String {
    let head = head.map(|it| Cell::new(it, Tone::Faint));
    let rows: Vec<[Cell; N]> = std::iter::once(head).chain(rows).collect();
    let widest = |n: usize| rows.iter().map(|it| width(&it[n].text)).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..N).map(widest).collect();
    let room = screen.columns().unwrap_or(usize::MAX);
    let excess = |widths: &[usize]| {
        (widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)).saturating_sub(room)
    };
    for &n in give_way {
        let spare = widths[n].saturating_sub(NARROWEST.max(width(&rows[0][n].text)));
        widths[n] -= spare.min(excess(&widths));
    }
    while excess(&widths) > 0 && widths.len() > 2 {
        widths.pop();
    }
    let line = |row: &[Cell; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, columns)| {
            let text = shorten(&cell.text, *columns);
            let blanks = pad("", columns.saturating_sub(width(&text)));
            screen.paint(&text, cell.tone) + &blanks
        });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_fits_the_screen() {
        let row = || {
            ["コードを書く", "/a/long/path/to/somewhere", "ready", "and what else there is"].map(Cell::plain)
        };
        for columns in 30..120 {
            let screen = Screen { size: Some((columns, 24)), is_colored: false };
            let text = table(["A", "B", "C", "D"], std::iter::once(row()), &[1, 3], screen);
            for line in text.lines() {
                assert!(width(line) <= columns, "{columns}: {line}");
            }
        }
        let whole = table(["A", "B", "C", "D"], std::iter::once(row()), &[1, 3], Screen::default());
        assert_eq!(
            whole,
            "A             B                          C      D\n\
             コードを書く  /a/long/path/to/somewhere  ready  and what else there is\n"
        );
    }
}
