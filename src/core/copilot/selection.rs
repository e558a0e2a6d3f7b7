//! Chooses the tools of a conversation: by its create, else by a route, else every tool.

use crate::{
    config::{AgentConfig, Config, Isolation, RouteConfig, nearest},
    core::{
        copilot::{Copilot, conversation::Wish, messages::question_in, tools::tool_set::ToolSet},
        mux::Mux,
    },
    rpc::{members, text},
};

/// The choice for a conversation.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) set: ToolSet,
    /// Whether the editor wants events of its sub-agents.
    pub(crate) events: bool,
    /// The wanted isolation.
    pub(crate) wish: Wish,
}

impl Copilot {
    /// Chooses the tool set of a create.
    pub(crate) fn choose(&self, mux: &Mux, params: &[u8]) -> Result<Choice, String> {
        let config = &self.server(mux).config;
        let AskedTools { wanted, lead, events, isolation } =
            asked(params).map_err(|what| format!("lspool: {what}"))?;
        let agent = match &wanted {
            Some(ToolChoice::Tools(tools)) => {
                let set = ToolSet::new(Some(tools), &[]);
                let wish = Wish { isolation, ..Wish::default() };
                return Ok(Choice { set: set.with_lead(lead.unwrap_or(false)), events, wish });
            }
            Some(ToolChoice::Agent(agent)) => Some(agent),
            None => config.routes.iter().find(|it| matches(it, params)).map(|it| &it.agent),
        };
        let Some(agent) = agent else {
            let set = ToolSet::all().with_lead(lead.unwrap_or(false));
            return Ok(Choice { set, events, wish: Wish { isolation, ..Wish::default() } });
        };
        let Some((name, agent)) = Config::agent_named(&config.agents, agent) else {
            let hint = match nearest(agent, config.agents.keys().map(String::as_str)) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("use one of {}", known_agents(config)),
            };
            return Err(format!("lspool: unknown agent {agent:?}; {hint}"));
        };
        let wish = Wish { agent: Some(name.clone()), isolation, ..Wish::default() };
        Ok(Choice { set: agent_set(agent).with_lead(lead.unwrap_or(agent.lead)), events, wish })
    }
}

/// The member `lspool` of a create.
#[derive(Debug, Default)]
struct AskedTools {
    wanted: Option<ToolChoice>,
    lead: Option<bool>,
    events: bool,
    isolation: Option<Isolation>,
}

#[derive(Debug)]
enum ToolChoice {
    Tools(Vec<String>),
    Agent(String),
}

/// The valid keys.
const KEYS: [&str; 5] = ["tools", "agent", "lead", "events", "isolation"];

/// The hint about two keys that exclude each other.
const EITHER: &str = r#"write {"tools": ["NAME", …]} or {"agent": "NAME"}"#;

/// Reads the member. Every unknown part is an error, and so is a duplicate key, because it may have been meant to
/// narrow the set.
fn asked(params: &[u8]) -> Result<AskedTools, String> {
    let mut given = members(params).filter(|(key, _)| key == "lspool").map(|(_, range)| &params[range]);
    let (first, second) = (given.next(), given.next());
    if second.is_some() {
        return Err("occurs twice".to_owned());
    }
    let Some(asked) = first.filter(|it| *it != b"null") else { return Ok(AskedTools::default()) };
    if asked.first() != Some(&b'{') || serde_json::from_slice::<serde::de::IgnoredAny>(asked).is_err() {
        return Err(format!("must be an object; {EITHER}"));
    }
    let (mut tools, mut agent, mut lead, mut events, mut isolation) = (None, None, None, None, None);
    for (key, range) in members(asked) {
        let value = &asked[range];
        let slot = match &*key {
            "tools" => &mut tools,
            "agent" => &mut agent,
            "lead" => &mut lead,
            "events" => &mut events,
            "isolation" => &mut isolation,
            _ => {
                let hint = match nearest(&key, KEYS) {
                    Some(meant) => format!("did you mean {meant:?}?"),
                    None => format!("expected one of {}", KEYS.join(", ")),
                };
                return Err(format!("unknown key {key:?}; {hint}"));
            }
        };
        if slot.replace(value).is_some() {
            return Err(format!("duplicate key {key}"));
        }
    }
    let given = |it: Option<&[u8]>| it.filter(|it| *it != b"null").map(<[u8]>::to_vec);
    let flag = |it: Option<&[u8]>, key: &str| match given(it).as_deref() {
        None => Ok(None),
        Some(b"true") => Ok(Some(true)),
        Some(b"false") => Ok(Some(false)),
        Some(_) => Err(format!("`{key}` must be true or false")),
    };
    let (lead, events) = (flag(lead, "lead")?, flag(events, "events")?.unwrap_or(false));
    let isolation = match given(isolation).as_deref() {
        None => None,
        Some(br#""process""#) => Some(Isolation::Process),
        Some(br#""mode""#) => Some(Isolation::Mode),
        Some(_) => return Err("`isolation` must be \"process\" or \"mode\"".to_owned()),
    };
    let wanted = match (given(tools), given(agent)) {
        (Some(_), Some(_)) => return Err(format!("`tools` and `agent` exclude each other; {EITHER}")),
        (Some(tools), None) => match serde_json::from_slice(&tools) {
            Ok(tools) => Some(ToolChoice::Tools(tools)),
            Err(_) => return Err(format!("`tools` must be a list of strings; {EITHER}")),
        },
        (None, Some(agent)) => match serde_json::from_slice(&agent) {
            Ok(agent) => Some(ToolChoice::Agent(agent)),
            Err(_) => return Err(format!("`agent` must be a string; {EITHER}")),
        },
        (None, None) => None,
    };
    Ok(AskedTools { wanted, lead, events, isolation })
}

/// The tools of an agent's partition, as `lspool status` shows them.
pub fn partition_of(agent: &AgentConfig) -> String {
    agent_set(agent).with_lead(agent.lead).shown()
}

pub(crate) fn known_agents(config: &Config) -> String {
    config.agents.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The tools of an agent's definition.
pub(crate) fn agent_set(agent: &AgentConfig) -> ToolSet {
    ToolSet::new(agent.tools.as_deref(), &agent.disallowed_tools)
}

fn matches(route: &RouteConfig, params: &[u8]) -> bool {
    let question = question_in(params).map(|it| &params[it]);
    let slug = || text(params, &["agentSlug"]).or_else(|| text(question?, &["agentSlug"]));
    let model = || text(params, &["modelInfo", "id"]).or_else(|| text(params, &["model"]));
    let holds = |wanted: &Option<String>, actual: &dyn Fn() -> Option<String>| {
        wanted.as_ref().is_none_or(|it| actual().as_ref() == Some(it))
    };
    holds(&route.chat_mode, &|| text(params, &["chatMode"]))
        && holds(&route.custom_chat_mode, &|| text(params, &["customChatModeId"]))
        && holds(&route.source, &|| text(params, &["source"]))
        && holds(&route.agent_slug, &slug)
        && holds(&route.model, &model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_with_invalid_lspool_params_is_refused() {
        for wrong in [
            r#"{"lspool":{"tools":["a"]},"\u006cspool":{"tools":["*"]}}"#,
            r#"{"lspool":{"tools":["a"],"tools":["*"]}}"#,
            r#"{"lspool":[["a"],null]}"#,
            r#"{"lspool":"explore"}"#,
            r#"{"lspool":{"tools" ["a"]}}"#,
            r#"{"lspool":{"tools":"a"}}"#,
            r#"{"lspool":{"tools":["a",1]}}"#,
            r#"{"lspool":{"tools":["a"],"agent":"b"}}"#,
            r#"{"lspool":{"agent":["b"]}}"#,
            r#"{"lspool":{"Tools":["a"]}}"#,
            r#"{"lspool":{"lead":1}}"#,
            r#"{"lspool":{"events":"true"}}"#,
            r#"{"lspool":{"isolation":"none"}}"#,
        ] {
            assert!(asked(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for nothing in
            ["{}", r#"{"lspool":null}"#, r#"{"lspool":{}}"#, r#"{"lspool":{"tools":null,"agent":null}}"#]
        {
            assert!(asked(nothing.as_bytes()).is_ok_and(|it| it.wanted.is_none() && !it.events), "{nothing}");
        }
        assert!(
            matches!(asked(br#"{"\u006cspool":{"to\u006fls":[]}}"#), Ok(AskedTools { wanted: Some(ToolChoice::Tools(it)), .. }) if it.is_empty())
        );
    }

    #[test]
    fn lspool_params_error_suggests_intended_key() {
        for (wrong, told) in [
            (r#"{"agnet":"a"}"#, r#"unknown key "agnet"; did you mean "agent"?"#),
            (
                r#"{"xyzzy":1}"#,
                r#"unknown key "xyzzy"; expected one of tools, agent, lead, events, isolation"#,
            ),
            (r#"{"isolation":"none"}"#, r#"`isolation` must be "process" or "mode""#),
            (
                r#"{"agent":1}"#,
                r#"`agent` must be a string; write {"tools": ["NAME", …]} or {"agent": "NAME"}"#,
            ),
        ] {
            assert_eq!(asked(format!(r#"{{"lspool":{wrong}}}"#).as_bytes()).unwrap_err(), told);
        }
    }

    #[test]
    fn route_matches_when_all_its_conditions_match() {
        let params = br#"{"chatMode":"Agent","model":"m","turns":[{"request":"q","agentSlug":"s"}]}"#;
        let route = |chat_mode: Option<&str>, slug: Option<&str>, model: Option<&str>| RouteConfig {
            chat_mode: chat_mode.map(str::to_owned),
            agent_slug: slug.map(str::to_owned),
            model: model.map(str::to_owned),
            ..RouteConfig::default()
        };
        assert!(matches(&route(Some("Agent"), Some("s"), Some("m")), params));
        assert!(!matches(&route(Some("Agent"), Some("t"), None), params));
        assert!(matches(&route(None, None, None), params));
    }
}
