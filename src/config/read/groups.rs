//! Groups of servers, the names of features, and settings that are passed on to a server.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Number, Value};
use toml::{
    Spanned,
    de::{DeFloat, DeInteger, DeTable, DeValue},
};

use super::{At, Reader, To, any_text, choice, join, shown, text, with_unit};
use crate::config::{
    Combine, GroupConfig, MemberConfig,
    features::{common, covers, feature_of, is_feature, is_joinable, names, usual_combine},
    keys::{COMBINES, GROUP, MEMBER},
    problem::Author,
    suggest::nearest,
    units::parse_duration,
};

impl Reader<'_> {
    pub(super) fn groups(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        field: &mut BTreeMap<String, GroupConfig>,
    ) {
        for (name, line, table) in self.named(GROUP.header, at, value) {
            let mut group = (GROUP.fresh)();
            let key = join(at.key, &name);
            self.section(&GROUP, &key, table, line, &mut group);
            self.order_names_members(&key, table, &group);
            field.insert(name, group);
        }
    }

    /// Reports servers in `order` that the group does not have.
    fn order_names_members(&mut self, key: &str, table: &DeTable<'_>, group: &GroupConfig) {
        let members: Vec<&str> = group.servers.iter().map(|it| it.server.as_str()).collect();
        let order = table.get("order").and_then(|it| it.get_ref().as_table());
        for (feature, listed) in order.into_iter().flatten() {
            let key = join(&join(key, "order"), feature.get_ref());
            for (n, item) in listed.get_ref().as_array().into_iter().flatten().enumerate() {
                let Some(name) = item.get_ref().as_str() else { continue };
                if members.contains(&name) {
                    continue;
                }
                let hint = match nearest(name, members.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("expected one of {}", members.join(", ")),
                };
                let message = format!("unknown member {name:?}; {hint}");
                self.problem(self.line(item.span().start), &format!("{key}[{n}]"), message);
            }
        }
    }

    pub(super) fn members(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        field: &mut Vec<MemberConfig>,
    ) {
        let Some(items) = value.get_ref().as_array() else {
            let message = format!(
                "expected a list of servers such as [\"pyright\", \"ruff\"], found {}",
                shown(value.get_ref())
            );
            return self.problem(at.line, at.key, message);
        };
        if items.is_empty() {
            self.problem(at.line, at.key, "expected at least one server");
        }
        for (n, item) in items.iter().enumerate() {
            let line = self.line(item.span().start);
            let key = format!("{}[{n}]", at.key);
            let Some(member) = self.member(&At { line, key: &key }, item.get_ref()) else { continue };
            if field.iter().any(|it| it.server == member.server) {
                self.problem(line, &key, format!("the group names {:?} twice", member.server));
            }
            field.push(member);
        }
    }

    fn member(&mut self, at: &At<'_>, value: &DeValue<'_>) -> Option<MemberConfig> {
        if let Some(table) = value.as_table() {
            let mut member = (MEMBER.fresh)();
            self.section(&MEMBER, at.key, table, at.line, &mut member);
            return Some(member).filter(|it| !it.server.is_empty());
        }
        match text(value) {
            Ok(name) => {
                self.refer(at, Some(&name), To::Member);
                Some(MemberConfig::of(&name))
            }
            Err(message) => {
                self.problem(at.line, at.key, message);
                None
            }
        }
    }

    pub(super) fn order(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        field: &mut BTreeMap<String, Vec<String>>,
    ) {
        let example = "a table such as { format = [\"ruff\"] }";
        self.by_feature(at, value, example, field, |reader, _, at, listed| {
            let mut servers = Vec::new();
            reader.list(at, listed, |it| text(it).map(Some), &mut servers);
            Some(servers)
        });
    }

    pub(super) fn combine(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        field: &mut BTreeMap<String, Combine>,
    ) {
        let example = "a table such as { hover = \"first\" }";
        self.by_feature(at, value, example, field, |reader, feature, at, value| {
            let read = choice(value.get_ref(), &COMBINES);
            let read = read.and_then(|it| combines(feature, it).map(|()| it));
            read.map_err(|message| reader.problem(at.line, at.key, message)).ok()
        });
    }

    pub(super) fn waits(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        field: &mut BTreeMap<String, Duration>,
    ) {
        let example = "a table such as { completion = \"500ms\" }";
        self.by_feature(at, value, example, field, |reader, _, at, value| {
            let read = with_unit(value.get_ref(), "a duration such as \"500ms\"", parse_duration);
            read.map_err(|message| reader.problem(at.line, at.key, message)).ok()
        });
    }

    /// A table whose keys are features.
    fn by_feature<V>(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        example: &str,
        field: &mut BTreeMap<String, V>,
        read: impl Fn(&mut Self, &str, &At<'_>, &Spanned<DeValue<'_>>) -> Option<V>,
    ) {
        let Some(table) = value.get_ref().as_table() else {
            let message = format!("expected {example}, found {}", shown(value.get_ref()));
            return self.problem(at.line, at.key, message);
        };
        for (name, value) in table {
            let (line, key) = (self.line(name.span().start), join(at.key, name.get_ref()));
            if let Err(message) = known(name.get_ref()) {
                self.problem(line, &key, message);
                continue;
            }
            if let Some(value) = read(self, name.get_ref(), &At { line, key: &key }, value) {
                field.insert(name.get_ref().to_string(), value);
            }
        }
    }

    /// A workspace file keeps only what both lists contain.
    pub(super) fn only(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        field: &mut Option<Vec<String>>,
    ) {
        let mut new = Vec::new();
        self.list(at, value, |it| feature(it).map(Some), &mut new);
        if value.get_ref().as_array().is_some_and(|it| it.is_empty()) {
            self.problem(at.line, at.key, "expected at least one feature");
        }
        let old = field.take().filter(|_| self.author != Author::User);
        let Some(old) = old else {
            *field = Some(new);
            return;
        };
        for feature in new.iter().filter(|it| !old.iter().any(|wide| covers(wide, it))) {
            let message = format!("{feature:?} is not allowed: a workspace file can only remove features");
            self.problem(at.line, at.key, message);
        }
        *field = Some(common(&old, &new));
    }

    /// A workspace file adds to the list.
    pub(super) fn except(&mut self, at: &At<'_>, value: &Spanned<DeValue<'_>>, field: &mut Vec<String>) {
        let mut new = Vec::new();
        self.list(at, value, |it| feature(it).map(Some), &mut new);
        if self.author == Author::User {
            field.clear();
        }
        new.retain(|it| !field.contains(it));
        field.append(&mut new);
    }

    pub(super) fn json(&mut self, at: &At<'_>, value: &Spanned<DeValue<'_>>, field: &mut Map<String, Value>) {
        match self.json_value(at.key, value) {
            Some(Value::Object(new)) => *field = new,
            Some(_) => {
                self.problem(at.line, at.key, format!("expected a table, found {}", shown(value.get_ref())));
            }
            None => {}
        }
    }

    fn json_value(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        let new = match value.get_ref() {
            DeValue::String(_) => any_text(value.get_ref()).map(Value::String),
            DeValue::Integer(it) => {
                integer(it).map(Value::Number).ok_or_else(|| "the integer is out of range".to_owned())
            }
            DeValue::Float(it) => {
                float(it).map(Value::Number).ok_or_else(|| "JSON has no such number".to_owned())
            }
            DeValue::Boolean(it) => Ok(Value::Bool(*it)),
            DeValue::Datetime(it) => Ok(Value::String(it.to_string())),
            DeValue::Array(items) => {
                let items = items.iter().enumerate();
                return items.map(|(n, item)| self.json_value(&format!("{key}[{n}]"), item)).collect();
            }
            DeValue::Table(table) => {
                let members = table.iter().map(|(name, value)| {
                    let value = self.json_value(&join(key, name.get_ref()), value)?;
                    Some((name.get_ref().to_string(), value))
                });
                return members.collect::<Option<Map<_, _>>>().map(Value::Object);
            }
        };
        new.map_err(|message| self.problem(self.line(value.span().start), key, message)).ok()
    }
}

fn integer(value: &DeInteger<'_>) -> Option<Number> {
    i64::from_str_radix(value.as_str(), value.radix()).ok().map(Number::from)
}

fn float(value: &DeFloat<'_>) -> Option<Number> {
    value.as_str().parse().ok().and_then(Number::from_f64)
}

/// Whether a feature takes this way of making one answer of several.
fn combines(feature: &str, how: Combine) -> Result<(), String> {
    match (usual_combine(feature), how) {
        (Some(Combine::All), _) | (Some(Combine::First), Combine::First) => Ok(()),
        (Some(Combine::First), Combine::All) if is_joinable(feature) => Ok(()),
        (Some(Combine::First), Combine::All) => {
            Err(format!("{feature:?} has one answer, which cannot be joined with others"))
        }
        (None, _) => Err(format!("{feature:?} goes to one server, or its answers are always joined")),
    }
}

/// A glob that can be read.
pub(super) fn glob(value: &DeValue<'_>) -> Result<Option<String>, String> {
    let glob = text(value)?;
    match globset::Glob::new(&glob) {
        Ok(_) => Ok(Some(glob)),
        Err(error) => Err(format!("expected a glob such as \"**/*.ts\", found {glob:?}: {}", error.kind())),
    }
}

/// A method; `*` at its end stands for anything.
pub(super) fn method(value: &DeValue<'_>) -> Result<Option<String>, String> {
    let name = text(value)?;
    let is_plain =
        name.strip_suffix('*').unwrap_or(&name).bytes().all(|it| it.is_ascii_graphic() && it != b'*');
    match is_plain && name != "*" {
        true => Ok(Some(name)),
        false => Err(format!("expected a method such as \"rust-analyzer/*\", found {name:?}")),
    }
}

/// A path below a folder.
pub(super) fn marker(value: &DeValue<'_>) -> Result<Option<String>, String> {
    use std::path::{Component, Path};
    let path = text(value)?;
    match Path::new(&path).components().all(|it| matches!(it, Component::Normal(_))) {
        true => Ok(Some(path)),
        false => Err(format!("expected a path below a folder such as \"biome.json\", found {path:?}")),
    }
}

fn feature(value: &DeValue<'_>) -> Result<String, String> {
    let name = text(value)?;
    known(&name).map(|()| name)
}

/// Reports an unknown feature.
fn known(name: &str) -> Result<(), String> {
    if is_feature(name) {
        return Ok(());
    }
    let hint = match feature_of(name).or_else(|| nearest(name, names())) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("expected one of {}", names().collect::<Vec<_>>().join(", ")),
    };
    Err(format!("unknown feature {name:?}; {hint}"))
}
