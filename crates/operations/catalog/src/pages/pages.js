// The pages of the catalog. They keep the password of the user in memory alone, and write what others chose as text, never as markup.
"use strict";

const main = document.getElementById("main");
const nav = document.getElementById("nav");
let authorization = null;

function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

function table(columns, rows) {
  return el("table", {}, el("thead", {}, el("tr", {}, columns.map((name) => el("th", {}, name)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))))));
}

function show(...children) {
  main.replaceChildren(...children.flat());
}

function complain(error) {
  const place = document.getElementById("error");
  place.textContent = error ? String(error.message || error) : "";
  place.hidden = !error;
}

async function ask(method, path, body) {
  const headers = { Authorization: authorization };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const reply = await fetch("rest" + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await reply.text();
  let told = null;
  try { told = text ? JSON.parse(text) : null; } catch { told = text; }
  if (!reply.ok) {
    const error = new Error((told && told.description) || reply.status + " " + reply.statusText);
    error.status = reply.status;
    throw error;
  }
  return told;
}

async function all(path) {
  const found = [];
  for (;;) {
    const page = await ask("GET", path + (path.includes("?") ? "&" : "?") + "limit=500&offset=" + found.length);
    found.push(...page.list);
    if (page.list.length < 500) return found;
  }
}

const PORTAL = "/api/am/devportal/v3";
const id = encodeURIComponent;

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

function logIn() {
  nav.hidden = true;
  const user = el("input", { id: "user", autocomplete: "username", required: true });
  const password = el("input", { id: "password", type: "password", autocomplete: "current-password", required: true });
  const submit = async (event) => {
    event.preventDefault();
    authorization = "Basic " + base64(user.value + ":" + password.value);
    try {
      await ask("GET", PORTAL + "/applications?limit=1");
    } catch (error) {
      // A publisher without the role of a developer sees the APIs.
      try {
        await ask("GET", "/api/am/publisher/v4/apis?limit=1");
      } catch {
        authorization = null;
        return complain(error);
      }
    }
    complain(null);
    document.getElementById("who").textContent = user.value;
    nav.hidden = false;
    await route();
  };
  show(el("h1", {}, "Catalog"), el("form", { id: "login", onsubmit: submit },
    el("label", {}, el("span", {}, "User"), user), el("label", {}, el("span", {}, "Password"), password),
    el("button", { type: "submit" }, "Log in")));
}

async function apis() {
  const found = await all(PORTAL + "/apis");
  const row = (api) => [el("a", { href: "#/apis/" + id(api.id) }, api.name), api.version, api.context, api.type, api.lifeCycleStatus,
    api.throttlingPolicies.join(", ")];
  show(el("h1", {}, "APIs"), found.length ? table(["Name", "Version", "Context", "Type", "State", "Plans"], found.map(row))
    : el("p", {}, "No API is published."));
}

async function api(key) {
  const one = await ask("GET", PORTAL + "/apis/" + id(key));
  const parts = [el("h1", {}, one.name, " ", el("small", {}, one.version)), el("p", {}, one.description || ""),
    el("p", {}, "Type " + one.type + ", state " + one.lifeCycleStatus + ", at ", el("code", {}, one.context)),
    el("h2", {}, "Plans"), await plans(one.throttlingPolicies)];
  parts.push(el("h2", {}, "Document"), await rendered(one));
  const applications = await all(PORTAL + "/applications").catch(() => null);
  if (applications) parts.push(...subscribing(one, applications), ...trying(one, applications));
  show(...parts);
}

async function plans(names) {
  const row = async (name) => {
    const one = await ask("GET", PORTAL + "/throttling-policies/subscription/" + id(name)).catch(() => null);
    const limit = one && one.unitTime ? one.requestCount + " requests in " + one.unitTime / 1000 + " s" : "no limit of requests";
    return [name, limit];
  };
  return table(["Plan", "Limit"], await Promise.all(names.map(row)));
}

async function rendered(one) {
  const base = PORTAL + "/apis/" + id(one.id);
  if (one.type === "SOAP") {
    const text = await ask("GET", base + "/wsdl").catch(() => null);
    return text ? el("details", {}, el("summary", {}, "WSDL"), el("pre", {}, String(text))) : el("p", {}, "No WSDL was imported.");
  }
  if (one.type === "HTTP") return operations(await ask("GET", base + "/swagger"));
  return channels(await ask("GET", base + "/asyncapi"));
}

function resolved(document, value) {
  if (!value || typeof value.$ref !== "string" || !value.$ref.startsWith("#/")) return value;
  let found = document;
  for (const part of value.$ref.slice(2).split("/")) {
    found = found && found[part.replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  return found || value;
}

function operations(document) {
  const verbs = ["get", "head", "post", "put", "patch", "delete", "options"];
  const made = [];
  for (const [path, item] of Object.entries(document.paths || {})) {
    for (const verb of verbs.filter((verb) => item[verb])) {
      const one = item[verb];
      const parameters = [...(item.parameters || []), ...(one.parameters || [])].map((each) => resolved(document, each));
      const body = resolved(document, one.requestBody);
      const scopes = one["x-scopes"] || [];
      made.push(el("details", { class: "operation" },
        el("summary", {}, el("span", { class: "verb" }, verb.toUpperCase()), el("code", {}, path), " ", one.summary || ""),
        one.description ? el("p", {}, one.description) : null,
        scopes.length ? el("p", {}, "Scopes: " + scopes.join(", ")) : null,
        parameters.length ? table(["Parameter", "In", "Required", "Type"], parameters.map((each) => [each.name || "", each.in || "",
          each.required ? "yes" : "", kind(document, each.schema)])) : null,
        body && body.content ? Object.entries(body.content).map(([type, content]) => el("div", {}, el("p", {}, "Body: " + type),
          el("pre", {}, JSON.stringify(resolved(document, content.schema) || {}, null, 2)))) : null,
        table(["Reply", ""], Object.entries(one.responses || {}).map(([status, reply]) =>
          [status, (resolved(document, reply) || {}).description || ""]))));
    }
  }
  return el("div", { id: "document" }, made);
}

function kind(document, schema) {
  const one = resolved(document, schema) || {};
  return [one.type || "", one.format ? "(" + one.format + ")" : "", one.enum ? one.enum.join(" | ") : ""].filter(Boolean).join(" ");
}

function channels(document) {
  const made = [];
  for (const [name, channel] of Object.entries(document.channels || {})) {
    const ways = ["subscribe", "publish"].filter((way) => channel[way]);
    made.push(el("details", { class: "operation" },
      el("summary", {}, el("span", { class: "verb" }, ways.join(" ").toUpperCase() || "CHANNEL"), el("code", {}, channel.address || name)),
      el("pre", {}, JSON.stringify(channel, null, 2))));
  }
  for (const [name, one] of Object.entries(document.operations || {})) {
    made.push(el("details", {}, el("summary", {}, el("span", { class: "verb" }, String(one.action || "").toUpperCase()), name),
      el("pre", {}, JSON.stringify(one, null, 2))));
  }
  return el("div", { id: "document" }, made);
}

function choice(name, options) {
  return el("select", { id: name }, options.map(([value, label]) => el("option", { value }, label)));
}

function field(label, input) {
  return el("label", {}, el("span", {}, label), input);
}

function subscribing(one, applications) {
  if (!one.isSubscriptionAvailable) return [];
  const application = choice("subscriber", applications.map((each) => [each.applicationId, each.name]));
  const plan = choice("plan", one.throttlingPolicies.map((name) => [name, name]));
  const told = el("p", { id: "subscribed" });
  const submit = act(async () => {
    const made = await ask("POST", PORTAL + "/subscriptions",
      { apiId: one.id, applicationId: application.value, throttlingPolicy: plan.value });
    told.textContent = "Subscribed on the plan " + made.throttlingPolicy + ".";
  });
  return [el("h2", {}, "Subscribe"), applications.length ? el("form", { id: "subscribe", onsubmit: submit }, field("Application", application),
    field("Plan", plan), el("button", { type: "submit" }, "Subscribe"), told)
    : el("p", {}, "You have no application yet: ", el("a", { href: "#/applications" }, "create one"), ".")];
}

function act(work) {
  return async (event) => {
    if (event) event.preventDefault();
    try {
      complain(null);
      await work(event);
    } catch (error) {
      complain(error);
    }
  };
}

function quoted(text) {
  return "'" + text.replaceAll("'", "'\\''") + "'";
}

function trying(one, applications) {
  const streams = { SSE: ["GET"], WS: ["GET"], WEBSUB: ["GET", "POST"] };
  const method = choice("method", (streams[one.type] || ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]).map((name) => [name, name]));
  const path = el("input", { id: "path", size: 60, value: one.context + "/" });
  const token = el("input", { id: "token", size: 60 });
  const headers = el("textarea", { id: "headers", rows: 3, placeholder: "name: value" });
  const body = el("textarea", { id: "body", rows: 4 });
  const application = choice("tokenOf", applications.map((each) => [each.applicationId, each.name]));
  const request = el("pre", { id: "request" });
  const reply = el("pre", { id: "reply" });
  const lines = () => {
    const written = headers.value.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
      const at = line.indexOf(":");
      return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
    return token.value ? [["Authorization", "Bearer " + token.value], ...written] : written;
  };
  const preview = () => {
    const parts = ["curl -i -X " + method.value, ...lines().map(([name, value]) => "-H " + quoted(name + ": " + value))];
    if (body.value) parts.push("--data-binary " + quoted(body.value));
    request.textContent = parts.join(" \\\n  ") + " \\\n  " + quoted("http://GATEWAY" + path.value);
  };
  const get = act(async () => {
    const made = await ask("POST", PORTAL + "/applications/" + id(application.value) + "/keys/PRODUCTION/generate-token",
      { scopes: (one.operations || []).flatMap((each) => each.scopes || []) });
    token.value = made.accessToken;
    preview();
  });
  const submit = act(async () => {
    reply.textContent = "";
    const told = await ask("POST", "/try", { apiId: one.id, method: method.value, path: path.value, headers: lines(), body: body.value });
    request.textContent = told.request;
    reply.textContent = told.status + "\n" + told.headers.map(([name, value]) => name + ": " + value).join("\n") + "\n\n" + told.body;
  });
  for (const input of [method, path, token, headers, body]) input.addEventListener("input", preview);
  preview();
  return [el("h2", {}, "Try it"), el("form", { id: "try", onsubmit: submit }, field("Method", method), field("Path", path),
    field("Token", token), applications.length ? el("p", {}, application, " ",
      el("button", { type: "button", id: "getToken", onclick: get }, "Get a token")) : null,
    field("Headers", headers), field("Body", body), el("button", { type: "submit" }, "Send")),
    el("h3", {}, "Request"), request, el("h3", {}, "Reply"), reply];
}

async function applications() {
  const found = await all(PORTAL + "/applications");
  const policies = await all(PORTAL + "/throttling-policies/application");
  const name = el("input", { id: "name", required: true, maxlength: 70 });
  const plan = choice("applicationPlan", policies.map((each) => [each.name, each.name]));
  plan.value = "Unlimited";
  const submit = act(async () => {
    await ask("POST", PORTAL + "/applications", { name: name.value, throttlingPolicy: plan.value });
    await applications();
  });
  show(el("h1", {}, "Applications"), table(["Name", "Plan", "Owner", "Subscriptions"], found.map((one) =>
    [el("a", { href: "#/applications/" + id(one.applicationId) }, one.name), one.throttlingPolicy, one.owner, String(one.subscriptionCount)])),
    el("h2", {}, "New application"), el("form", { id: "create", onsubmit: submit }, field("Name", name), field("Plan", plan),
      el("button", { type: "submit" }, "Create")));
}

async function application(key) {
  const at = PORTAL + "/applications/" + id(key);
  const one = await ask("GET", at);
  const keys = (await ask("GET", at + "/keys")).list;
  const subscriptions = await all(PORTAL + "/subscriptions?applicationId=" + id(key));
  const secret = el("div", { id: "secret" });
  const once = (title, lines) => secret.replaceChildren(el("div", { class: "secret" }, el("strong", {}, title),
    el("p", {}, "This is shown once."), el("pre", {}, lines.join("\n"))));
  const again = (work) => act(async () => {
    const lines = await work();
    await application(key);
    if (lines) document.getElementById("secret").replaceWith(secret);
  });
  const generate = (type) => again(async () => {
    const made = await ask("POST", at + "/generate-keys", { keyType: type, grantTypesToBeSupported: ["client_credentials"] });
    once("Keys", ["consumer key    " + made.consumerKey, "consumer secret " + made.consumerSecret]);
    return true;
  });
  const regenerate = (type) => again(async () => {
    const made = await ask("POST", at + "/keys/" + type + "/regenerate-secret", {});
    once("New secret", ["consumer key    " + made.consumerKey, "consumer secret " + made.consumerSecret]);
    return true;
  });
  const apiKey = (type) => again(async () => {
    const made = await ask("POST", at + "/api-keys/" + type + "/generate", { validityPeriod: 86400 });
    once("API key for a day", [made.apikey]);
    return true;
  });
  const row = (type) => {
    const known = keys.find((each) => each.keyType === type);
    const buttons = [known ? el("button", { onclick: regenerate(type) }, "New secret")
      : el("button", { id: "generate" + type, onclick: generate(type) }, "Generate keys"), " ",
      el("button", { onclick: apiKey(type) }, "API key")];
    return [type, known ? known.consumerKey : "", known ? known.supportedGrantTypes.join(", ") : "", el("span", {}, buttons)];
  };
  const remove = act(async () => {
    if (!confirm("Delete the application " + one.name + " with its keys and subscriptions?")) return;
    await ask("DELETE", at);
    location.hash = "#/applications";
  });
  const leave = (each) => again(async () => void await ask("DELETE", PORTAL + "/subscriptions/" + id(each.subscriptionId)));
  show(el("h1", {}, one.name), el("p", {}, one.description || ""), el("p", {}, "Plan " + one.throttlingPolicy + ", owner " + one.owner),
    el("h2", {}, "Keys"), secret, table(["Type", "Consumer key", "Grants", ""], ["PRODUCTION", "SANDBOX"].map(row)),
    el("h2", {}, "Subscriptions"), table(["API", "Plan", "State", ""], subscriptions.map((each) =>
      [each.apiInfo ? each.apiInfo.name + " " + each.apiInfo.version : each.apiId, each.throttlingPolicy, each.status,
        el("button", { onclick: leave(each) }, "Unsubscribe")])),
    el("p", {}, el("button", { onclick: remove }, "Delete the application")));
}

async function route() {
  if (!authorization) return logIn();
  const [, what, key] = location.hash.split("/");
  try {
    complain(null);
    if (what === "applications") await (key ? application(decodeURIComponent(key)) : applications());
    else await (key ? api(decodeURIComponent(key)) : apis());
  } catch (error) {
    complain(error);
  }
}

window.addEventListener("hashchange", route);
route();
