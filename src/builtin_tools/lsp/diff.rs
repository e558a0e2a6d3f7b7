//! Two texts as a unified diff, line by line.

use std::fmt::Write as _;

/// How many lines around a change are shown.
const CONTEXT: usize = 3;

/// With more changed lines than this, all lines between the first and the last change count as changed.
const MOST_CHANGES: usize = 400;

/// One line of the way from one text to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Same,
    Old,
    New,
}

/// The lines of a diff without its head: for each hunk a line with numbers, then its lines.
pub fn diff(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let script = script(&old, &new);
    let mut out = Vec::new();
    let (mut at, mut shown) = (0, 0);
    // The numbers of the next lines.
    let (mut n_old, mut n_new) = (0, 0);
    while let Some(first) = script[at..].iter().position(|it| *it != Line::Same).map(|it| it + at) {
        let start = first.saturating_sub(CONTEXT).max(shown);
        let mut end = first;
        let mut quiet = 0;
        for (n, it) in script.iter().enumerate().skip(first) {
            quiet = if *it == Line::Same { quiet + 1 } else { 0 };
            if quiet > 2 * CONTEXT {
                break;
            }
            if *it != Line::Same {
                end = n + 1;
            }
        }
        let stop = (end + CONTEXT).min(script.len());
        let skipped = start - shown;
        (n_old, n_new) = (n_old + skipped, n_new + skipped);
        let (first_old, first_new) = (n_old, n_new);
        let mut lines = Vec::new();
        for it in &script[start..stop] {
            let (sign, text) = match it {
                Line::Same => (' ', old[n_old]),
                Line::Old => ('-', old[n_old]),
                Line::New => ('+', new[n_new]),
            };
            n_old += usize::from(*it != Line::New);
            n_new += usize::from(*it != Line::Old);
            lines.push(format!("{sign}{text}"));
        }
        let part = |first: usize, count: usize| {
            let mut text = (if count == 0 { first } else { first + 1 }).to_string();
            if count != 1 {
                write!(text, ",{count}").unwrap_or_default();
            }
            text
        };
        out.push(format!(
            "@@ -{} +{} @@",
            part(first_old, n_old - first_old),
            part(first_new, n_new - first_new)
        ));
        out.extend(lines);
        (at, shown) = (stop, stop);
    }
    out
}

/// A shortest way from the old lines to the new ones, by the algorithm of Myers.
pub(super) fn script(old: &[&str], new: &[&str]) -> Vec<Line> {
    let same_first = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[same_first..], &new[same_first..]);
    let same_last = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[..old.len() - same_last], &new[..new.len() - same_last]);
    let mut out = vec![Line::Same; same_first];
    out.extend(between(old, new));
    out.extend(vec![Line::Same; same_last]);
    out
}

fn between(old: &[&str], new: &[&str]) -> Vec<Line> {
    let whole = || [vec![Line::Old; old.len()], vec![Line::New; new.len()]].concat();
    let most = (old.len() + new.len()).min(MOST_CHANGES);
    let middle = most + 1;
    // By diagonal: how far a way with this many changes comes in the old lines.
    let mut reach = vec![0_usize; 2 * middle + 1];
    let mut trace = Vec::new();
    for n in 0..=most {
        trace.push(reach.clone());
        for k in (middle - n..=middle + n).step_by(2) {
            let down = k == middle - n || k != middle + n && reach[k - 1] < reach[k + 1];
            let mut x = if down { reach[k + 1] } else { reach[k - 1] + 1 };
            let y = |x: usize| (x + middle).checked_sub(k);
            while let Some(line) = y(x)
                && x < old.len()
                && line < new.len()
                && old[x] == new[line]
            {
                x += 1;
            }
            reach[k] = x;
            if x >= old.len() && y(x).is_some_and(|it| it >= new.len()) {
                return back(&trace, (old.len(), new.len()), middle);
            }
        }
    }
    whole()
}

fn back(trace: &[Vec<usize>], (mut x, mut y): (usize, usize), middle: usize) -> Vec<Line> {
    let mut out = Vec::new();
    for (n, reach) in trace.iter().enumerate().rev() {
        let k = x + middle - y;
        let down = k == middle - n || k != middle + n && reach[k - 1] < reach[k + 1];
        let from = if down { k + 1 } else { k - 1 };
        let start = if n == 0 { 0 } else { reach[from] };
        let before = (start, (start + middle).saturating_sub(from));
        let least = if n == 0 { (0, 0) } else { before };
        while x > least.0 && y > least.1 {
            out.push(Line::Same);
            (x, y) = (x - 1, y - 1);
        }
        if n > 0 {
            out.push(if down { Line::New } else { Line::Old });
            (x, y) = before;
        }
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hunks_have_numbers_and_context() {
        let old: Vec<String> = (1..=20).map(|it| it.to_string()).collect();
        let mut new = old.clone();
        new[1] = "two".to_owned();
        new.remove(17);
        let shown = diff(&old.join("\n"), &new.join("\n"));
        assert_eq!(
            shown,
            [
                "@@ -1,5 +1,5 @@",
                " 1",
                "-2",
                "+two",
                " 3",
                " 4",
                " 5",
                "@@ -15,6 +15,5 @@",
                " 15",
                " 16",
                " 17",
                "-18",
                " 19",
                " 20"
            ]
        );
        assert_eq!(diff("", "a\n"), ["@@ -0,0 +1 @@", "+a"]);
        assert_eq!(diff("a\n", "a\n"), [""; 0]);
    }

    proptest! {
        #[test]
        fn script_leads_from_one_text_to_the_other(old in prop::collection::vec("[ab]", 0..12), new in prop::collection::vec("[ab]", 0..12)) {
            let old: Vec<&str> = old.iter().map(String::as_str).collect();
            let new: Vec<&str> = new.iter().map(String::as_str).collect();
            let script = script(&old, &new);
            let (mut left, mut right, mut n_changes) = (old.iter(), new.iter(), 0);
            for it in &script {
                match it {
                    Line::Same => prop_assert_eq!(left.next(), right.next()),
                    Line::Old => prop_assert!(left.next().is_some()),
                    Line::New => prop_assert!(right.next().is_some()),
                }
                n_changes += usize::from(*it != Line::Same);
            }
            prop_assert!(left.next().is_none() && right.next().is_none());
            // As short as the longest common subsequence lets it be.
            let mut table = vec![vec![0; new.len() + 1]; old.len() + 1];
            for (i, one) in old.iter().enumerate() {
                for (j, other) in new.iter().enumerate() {
                    table[i + 1][j + 1] = if one == other { table[i][j] + 1 } else { table[i][j + 1].max(table[i + 1][j]) };
                }
            }
            prop_assert_eq!(n_changes, old.len() + new.len() - 2 * table[old.len()][new.len()]);
        }
    }
}
