//! Finds the known word that is most similar to a mistyped one.

/// Finds the most similar word of `known`, if it is similar enough.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let word = plain(word);
    let near = known.into_iter().map(|it| (distance(&word, &plain(it)), it));
    // A third of the letters may be wrong: "log" and "lag" are similar, "log" and "cwd" are not.
    let allowed = |it: &str| (it.chars().count().max(word.chars().count()) / 3).max(1);
    near.filter(|(distance, it)| *distance <= allowed(it)).min().map(|(_, it)| it)
}

/// The number of letters to insert, delete, replace, or swap with their neighbor.
fn distance(from: &str, to: &str) -> usize {
    // A row for each of the last two letters of `from`, a column for each prefix of `to`.
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    let mut last = None;
    for (i, a) in from.chars().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in to.iter().enumerate() {
            let mut least = (above[j] + usize::from(a != b)).min(above[j + 1] + 1).min(row[j] + 1);
            if j > 0 && last == Some(b) && to[j - 1] == a {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
        last = Some(a);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("comand", "command", 1),
            ("agrs", "args", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn nearest_suggests_only_similar_words() {
        let known = ["command", "args", "env", "cwd", "max_processes", "idle_timeout"];
        for (word, expected) in [
            ("comand", Some("command")),
            ("Max-Processes", Some("max_processes")),
            ("agrs", Some("args")),
            ("timeout", None),
            ("", None),
            ("xyzzy", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
