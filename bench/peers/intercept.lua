-- Choreo Connect's contract of interceptors in Envoy: headers and body are told to the service as JSON, and its headers are set.
local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(c) return ESCAPES[c] or string.format("\\u%04x", c:byte()) end) .. '"'
end
local function members(text, name)
  local object = text:match('"' .. name .. '"%s*:%s*(%b{})')
  if not object then return function() end end
  return object:gmatch('"([^"\\]+)"%s*:%s*"([^"\\]*)"')
end
local function failed(handle, code)
  local body = '{"error_message":"Internal Server Error","error_description":"the interceptor failed","code":"' .. code .. '"}'
  handle:respond({ [":status"] = "500", ["content-type"] = "application/json" }, body)
end
function envoy_on_request(handle)
  local body, told = handle:body(), ""
  if body then told = handle:base64Escape(body:getBytes(0, body:length())) end
  local lines = {}
  for name, value in pairs(handle:headers()) do
    if name:sub(1, 1) ~= ":" then lines[#lines + 1] = quoted(name) .. ":" .. quoted(value) end
  end
  local call = '{"requestHeaders":{' .. table.concat(lines, ",") .. '},"requestBody":"' .. told .. '"}'
  local head, answer = handle:httpCall("CLUSTER", {
    [":method"] = "POST", [":path"] = "/api/v1/handle-request", [":authority"] = "interceptor", ["content-type"] = "application/json",
  }, call, 2000)
  local status = head[":status"]
  if status == "204" then return end
  if status ~= "200" or not answer then return failed(handle, "103500") end
  -- What a load test does not need is refused, never passed over.
  if answer:find('"directRespond"%s*:%s*true') or answer:find('"body"%s*:') then return failed(handle, "103501") end
  local removed = answer:match('"headersToRemove"%s*:%s*%[(.-)%]') or ""
  for name in removed:gmatch('"([^"]+)"') do handle:headers():remove(name) end
  for name, value in members(answer, "headersToReplace") do handle:headers():replace(name, value) end
  for name, value in members(answer, "headersToAdd") do handle:headers():add(name, value) end
end
