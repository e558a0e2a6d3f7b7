-- What a user does behind TypeScript, ESLint and Tailwind in a component: looks at the marks, completes a type and a class,
-- types many classes, and hovers one. Prints one line of JSON. The command is in $LSPOOL_COMMAND.

vim.lsp.config("web", {
  cmd = vim.split(vim.env.LSPOOL_COMMAND, "\n"),
  filetypes = { "javascriptreact" },
  root_markers = { "tsconfig.json" },
})
vim.lsp.enable("web")

local results = { messages = {} }
vim.notify = function(text)
  table.insert(results.messages, text)
end

local function wait(what, condition)
  if not results.failed and not vim.wait(60000, condition, 50) then
    results.failed = what
  end
end

vim.cmd.edit("box.jsx")
vim.cmd.setfiletype("javascriptreact")
local buffer = vim.api.nvim_get_current_buf()

local function sources(words)
  local found = {}
  for _, it in ipairs(vim.diagnostic.get(buffer)) do
    if it.message:find(words, 1, true) then
      table.insert(found, { source = it.source, line = it.lnum, column = it.col })
    end
  end
  return found
end

wait("both linters", function()
  return #sources("missing") > 0 and #sources("unused") > 0
end)
results.missing, results.unused = sources("missing"), sources("unused")

-- Just behind these words: the line, the column in bytes, and the request for the place.
local function behind(words)
  for n, line in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, -1, false)) do
    local _, stop = line:find(words, 1, true)
    if stop then
      local character = vim.str_utfindex(line, "utf-16", stop)
      return n - 1, stop, { textDocument = vim.lsp.util.make_text_document_params(), position = { line = n - 1, character = character } }
    end
  end
end

local function ask(method, words, more)
  local _, _, params = behind(words)
  params.context = more
  local answers = vim.lsp.buf_request_sync(buffer, method, params, 60000) or {}
  for _, answer in pairs(answers) do
    return answer.result
  end
end

-- What is offered behind these words, once a label is among it.
local function completed(words, label)
  local labels = {}
  wait("completion of " .. label, function()
    local list = ask("textDocument/completion", words, { triggerKind = 1 }) or {}
    labels = {}
    for _, it in ipairs(list.items or list) do
      labels[it.label] = true
    end
    return labels[label]
  end)
  return labels
end

local classes, types = completed("flex p-", "p-4"), completed("title={Str", "String")
results.mixed = { classes.String or false, types["p-4"] or false }

-- Edits, of which Tailwind gets whole texts.
for _ = 1, 40 do
  -- Each letter comes in front of the one before.
  for letter in ("grid "):reverse():gmatch(".") do
    local line, column = behind('className="')
    vim.api.nvim_buf_set_text(buffer, line, column, line, column, { letter })
  end
end
local hover
wait("hover of a class", function()
  hover = vim.inspect((ask("textDocument/hover", "fle") or {}).contents)
  return hover:find("display: flex", 1, true) ~= nil
end)
results.hover = hover
results.clients = #vim.lsp.get_clients({ bufnr = buffer })
io.stdout:write(vim.json.encode(results), "\n")
vim.cmd.quitall({ bang = true })
