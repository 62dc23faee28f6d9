// The admin API: requests with the operator's token, and its errors as sentences.

const TOKEN = 'tidegate-token';

// Called where a token is missing, wrong or expired.
let unknown = () => {};

export function onUnknown(listener) {
  unknown = listener;
}

// The token is kept for this tab alone, and only until it is closed.
export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

export class Refused extends Error {
  constructor(status, problem) {
    super((problem && problem.detail) || `The gateway answered ${status}.`);
    this.status = status;
    this.problem = problem || {};
  }
}

// Sends a request and returns the response; anything but success is an error with its reason.
export async function send(method, path, { body, headers = {}, signal } = {}) {
  const lines = { ...headers };
  const token = sessionStorage.getItem(TOKEN);
  if (token) lines.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { method, body, headers: lines, signal, cache: 'no-store', credentials: 'same-origin' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The gateway does not answer.');
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => null);
  if (response.status === 401) unknown();
  throw new Refused(response.status, problem);
}

export async function get(path, signal) {
  return (await send('GET', path, { signal })).json();
}

// Sends JSON, or nothing, and returns the JSON of the answer, or nothing.
export async function act(method, path, json) {
  const body = json === undefined ? undefined : JSON.stringify(json);
  const headers = json === undefined ? {} : { 'Content-Type': 'application/json' };
  const response = await send(method, path, { body, headers });
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

// Names as one part of a path.
export function path(...parts) {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join('');
}
