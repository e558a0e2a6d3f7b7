//! The paths that modules name, however they are written: with `super::super::`, in a group, under another name, or
//! through the import of another module. Test modules and comments do not count.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A path that a module names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The module, from `crate`.
    pub(super) by: String,
    /// The path, from `crate` or from the name of another crate.
    pub(super) path: String,
    /// Whether a value is matched with it, rather than made.
    pub(super) is_pattern: bool,
}

/// All modules below one.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<String, Module>);

#[derive(Debug, Default)]
struct Module {
    children: BTreeSet<String>,
    /// The imported path, under its name here.
    imports: BTreeMap<String, Vec<String>>,
    /// Every path as written, and whether it is a pattern.
    written: Vec<(Vec<String>, bool)>,
    /// The methods that it calls.
    calls: Vec<String>,
}

impl Modules {
    /// Reads the root of the crate and all modules that `read` has, by path: `src/core/mux.rs`.
    pub(super) fn read(read: &dyn Fn(&str) -> Option<String>) -> Modules {
        let mut modules = Modules::default();
        modules.add("crate", "src/lib.rs", read);
        modules
    }

    fn add(&mut self, name: &str, file: &str, read: &dyn Fn(&str) -> Option<String>) {
        let Some(text) = read(file) else { return };
        let tokens = text.parse().unwrap_or_else(|problem| panic!("{file}: {problem}"));
        self.0.insert(name.to_owned(), Module::default());
        self.walk(name, tokens, read);
    }

    fn walk(&mut self, name: &str, tokens: TokenStream, read: &dyn Fn(&str) -> Option<String>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut at, mut is_test) = (0, false);
        while let Some(token) = tokens.get(at) {
            let left = &tokens[at..];
            let module = self.0.get_mut(name).expect("it was added");
            match (token, left.get(1), left.get(2)) {
                (TokenTree::Punct(it), Some(TokenTree::Group(attribute)), _) if it.as_char() == '#' => {
                    is_test |= attribute.stream().to_string().replace(' ', "") == "cfg(test)";
                    at += 2;
                    continue;
                }
                (TokenTree::Ident(it), after, _) if it == "pub" => {
                    at += 1 + usize::from(after.is_some_and(is_restriction));
                    continue;
                }
                (TokenTree::Ident(it), Some(TokenTree::Ident(child)), Some(body)) if it == "mod" => {
                    if !is_test {
                        module.children.insert(child.to_string());
                        let path = format!("{name}::{child}");
                        if let TokenTree::Group(body) = body {
                            self.0.insert(path.clone(), Module::default());
                            self.walk(&path, body.stream(), read);
                        } else {
                            let file = format!("{}.rs", path.replacen("crate", "src", 1).replace("::", "/"));
                            self.add(&path, &file, read);
                        }
                    }
                    at += 3;
                }
                // Not the one of `impl Trait + use<>`.
                (TokenTree::Ident(it), Some(after), _) if it == "use" && !is(after, '<') => {
                    let n = left.iter().position(|it| is(it, ';')).expect("an import ends");
                    module.import(&left[1..n], Vec::new());
                    at += n;
                }
                (TokenTree::Ident(_), ..) => {
                    let (path, n) = path_of(left);
                    module.written.push((path, is_pattern(&left[n..])));
                    at += n;
                }
                (TokenTree::Punct(it), Some(TokenTree::Ident(method)), Some(_)) if it.as_char() == '.' => {
                    module.calls.push(method.to_string());
                    at += 2;
                }
                (TokenTree::Group(group), ..) => {
                    self.walk(name, group.stream(), read);
                    at += 1;
                }
                (TokenTree::Punct(_) | TokenTree::Literal(_), ..) => at += 1,
            }
            is_test = false;
        }
    }

    /// Every path that a module names, also through the imports of others.
    pub(super) fn named(&self) -> Vec<Named> {
        let mut all = Vec::new();
        for (by, module) in &self.0 {
            for (written, is_pattern) in &module.written {
                let mut next = Some(self.absolute(by, written));
                while let Some(path) = next {
                    next = self.follow(&path);
                    let (by, path) = (by.clone(), path.join("::"));
                    all.push(Named { by, path, is_pattern: *is_pattern });
                }
            }
        }
        all
    }

    /// Each module with the methods that it calls.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(by, it)| it.calls.iter().map(move |method| (by.as_str(), method.as_str())))
    }

    /// A path as written in a module, from `crate`, or from the name of another crate.
    fn absolute(&self, module: &str, written: &[String]) -> Vec<String> {
        let here = &self.0[module];
        let mut base: Vec<String> = module.split("::").map(str::to_owned).collect();
        let mut rest = written;
        match &*rest[0] {
            "crate" => return written.to_vec(),
            "self" => rest = &rest[1..],
            "super" => {}
            name if here.children.contains(name) || here.imports.contains_key(name) => {}
            _ => return written.to_vec(),
        }
        while rest.first().is_some_and(|it| it == "super") {
            base.pop();
            rest = &rest[1..];
        }
        base.extend_from_slice(rest);
        base
    }

    /// The meaning of a path, if it leads through an import.
    fn follow(&self, path: &[String]) -> Option<Vec<String>> {
        let is_import = |n: &usize| {
            let module = self.0.get(&path[..*n].join("::"));
            module.is_some_and(|it| !it.children.contains(&path[*n]) && it.imports.contains_key(&path[*n]))
        };
        let n = (1..path.len()).find(is_import)?;
        let module = path[..n].join("::");
        let import = &self.0[&module].imports[&path[n]];
        let target = [import, &path[n + 1..]].concat();
        // `use serde_json::{self, json}`: another crate, under its own name.
        if import[0] == path[n] { Some(target) } else { Some(self.absolute(&module, &target)) }
    }
}

impl Module {
    /// Notes what an import names. `above`: the path before its group.
    fn import(&mut self, tree: &[TokenTree], mut above: Vec<String>) {
        let (mut path, n) = path_of(tree);
        let left = &tree[n..];
        if path.first().is_some_and(|it| it == "self") && !above.is_empty() {
            path.remove(0);
        }
        above.append(&mut path);
        let group = left.iter().find_map(|it| match it {
            TokenTree::Group(group) => Some(group.stream().into_iter().collect::<Vec<_>>()),
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
        });
        if let Some(group) = group {
            for tree in group.split(|it| is(it, ',')).filter(|it| !it.is_empty()) {
                self.import(tree, above.clone());
            }
            return;
        }
        if left.iter().any(|it| is(it, '*')) {
            above.push("*".to_owned());
        }
        let name = match left {
            [TokenTree::Ident(word), TokenTree::Ident(name)] if word == "as" => name.to_string(),
            _ => above.last().expect("an import names something").clone(),
        };
        self.imports.insert(name, above.clone());
        self.written.push((above, false));
    }
}

fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(it) if it.as_char() == sign)
}

/// Whether these are the words after a `pub`: `(crate)`, `(in crate::core)`.
fn is_restriction(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let first = group.stream().into_iter().next().map(|it| it.to_string()).unwrap_or_default();
    group.delimiter() == Delimiter::Parenthesis && ["crate", "in", "self", "super"].contains(&&*first)
}

/// The path with which tokens begin, and of how many it is.
fn path_of(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let (mut path, mut n) = (Vec::new(), 0);
    loop {
        match &tokens[n..] {
            [TokenTree::Punct(one), TokenTree::Punct(two), ..]
                if one.as_char() == ':' && one.spacing() == Spacing::Joint && two.as_char() == ':' =>
            {
                n += 2;
            }
            [TokenTree::Ident(name), ..] if n == 3 * path.len() || (n == 2 && path.is_empty()) => {
                path.push(name.to_string());
                n += 1;
            }
            _ => return (path, n),
        }
    }
}

/// Whether the tokens before these form a pattern: an arm, an alternative, or the pattern of a `let`.
fn is_pattern(after: &[TokenTree]) -> bool {
    let fields = usize::from(matches!(after.first(), Some(TokenTree::Group(_))));
    match &after[fields..] {
        [TokenTree::Punct(one), TokenTree::Punct(two), ..] if one.spacing() == Spacing::Joint => {
            (one.as_char(), two.as_char()) == ('=', '>')
        }
        [TokenTree::Punct(one), ..] => ['=', '|'].contains(&one.as_char()),
        [TokenTree::Ident(word), ..] => word == "if",
        [] | [TokenTree::Group(_) | TokenTree::Literal(_), ..] => false,
    }
}

#[test]
fn paths_are_found_however_they_are_written() {
    let read = |file: &str| {
        let text = match file {
            "src/lib.rs" => "mod core; mod shell;",
            "src/core.rs" => {
                "mod high; mod low; mod values; use self::high::{High as Top, deep}; pub struct Proxy;"
            }
            "src/core/high.rs" => "pub(crate) mod deep; pub struct High;",
            "src/core/values.rs" => "pub enum Value { A(u32), B { x: u32 } }",
            "src/core/low.rs" => {
                r#"
                    //! Of `super::in_comment`.
                    use std::{fs::{self, File}, io as other};
                    use super::{Top, values::Value as V, high as renamed};
                    /* super::in_comment */
                    fn f<'a>(it: &'a super::super::shell::X) -> impl Iterator + use<'a> {
                        let text = "super::in_text";
                        renamed::deep::call::<u32>(Top::new(), crate::core::Proxy, fs::read(b'x'));
                        match it { V::A(_) | V::B { .. } if true => other::x(), V::A(1) => V::B { x: '"' } }
                        it.method(inner::y())
                    }
                    mod inner { pub(super) fn y() -> u32 { super::super::low::f; super::super::deep::z() } }
                    #[cfg(test)]
                    mod tests { use super::super::tests; }
                    #[cfg(test)]
                    #[expect(x)]
                    pub(crate) mod more { use super::super::tests; }
                "#
            }
            _ => return None,
        };
        Some(text.to_owned())
    };
    let modules = Modules::read(&read);
    let all: Vec<_> =
        modules.named().into_iter().filter(|it| it.by.starts_with("crate::core::low")).collect();
    let is_named = |path: &str| all.iter().any(|it| it.path == path);
    for path in [
        "std::fs",
        "std::fs::File",
        "std::fs::read",
        "std::io::x",
        "crate::shell::X",
        "crate::core::high::High",
        "crate::core::high::High::new",
        "crate::core::high::deep::call",
        "crate::core::high::deep::z",
        "crate::core::low::inner::y",
        "crate::core::low::f",
        "crate::core::Proxy",
    ] {
        assert!(is_named(path), "{path}");
    }
    assert!(
        !all.iter().any(|it| ["tests", "in_comment", "in_text"].iter().any(|word| it.path.contains(word)))
    );
    let values = all.iter().filter(|it| it.path.starts_with("crate::core::values::Value::"));
    let values: Vec<_> = values.map(|it| (it.path.rsplit("::").next().unwrap(), it.is_pattern)).collect();
    assert_eq!(values, [("A", true), ("B", true), ("A", true), ("B", false)]);
    assert_eq!(modules.calls().collect::<Vec<_>>(), [("crate::core::low", "method")]);
}
