#!/bin/sh
# Starts both programs of lspmux, so that `scripts/bench --peer` can measure them (docs/performance.md).
# Set `listen` and `connect` in `~/.config/lspmux/config.toml` to `/tmp/lspmux`. Only rows in which the editor reads can
# be measured: `--only 'round trip'`.
lspmux server >/dev/null 2>&1 & mux=$!
trap 'kill $mux' EXIT
while [ ! -S /tmp/lspmux ]; do sleep 0.02; done
server=$1; shift
lspmux client --server-path "$server" -- "$@"
