//! Tables for people.

/// Columns one under the other; the last one ends where it ends.
pub(super) fn table<const N: usize>(rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = rows.collect();
    let width = |n: usize| rows.iter().map(|it| it[n].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let padded = |(cell, width): (&String, &usize)| format!("{cell:width$}  ");
    let line = |row: &[String; N]| row.iter().zip(&widths).map(padded).collect::<String>();
    rows.iter().map(|row| line(row).trim_end().to_owned() + "\n").collect()
}
