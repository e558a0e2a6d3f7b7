//! What the configuration lets a member be used for.

use super::offers::{is_within, overlap};
use crate::core::mux::merge::methods::{Methods, feature_methods};

/// `only` and `except`. Names that are no feature are not in them: the configuration refuses those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    methods: Methods,
    /// Kinds of code actions; `None`: any.
    only: Option<Vec<String>>,
    except: Vec<String>,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { methods: Methods::ALL, only: None, except: Vec::new() }
    }
}

impl Limit {
    /// `only`: no others than these features; `None`: all.
    pub(crate) fn new(only: Option<&[String]>, except: &[String]) -> Limit {
        let mut limit = Limit::default();
        let features = |list: &[String]| -> Vec<(Methods, Option<String>)> {
            let found = list.iter().filter_map(|it| feature_methods(it));
            found.map(|it| (it.methods, it.kind.map(str::to_owned))).collect()
        };
        if let Some(only) = only {
            let only = features(only);
            limit.methods = only.iter().fold(Methods::NONE, |all, (methods, _)| all.and(*methods));
            let actions = feature_methods("code-action").map_or(Methods::NONE, |it| it.methods);
            let is_wide = only.iter().any(|(methods, kind)| *methods == actions && kind.is_none());
            limit.only = (!is_wide).then(|| only.into_iter().filter_map(|(_, kind)| kind).collect());
        }
        for (methods, kind) in features(except) {
            match kind {
                Some(kind) => limit.except.push(kind),
                None => limit.methods = limit.methods.without(methods),
            }
        }
        limit
    }

    pub(crate) fn methods(&self) -> Methods {
        self.methods
    }

    /// Whether the member may be used for something of this feature.
    pub(crate) fn allows(&self, feature: &str) -> bool {
        feature_methods(feature).is_none_or(|it| !it.methods.common(self.methods).is_empty())
    }

    /// Whether some kinds of code actions are not taken.
    pub(super) fn has_kinds(&self) -> bool {
        self.only.is_some() || !self.except.is_empty()
    }

    /// Whether code actions of this kind are taken; `None`: of no kind.
    pub(crate) fn allows_kind(&self, kind: Option<&str>) -> bool {
        let Some(kind) = kind else { return self.only.is_none() };
        self.only.as_ref().is_none_or(|all| all.iter().any(|it| is_within(kind, it)))
            && !self.except.iter().any(|it| is_within(kind, it))
    }

    /// Whether some code action of these kinds may be taken; of any kind, if none is named.
    pub(super) fn allows_one(&self, wanted: &[String]) -> bool {
        wanted.is_empty() || wanted.iter().any(|it| self.may_allow(it))
    }

    /// Whether code actions of this kind, or of a part of it, may be taken.
    pub(crate) fn may_allow(&self, kind: &str) -> bool {
        self.only.as_ref().is_none_or(|all| all.iter().any(|it| overlap(kind, it)))
            && !self.except.iter().any(|it| is_within(kind, it))
    }

    /// The only kinds of code actions that are taken; `None`: any.
    pub(crate) fn only_kinds(&self) -> Option<&[String]> {
        self.only.as_deref()
    }
}
