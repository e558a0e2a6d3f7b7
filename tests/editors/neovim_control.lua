-- What a user may map to keys: the status of lspool, and a restart of the server, from within.
-- Prints one line of JSON. The command of the server is in $LSPOOL_COMMAND, words separated by newlines.

local changes = 0
vim.lsp.config("pyright", {
  cmd = vim.split(vim.env.LSPOOL_COMMAND, "\n"),
  filetypes = { "python" },
  root_markers = { "pyproject.toml" },
  init_options = { lspool = { didChangeStatus = true } },
  handlers = {
    ["lspool/didChangeStatus"] = function()
      changes = changes + 1
    end,
  },
})
vim.lsp.enable("pyright")

local results = {}

vim.cmd.edit("greeting.py")
vim.cmd.setfiletype("python")
local buffer = vim.api.nvim_get_current_buf()
local client
vim.wait(40000, function()
  client = vim.lsp.get_clients({ bufnr = buffer })[1]
  return client ~= nil and client.initialized
end, 20)

local function ask(method, params)
  local answer, problem = client:request_sync(method, params, 40000, buffer)
  if problem or answer.err then
    return { failed = problem or answer.err }
  end
  return answer.result
end

-- An edit that is not saved.
vim.api.nvim_buf_set_lines(buffer, 5, 5, false, { "    # not saved" })
results.commands = client.server_capabilities.executeCommandProvider.commands
results.before = ask("lspool/status", vim.empty_dict())
results.restart = ask("workspace/executeCommand", { command = "lspool.restart", arguments = { "pyright-langserver" } })
results.after = ask("workspace/executeCommand", { command = "lspool.pyright-langserver.status" })
results.unknown = ask("lspool/restart", { name = "ruff" })
-- The name is a line further down than on the disk.
results.hover = ask("textDocument/hover", {
  textDocument = vim.lsp.util.make_text_document_params(),
  position = { line = 8, character = 2 },
})
results.changes = changes
io.stdout:write(vim.json.encode(results), "\n")
vim.cmd.quitall({ bang = true })
