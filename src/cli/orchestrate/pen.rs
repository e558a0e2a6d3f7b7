//! Redraws a block of lines on a terminal.

use std::io::{self, Write};

use crate::cli::screen::{NO_WRAP, Screen, WRAP};

/// Draws over its last drawing.
pub(super) struct Pen {
    pub(super) screen: Screen,
    /// The number of lines above the cursor that belong to the drawing.
    lines: usize,
}

impl Pen {
    pub(super) fn new(screen: Screen) -> Pen {
        Pen { screen, lines: 0 }
    }

    pub(super) fn erase(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.lines > 0 {
            write!(out, "\x1b[{}A\r\x1b[J", std::mem::take(&mut self.lines))?;
        }
        out.flush()
    }

    /// Draws the first and the last lines, at most `rows` in all, in one write without flicker.
    pub(super) fn draw(&mut self, lines: &[String], rows: usize, out: &mut dyn Write) -> io::Result<()> {
        let mut picture = match std::mem::take(&mut self.lines) {
            0 => NO_WRAP.to_owned(),
            lines => format!("{NO_WRAP}\x1b[{lines}A\r"),
        };
        let left_out = lines.len().saturating_sub(rows.max(2));
        for (_, line) in lines.iter().enumerate().filter(|(at, _)| *at == 0 || *at > left_out) {
            picture += line;
            picture += "\x1b[K\n";
            self.lines += 1;
        }
        picture += "\x1b[J";
        picture += WRAP;
        out.write_all(picture.as_bytes())?;
        out.flush()
    }

    /// Keeps the drawing on the screen.
    pub(super) fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.lines = 0;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pen_erases_what_it_redraws() {
        let screen = Screen { size: Some((80, 24)), is_colored: false };
        let mut pen = Pen::new(screen);
        let mut out = Vec::new();
        let lines: Vec<String> = (0..5).map(|it| it.to_string()).collect();
        pen.draw(&lines, 3, &mut out).unwrap();
        assert_eq!(String::from_utf8_lossy(&out), "\x1b[?7l0\x1b[K\n3\x1b[K\n4\x1b[K\n\x1b[J\x1b[?7h");
        out.clear();
        pen.draw(&lines[..1], 3, &mut out).unwrap();
        assert_eq!(String::from_utf8_lossy(&out), "\x1b[?7l\x1b[3A\r0\x1b[K\n\x1b[J\x1b[?7h");
        pen.draw(&lines[..3], 3, &mut out).unwrap();
        out.clear();
        pen.erase(&mut out).unwrap();
        assert_eq!(String::from_utf8_lossy(&out), "\x1b[3A\r\x1b[J");
        pen.erase(&mut out).unwrap();
        pen.draw(&lines, 9, &mut out).unwrap();
        pen.finish(&mut out).unwrap();
        out.clear();
        pen.erase(&mut out).unwrap();
        assert!(out.is_empty());
    }
}
