#!/usr/bin/env node
// Starts the executable from the package for this platform. An editor can start that executable itself, which
// saves the memory of node.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { isatty } = require("node:tty");

const name = `@lspool/${process.platform}-${process.arch}`;

function executable() {
  try {
    return require.resolve(`${name}/lspool`);
  } catch {
    console.error(`lspool: the package ${name} is missing: lspool needs it to run on this platform`);
    console.error("hint: install lspool again without --no-optional or --omit=optional");
    console.error("hint: if there is no such package, build lspool with `cargo install lspool --locked`");
    process.exit(1);
  }
}

const child = spawn(executable(), process.argv.slice(2), { stdio: "inherit" });

child.on("error", (error) => {
  console.error(`lspool: ${error.message}`);
  process.exit(1);
});

// A terminal sends SIGINT and SIGHUP to the child as well, and a second signal would cut its shutdown short.
const atTerminal = [0, 1, 2].some((fd) => isatty(fd));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (signal === "SIGTERM" || !atTerminal) {
      child.kill(signal);
    }
  });
}

child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  // Die of the same signal, so that a shell or an editor sees what happened.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // The signal may be one that does not end node, such as SIGPIPE.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 1000);
});
