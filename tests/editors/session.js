// What a user does in an editor made of VS Code's libraries: hover, definition, diagnostics, completion, and a crash of the
// server where $LSPOOL_KILL is set. Prints one line of JSON. An editor says how each is done.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

const file = path.resolve("greeting.py");
const command = process.env.LSPOOL_COMMAND.split("\n");

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until something holds; gives what it gave. */
async function wait(what, condition) {
  for (const end = Date.now() + 40000; Date.now() < end; await pause(20)) {
    const found = await condition();
    if (found) return found;
  }
  throw new Error(what);
}

/** `editor`: start(), diagnostics(), hover(line, character), definition(…), completion(…), append(text), stop(), messages. */
async function session(editor) {
  const results = {};
  try {
    await editor.start();
    await wait("diagnostics", () => editor.diagnostics().length > 0);
    results.diagnostics = editor.diagnostics();
    results.hover = await editor.hover(7, 2);
    results.line = (await editor.definition(7, 2)) + 1;
    // The completion is about what is typed and not on the disk.
    const last = editor.append("os.getc");
    results.completion = await editor.completion(last, 7);
    if (process.env.LSPOOL_KILL) results.crash = await crash(editor);
    await editor.stop();
  } catch (error) {
    results.failed = String(error.stack ?? error);
  }
  process.stdout.write(JSON.stringify(results) + "\n");
  process.exit(0);
}

async function crash(editor) {
  const results = {};
  editor.append("\ntotal = greet('x')\n");
  fs.writeFileSync(process.env.LSPOOL_KILL, "");
  await wait("the kill", () => !fs.existsSync(process.env.LSPOOL_KILL));
  const last = editor.append("total.uper()\n") - 1;
  results.hover = await editor.hover(last, 1);
  await wait("an error in what was typed", () => editor.diagnostics().some((it) => it.includes('"uper"')));
  results.diagnostics = editor.diagnostics();
  results.messages = [...editor.messages];
  if (editor.states) results.states = [...editor.states];
  return results;
}

module.exports = { command, file, session };
