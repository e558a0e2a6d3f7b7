//! The model of hovers and semantic tokens.

use serde_json::{Value, json};

use super::{
    Case,
    expected::{Said, hear},
};

pub(super) fn hover(case: &Case) -> Value {
    let is_blank = |it: &Value| it.get("value").unwrap_or(it).as_str().is_some_and(|it| it.trim().is_empty());
    let is_text = |it: &Value| it.get("value").unwrap_or(it).is_string();
    let (heard, _) = hear(case, |_, it| {
        let contents = it.get("contents").cloned().unwrap_or_default();
        let mut texts = contents.as_array().cloned().unwrap_or_else(|| vec![contents.clone()]);
        if !texts.iter().all(is_text) {
            return Said::Malformed;
        }
        texts.retain(|it| !is_blank(it));
        if texts.is_empty() { Said::Nothing } else { Said::Something(texts, false) }
    });
    if let Some(settled) = heard.settled {
        return settled;
    }
    let plain = |it: &Value| it.get("value").unwrap_or(it).as_str().unwrap_or_default().to_owned();
    let plains = |it: &[Value]| it.iter().map(plain).collect::<Vec<_>>().join("\n\n");
    let mut distinct: Vec<(usize, Vec<Value>)> = Vec::new();
    for (n, texts) in heard.parts {
        if !distinct.iter().any(|(_, it)| plains(it).trim() == plains(&texts).trim()) {
            distinct.push((n, texts));
        }
    }
    if let [(n, _)] = distinct[..] {
        return case.parts[n].clone();
    }
    let markdown = |it: &Value| {
        let fenced = |language: &str| {
            let fence = if plain(it).contains("```") { "````" } else { "```" };
            let text = plain(it);
            format!("{fence}{language}\n{text}{}{fence}", if text.ends_with('\n') { "" } else { "\n" })
        };
        match (it["kind"].as_str(), it["language"].as_str()) {
            (Some("plaintext"), _) => fenced("text"),
            (_, Some(language)) => fenced(language),
            (_, _) => plain(it),
        }
    };
    let has_markdown = distinct.iter().flat_map(|(_, it)| it).any(|it| it["kind"] != json!("plaintext"));
    let format = case.client["capabilities"]["textDocument"]["hover"]["contentFormat"][0].as_str();
    let said = |of: &dyn Fn(&Value) -> String| {
        let texts = |it: &Vec<Value>| it.iter().map(of).collect::<Vec<_>>().join("\n\n");
        distinct.iter().map(|(_, it)| texts(it)).collect::<Vec<_>>().join("\n\n---\n\n")
    };
    let contents = match format {
        None if has_markdown => {
            let marked = |(n, _): &(usize, Vec<Value>)| match &case.parts[*n]["contents"] {
                Value::Array(all) => all.clone(),
                it if it.get("kind").is_some() => vec![json!(markdown(it))],
                it => vec![it.clone()],
            };
            distinct.iter().flat_map(marked).collect()
        }
        Some("markdown") if has_markdown => json!({"kind": "markdown", "value": said(&markdown)}),
        _ => json!({"kind": "plaintext", "value": said(&plain)}),
    };
    let mut hover = json!({"contents": contents});
    if let Some(range) = distinct.iter().find_map(|(n, _)| case.parts[*n].get("range")) {
        hover["range"] = range.clone();
    }
    hover
}

/// Token by token and column by column.
pub(super) fn tokens(case: &Case) -> Value {
    let numbers = |it: &Value| {
        let data = it.get("data")?.as_array()?;
        let numbers: Vec<u64> = data.iter().map(Value::as_u64).collect::<Option<_>>()?;
        numbers.len().is_multiple_of(5).then_some(numbers)
    };
    let Some((united, of_parts)) = &case.legends else {
        let (heard, _) = hear(case, |_, it| match it.get("data").and_then(Value::as_array) {
            None => Said::Malformed,
            Some(data) if data.is_empty() => Said::Nothing,
            Some(_) => Said::Something((), false),
        });
        let best = heard.parts.first().map(|(n, ())| case.parts[*n].clone());
        return best.or(heard.settled).unwrap_or_default();
    };
    let is_silent = |it: &&Value| it.is_null() || it["data"] == json!([]);
    let speaks = |it: &Value| it["data"].as_array().is_some_and(|it| !it.is_empty());
    if !case.parts.iter().any(speaks) {
        return case.parts.iter().find(is_silent).cloned().unwrap_or_default();
    }
    let mut all: Vec<[u64; 5]> = Vec::new();
    for (n, part) in case.parts.iter().enumerate() {
        let Some(numbers) = numbers(part) else { continue };
        let find = |key: &str, number: u64| {
            let name = of_parts[n][key].get(usize::try_from(number).ok()?)?;
            united[key].as_array()?.iter().position(|it| it == name)
        };
        let covered: Vec<[u64; 5]> = all.clone();
        let is_covered = |line: u64, column: u64| {
            covered.iter().any(|it| it[0] == line && it[1] <= column && column < it[1] + it[2])
        };
        let (mut line, mut start) = (0, 0);
        for token in numbers.chunks(5) {
            start = if token[0] == 0 { start + token[1] } else { token[1] };
            line += token[0];
            let Some(kind) = find("tokenTypes", token[3]) else { continue };
            let bits = (0..8).filter(|bit| token[4] >> bit & 1 == 1);
            let bits = bits.filter_map(|bit| find("tokenModifiers", bit)).fold(0, |all, bit| all | 1 << bit);
            let mut put = |from: u64, length: u64| all.push([line, from, length, kind as u64, bits]);
            if token[2] == 0 && !is_covered(line, start) {
                put(start, 0);
            }
            let columns: Vec<u64> = (start..start + token[2]).filter(|it| !is_covered(line, *it)).collect();
            for run in columns.chunk_by(|a, b| a + 1 == *b) {
                put(run[0], run.len() as u64);
            }
        }
        all.sort_by_key(|it| (it[0], it[1]));
    }
    let (mut line, mut start) = (0, 0);
    let mut data = Vec::new();
    for token in all {
        data.extend([token[0] - line, if token[0] == line { token[1] - start } else { token[1] }]);
        data.extend(&token[2..]);
        (line, start) = (token[0], token[1]);
    }
    json!({"data": data})
}
