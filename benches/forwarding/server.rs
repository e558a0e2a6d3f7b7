//! A language server that does nothing but say as much as it is asked to.
//!
//! `bench/reply {"size"}` is answered with so many bytes, `bench/flood {"count", "size"}` with so many notifications
//! and then an answer, everything else with `null` at once. A conversation is answered as a Copilot server would, with
//! `count` reports of its turn.

use std::io::{self, Write};

use crate::wire::{Frames, frame, id, member, raw};

/// So much is written at once.
const BLOCK: usize = 64 << 10;

pub(crate) fn run() -> io::Result<()> {
    let (mut input, mut output) = (Frames::new(raw(io::stdin())?), raw(io::stdout())?);
    let mut answers = Vec::new();
    while let Some(body) = input.next()? {
        let Some(id) = id(body) else {
            if member(body, "method") == Some("exit") {
                return Ok(());
            }
            continue;
        };
        let number = |key| member(body, key).and_then(|it| it.parse::<usize>().ok()).unwrap_or(0);
        let result = match member(body, "method") {
            Some("initialize") => r#"{"capabilities":{"textDocumentSync":2}}"#.to_owned(),
            Some("bench/reply") => format!("\"{}\"", "x".repeat(number("size"))),
            Some("bench/flood") => {
                repeat(&mut output, &note(number("size")), number("count"))?;
                "null".to_owned()
            }
            Some("conversation/create" | "conversation/turn") => {
                let conversation = member(body, "conversationId").unwrap_or("none");
                let token = member(body, "workDoneToken").unwrap_or("none");
                let of = |kind: &str, more: &str| {
                    frame(&format!(
                        r#"{{"jsonrpc":"2.0","method":"$/progress","params":{{"token":"{token}","value":{{"kind":"{kind}","conversationId":"{conversation}","turnId":"turn"{more}}}}}}}"#
                    ))
                };
                output.write_all(&of("begin", ""))?;
                repeat(&mut output, &of("report", r#","reply":"words, words, words""#), number("count"))?;
                output.write_all(&of("end", ""))?;
                format!(r#"{{"conversationId":"{conversation}","turnId":"turn"}}"#)
            }
            Some(tools) if tools.ends_with("Tools") || tools.ends_with("ToolsStatus") => "[]".to_owned(),
            Some(_) => "null".to_owned(),
            None => continue,
        };
        answers.extend(frame(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)));
        // What was asked in one go is answered in one.
        if !input.has_more() || answers.len() >= BLOCK {
            output.write_all(&answers)?;
            answers.clear();
        }
    }
    Ok(())
}

/// A notification whose body has about so many bytes.
fn note(size: usize) -> Vec<u8> {
    let rest = r#"{"jsonrpc":"2.0","method":"bench/note","params":{"text":""}}"#.len();
    let text = "x".repeat(size.saturating_sub(rest));
    frame(&format!(r#"{{"jsonrpc":"2.0","method":"bench/note","params":{{"text":"{text}"}}}}"#))
}

/// The same frame again and again, in blocks.
fn repeat(output: &mut impl Write, frame: &[u8], n: usize) -> io::Result<()> {
    let in_block = (BLOCK / frame.len()).max(1);
    let block = frame.repeat(in_block);
    for _ in 0..n / in_block {
        output.write_all(&block)?;
    }
    output.write_all(&block[..frame.len() * (n % in_block)])
}
