// The shell: sign-in, navigation, the page for the address, and its refresh.

import { get, hasToken, onUnknown, setToken } from './api.js';
import { field, h, notice, replace } from './dom.js';
import { GROUPS, pageAt } from './pages.js';

const main = document.getElementById('main');
const nav = document.getElementById('nav');
const menu = document.getElementById('menu');
const leave = document.getElementById('leave');

// The page that is open, and what ends its work.
let open = null;
// What the token may do, and what there is: `{ name, role, catalog }`.
let operator = null;
// True once a page was shown: later ones take the focus, so that screen readers begin there.
let is_begun = false;

onUnknown(() => signIn(hasToken() ? 'The gateway does not know this token, or it has expired.' : ''));

async function start() {
  dressTheme();
  document.getElementById('skip').addEventListener('click', () => main.focus());
  menu.addEventListener('click', () => showMenu(menu.getAttribute('aria-expanded') !== 'true'));
  leave.addEventListener('click', () => {
    setToken(null);
    signIn('');
  });
  window.addEventListener('hashchange', go);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && open) open.refresh();
  });
  await enter();
}

async function enter() {
  try {
    operator = await get('/operator');
  } catch (error) {
    // Without a token the sign-in is there already.
    if (error.status !== 401) failed(error);
    return;
  }
  leave.hidden = !hasToken();
  const role = operator.role === 'write' ? '' : ' (read only)';
  document.getElementById('operator').textContent = `${operator.name || 'operator'}${role}`;
  const list = (title, links) => h('div', {}, h('h2', {}, title),
    h('ul', {}, links.map((link) => h('li', {}, h('a', { href: link.href }, link.title)))));
  replace(nav, [
    ...GROUPS.map((group) => list(group.title, group.pages.map((page) => ({ href: `#${page.path}`, title: page.title })))),
    // Those pages ask for a user of the catalog.
    ...(operator.catalog ? [list('Catalog', [{ href: '/catalog/', title: 'APIs and applications' }])] : []),
  ]);
  go();
}

function signIn(why) {
  if (open) open.end();
  open = null;
  operator = null;
  leave.hidden = true;
  document.getElementById('operator').textContent = '';
  document.getElementById('state').textContent = '';
  nav.replaceChildren();
  const token = h('input', { type: 'password', autocomplete: 'current-password', required: true, spellcheck: 'false' });
  const submit = async (event) => {
    event.preventDefault();
    setToken(token.value.trim());
    await enter();
  };
  const form = h('form', { class: 'sign-in', on: { submit } },
    h('h1', {}, 'Sign in'),
    field('Operator token', token, 'One of admin.users. It is kept in this tab until you close it.'),
    why && h('p', { class: 'notice bad', role: 'alert' }, why),
    h('button', { type: 'submit', class: 'main' }, 'Sign in'));
  replace(main, form);
  document.title = 'Sign in - Tidegate';
  token.focus();
}

function go() {
  if (!operator) return;
  showMenu(false);
  if (open) open.end();
  const address = location.hash.replace(/^#/, '') || '/';
  const { page, parts } = pageAt(address);
  for (const link of nav.querySelectorAll('a')) {
    if (link.getAttribute('href') === `#${page.path}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.title = `${page.title} - Tidegate`;
  open = run(page, parts);
}

// Shows a page and refreshes it while its tab is visible.
function run(page, parts) {
  const ended = new AbortController();
  const { signal } = ended;
  const content = h('div', {});
  const heading = h('h1', { tabindex: -1 }, [page.title, ...parts].join(' / '));
  replace(main, heading, content);
  if (is_begun) heading.focus({ preventScroll: true });
  is_begun = true;
  window.scrollTo(0, 0);
  const may = operator.role === 'write';
  let timer = null;
  let update = null;
  let is_busy = false;
  const refresh = async () => {
    clearTimeout(timer);
    if (signal.aborted || document.hidden || is_busy) return;
    is_busy = true;
    try {
      update ||= page.show({ content, parts, may, signal, refresh: () => refresh() });
      await update(signal);
      told(null);
    } catch (error) {
      if (!signal.aborted) told(error);
    } finally {
      is_busy = false;
    }
    if (!signal.aborted && page.every) timer = setTimeout(refresh, page.every * 1000);
  };
  const problem = h('p', { class: 'notice bad', role: 'alert', hidden: true });
  heading.after(problem);
  const told = (error) => {
    problem.hidden = !error;
    problem.textContent = error ? error.message : '';
    document.getElementById('state').textContent = error ? 'not current' : `as of ${new Date().toLocaleTimeString('en-GB')}`;
  };
  refresh();
  const end = () => {
    clearTimeout(timer);
    ended.abort();
  };
  return { refresh, end };
}

function failed(error) {
  replace(main, h('h1', {}, 'Tidegate'), h('p', { class: 'notice bad', role: 'alert' }, error.message));
  notice('Trying again in 5 seconds.', 'bad');
  setTimeout(enter, 5000);
}

function showMenu(is_shown) {
  menu.setAttribute('aria-expanded', is_shown);
  nav.classList.toggle('shown', is_shown);
}

// The system's colours, or those that the operator chose.
function dressTheme() {
  const themes = ['system', 'light', 'dark'];
  const choice = document.getElementById('theme');
  const wear = (theme) => {
    if (theme === 'system') document.documentElement.removeAttribute('data-theme');
    else document.documentElement.setAttribute('data-theme', theme);
    choice.textContent = `Colours: ${theme}`;
  };
  let theme = themes.includes(localStorage.getItem('tidegate-theme')) ? localStorage.getItem('tidegate-theme') : 'system';
  wear(theme);
  choice.addEventListener('click', () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    localStorage.setItem('tidegate-theme', theme);
    wear(theme);
  });
}

start();
