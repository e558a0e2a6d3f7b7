//! Glob patterns for paths below the workspace.

use globset::{GlobBuilder, GlobMatcher};

/// A pattern. Without a folder in it, it matches in every folder.
#[derive(Clone, Debug)]
pub struct Pattern(GlobMatcher);

impl Pattern {
    /// Reads a pattern.
    pub fn new(pattern: &str) -> Result<Pattern, String> {
        let below = pattern.trim().trim_start_matches("./");
        let glob = if below.contains('/') { below.to_owned() } else { format!("**/{below}") };
        let glob = GlobBuilder::new(&glob).literal_separator(true).build();
        let glob = glob.map_err(|error| format!("invalid pattern {pattern:?}: {}", error.kind()))?;
        Ok(Pattern(glob.compile_matcher()))
    }

    /// Whether a path relative to the workspace fits.
    pub fn holds(&self, path: &str) -> bool {
        self.0.is_match(path)
    }

    /// A path as a part of a pattern.
    pub fn escaped(path: &str) -> String {
        globset::escape(path)
    }

    /// Whether a text is a pattern, rather than a path.
    pub fn is_one(text: &str) -> bool {
        text.contains(['*', '?', '[', '{'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_without_folder_matches_everywhere() {
        let holds = |pattern: &str, path: &str| Pattern::new(pattern).unwrap().holds(path);
        assert!(holds("*.py", "a/b/c.py"));
        assert!(holds("a/**", "a/b/c.py"));
        assert!(!holds("b/**", "a/b/c.py"));
        assert!(!holds("a/*.py", "a/b/c.py"));
        assert!(Pattern::new("a[").is_err());
    }
}
