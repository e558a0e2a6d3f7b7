//! Finds files by name, and lines by content.
//!
//! [`Walk`] lists the files by path. **A search opens or names a file only if no link leads to it from the workspace
//! folder**: a folder may have become a link meanwhile.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, is_separator},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use globset::{GlobBuilder, GlobMatcher};

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, sinks::Lossy};

use super::{
    files::{plain, shown_path},
    walk::Walk,
    workspace::Workspace,
};
use crate::config::ToolsConfig;

/// How many bytes of a line to show.
const MOST_OF_LINE: usize = 300;

/// The maximum size of a compiled regular expression.
const MOST_OF_REGEX: usize = 4 << 20;

/// When a call must stop.
pub(super) struct Until<'a> {
    pub(super) stopped: &'a AtomicBool,
    deadline: Instant,
    limit: Duration,
}

impl<'a> Until<'a> {
    pub(super) fn new(stopped: &'a AtomicBool, limits: &ToolsConfig) -> Until<'a> {
        let limit = limits.time_limit;
        Until { stopped, deadline: Instant::now() + limit, limit }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err("cancelled".to_owned());
        }
        match Instant::now() >= self.deadline {
            true => Err(format!("stopped after {} s: time limit reached", self.limit.as_secs())),
            false => Ok(()),
        }
    }
}

/// A pattern for paths below a workspace folder. A pattern without a folder matches in every folder.
struct Pattern(GlobMatcher);

impl Pattern {
    fn new(pattern: &str, workspace: &Workspace) -> Result<Pattern, String> {
        let pattern = pattern.trim();
        let below = pattern.strip_prefix("./").unwrap_or_else(|| workspace.below(pattern));
        let glob = if below.contains(is_separator) { below.to_owned() } else { format!("**/{below}") };
        let glob = GlobBuilder::new(&glob).literal_separator(true).case_insensitive(true).build();
        let glob = glob.map_err(|error| format!("invalid glob pattern {pattern:?}: {}", error.kind()))?;
        Ok(Pattern(glob.compile_matcher()))
    }

    fn holds(&self, root: &Path, path: &Path) -> bool {
        path.strip_prefix(root).is_ok_and(|it| self.0.is_match(it))
    }
}

pub(super) fn by_name(
    workspace: &Workspace,
    pattern: &str,
    most: usize,
    limits: &ToolsConfig,
    until: &Until<'_>,
) -> Result<String, String> {
    let wanted = Pattern::new(pattern, workspace)?;
    let mut names = String::new();
    let mut n = 0;
    for root in workspace.folders() {
        for path in Walk::new(workspace, root, until) {
            until.check()?;
            if !wanted.holds(root, &path) {
                continue;
            }
            let Some(place) = workspace.found(&path) else { continue };
            let name = shown_path(&place.path);
            if n == most || names.len() + name.len() >= limits.max_output {
                return Ok(format!("{names}[… more files omitted: use a narrower pattern]"));
            }
            names.push_str(&name);
            names.push('\n');
            n += 1;
        }
    }
    until.check()?;
    match n {
        0 => Ok(format!("No file matches {pattern}.")),
        _ => Ok(names),
    }
}

pub(super) fn matcher(pattern: &str, is_regex: bool) -> Result<RegexMatcher, String> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(true).crlf(true).size_limit(MOST_OF_REGEX);
    let built = builder.fixed_strings(!is_regex).build(pattern);
    built.map_err(|error| match is_regex {
        true => format!("invalid `query`: {error}"),
        false => "invalid `query`: it must be a single line".to_owned(),
    })
}

pub(super) fn by_content(
    workspace: &Workspace,
    (pattern, is_regex): (&str, bool),
    include: Option<&str>,
    limits: &ToolsConfig,
    until: &Until<'_>,
) -> Result<String, String> {
    let include = include.map(|it| Pattern::new(it, workspace)).transpose()?;
    let matcher = matcher(pattern, is_regex)?;
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .line_terminator(LineTerminator::crlf())
        .heap_limit(Some(limits.max_file))
        .build();
    let mut found = Found { text: String::new(), most: limits.max_output, is_full: false };
    let mut n_large = 0;
    for root in workspace.folders() {
        for path in Walk::new(workspace, root, until) {
            until.check()?;
            if include.as_ref().is_some_and(|it| !it.holds(root, &path)) {
                continue;
            }
            let Some(place) = workspace.found(&path) else { continue };
            let Ok((file, stat)) = place.open_file() else { continue };
            if stat.size() > limits.max_file as u64 {
                n_large += 1;
                continue;
            }
            let name = shown_path(&place.path);
            found.look(&mut searcher, &matcher, Watched { file, until }, &name);
            if found.is_full {
                return Ok(found.text + "[… more lines omitted: use a narrower query]");
            }
        }
    }
    until.check()?;
    let large = match n_large {
        0 => String::new(),
        n => format!("[{n} files larger than {} bytes were skipped]\n", limits.max_file),
    };
    match found.text.is_empty() {
        true => Ok(format!("Nothing matches.\n{large}")),
        false => Ok(found.text + &large),
    }
}

/// A file that ends when the search must stop, because one file may take long.
pub(super) struct Watched<'a> {
    pub(super) file: File,
    pub(super) until: &'a Until<'a>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.until.check().map_err(io::Error::other)?;
        self.file.read(buffer)
    }
}

/// The found lines.
struct Found {
    text: String,
    most: usize,
    is_full: bool,
}

impl Found {
    fn look(&mut self, searcher: &mut Searcher, matcher: &RegexMatcher, file: Watched<'_>, name: &str) {
        let until = file.until;
        let sink = Lossy(|number, line| {
            let line = line.trim_end_matches(['\r', '\n']);
            let end = line.floor_char_boundary(MOST_OF_LINE);
            let more = if end < line.len() { " […]" } else { "" };
            let line = format!("{name}:{number}: {}{more}\n", plain_line(&line[..end]));
            self.is_full = self.text.len() + line.len() > self.most;
            if !self.is_full {
                self.text.push_str(&line);
            }
            Ok(!self.is_full && until.check().is_ok())
        });
        // A line may be too long, or a file unreadable. The search continues.
        if let Err(error) = searcher.search_reader(matcher, file, sink) {
            tracing::debug!(name, %error, "search failed");
        }
    }
}

/// A line without control characters other than tabs.
fn plain_line(line: &str) -> String {
    match line.contains(|it: char| it.is_control() && it != '\t') {
        true => plain(line),
        false => line.to_owned(),
    }
}
