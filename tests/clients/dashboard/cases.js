// What operators do with the dashboard, in Chromium. `tests/dashboard.rs` starts the gateway and says which case to run.

import assert from 'node:assert/strict';
import { Browser } from './browser.js';

const { ADMIN: admin, GATEWAY: gateway, CHROMIUM: chromium, PICTURES: pictures } = process.env;
const WRITER = 'writer-token';
const READER = 'reader-token';

const PAGES = ['/', '/routes', '/routes/all', '/streams', '/upstreams', '/refusals', '/tail', '/trace', '/flows', '/flows/send', '/queues', '/queues/work',
  '/hubs', '/hubs/news', '/schedules', '/configuration', '/history', '/history/1', '/certificates', '/memory'];

const CONTROLS = ['Set', 'Drain', 'Use again', 'Pause', 'Resume', 'Retry', 'Remove', 'Retry all dead', 'Remove all dead', 'Run now', 'Check', 'Compare', 'Apply',
  'Roll back', 'Trace'];

async function signIn(browser, token) {
  await browser.open(`${admin}/`);
  await browser.fill('Operator token', token);
  await browser.click('Sign in');
  await browser.until('document.querySelector("nav a") !== null');
  // The page learned by a refusal that it needs a token.
  browser.complaints = [];
}

async function go(browser, path) {
  await browser.value(`location.hash = ${JSON.stringify(path)}`);
  await browser.until(`document.getElementById('state').textContent.startsWith('as of') && document.querySelector('main h1') !== null`, `the page ${path}`);
}

async function picture(browser, name) {
  if (pictures) await browser.picture(`${pictures}/${name}.png`);
}

const api = (method, path, body) => fetch(`${admin}${path}`, { method, body, headers: { Authorization: `Bearer ${WRITER}` } });

const json = async (path) => (await api('GET', path)).json();

const CASES = {
  // The page comes without a token, asks for one, and takes no wrong one.
  async sign_in(browser) {
    await browser.open(`${admin}/`);
    await browser.shows('Sign in');
    assert.equal(await browser.value('document.activeElement.type'), 'password');
    await picture(browser, 'sign-in');
    await browser.fill('Operator token', 'wrong');
    await browser.click('Sign in');
    await browser.shows('does not know this token');
    await browser.fill('Operator token', WRITER);
    await browser.key('Enter');
    await browser.shows('Requests a second');
    await browser.shows('ann');
    assert.equal(await browser.value('sessionStorage.getItem("tidegate-token")'), WRITER);
    assert.equal(await browser.value('Object.values({ ...localStorage }).includes("writer-token") || document.cookie'), '');
    await browser.click('Sign out');
    await browser.shows('Sign in');
    assert.equal(await browser.value('sessionStorage.getItem("tidegate-token")'), null);
    // The refusals above are not faults of the page.
    browser.complaints = browser.complaints.filter((one) => !one.includes('401'));
  },

  // Each page shows what it is for, in both colours and on a phone, names what it has, and needs nothing from outside.
  async pages(browser) {
    await signIn(browser, WRITER);
    for (const path of PAGES) {
      await go(browser, path);
      await named(browser, path);
    }
    for (const [name, width, scheme] of [['light', 1280, 'light'], ['dark', 1280, 'dark'], ['phone', 360, 'light']]) {
      await browser.size(width, 800, width < 500);
      await browser.colours(scheme);
      for (const path of PAGES) {
        await go(browser, path);
        const wide = await browser.value('document.scrollingElement.scrollWidth');
        assert.ok(wide <= width, `${path} is ${wide} wide on ${width}`);
        await contrast(browser, `${name} ${path}`);
        await picture(browser, `${name}${path.replaceAll('/', '-')}`);
      }
    }
  },

  // Operators who may only read see all pages and no control.
  async reader(browser) {
    await signIn(browser, READER);
    await browser.shows('bob (read only)');
    for (const path of PAGES) {
      await go(browser, path);
      const buttons = await browser.value(`[...document.querySelectorAll('main button')].map((one) => one.innerText.trim())`);
      assert.deepEqual(buttons.filter((text) => CONTROLS.includes(text)), [], path);
      assert.equal(await browser.value(`document.querySelectorAll('main textarea, main input[type=file], main .danger').length`), 0, path);
    }
    await go(browser, '/queues/work');
    await browser.click('View 1');
    await browser.shows('Not shown: that needs the role write.');
  },

  // Weights and drains of targets.
  async upstreams(browser) {
    await signIn(browser, WRITER);
    await go(browser, '/upstreams');
    const target = async () => (await json('/upstreams')).find((one) => one.name === 'origin').targets[0];
    const { url } = await target();
    await browser.fill(`Weight of origin ${url}`, '7');
    await browser.click(`Set the weight of origin ${url}`);
    await browser.shows('7 (configured 1)');
    assert.equal((await target()).weight, 7);
    await browser.click(`Drain origin ${url}`);
    await browser.shows('drained');
    assert.equal((await target()).drain, true);
    await browser.click(`Use origin ${url} again`);
    await browser.until(`!document.querySelector('table').innerText.includes('drained')`);
    await browser.shows('Connection refused');
  },

  // Dead messages: view, retry, remove.
  async dead(browser) {
    await signIn(browser, WRITER);
    await go(browser, '/queues/work');
    await browser.click('View 1');
    await browser.shows('the first message');
    await browser.shows('Attempts');
    await picture(browser, 'dead-message');
    await browser.click('Retry 1');
    // It fails again, and is dead under another number.
    await browser.until(`!document.querySelector('main').innerText.includes('the first message')`);
    await browser.click('Remove 2');
    await browser.shows('It cannot be brought back.');
    await browser.key('Escape');
    await browser.until(`document.querySelector('dialog') === null`);
    assert.ok((await json('/queues/work/dead')).dead.some((one) => one.id === '2'));
    await browser.click('Remove 2');
    await browser.click('Remove it');
    await browser.shows('2 is removed.');
    assert.ok((await json('/queues/work/dead')).dead.every((one) => one.id !== '2'));
    await browser.click('Pause work');
    await browser.shows('paused');
    assert.equal((await json('/queues/work')).paused, true);
  },

  // A change with complaints, its differences, its way into service, and back.
  async configuration(browser) {
    await signIn(browser, WRITER);
    await go(browser, '/configuration');
    const text = await browser.until(`document.querySelector('textarea')?.value`);
    assert.ok(!text.includes('reader-token') && text.includes('***'));
    await browser.fill('Text', text.replace('status: 201', 'stat: 201'));
    await browser.click('Check');
    await browser.shows('stat');
    await browser.until(`[...document.querySelectorAll('main code')].some((one) => /:\\d+:\\d+$/.test(one.innerText))`, 'a place');
    await picture(browser, 'complaints');
    await browser.fill('Text', text.replace('status: 201', 'status: 202'));
    await browser.click('Compare');
    await browser.shows('routes.fixed.respond.status');
    await browser.click('Apply');
    await browser.until(`document.querySelector('dialog') !== null`);
    await browser.value(`[...document.querySelectorAll('dialog button')].find((one) => one.value === 'yes').click()`);
    await browser.shows('is in service.');
    assert.equal((await fetch(`${gateway}/fixed`)).status, 202);
    await picture(browser, 'applied');
    // Somebody else changes it meanwhile.
    const now = await (await api('GET', '/config')).text();
    assert.equal((await api('PUT', '/config', now.replace('status: 202', 'status: 203'))).status, 200);
    await browser.fill('Text', text.replace('status: 201', 'status: 204'));
    await browser.click('Apply');
    await browser.until(`document.querySelector('dialog') !== null`);
    await browser.value(`[...document.querySelectorAll('dialog button')].find((one) => one.value === 'yes').click()`);
    await browser.shows('Somebody else has changed the configuration');
    assert.equal((await fetch(`${gateway}/fixed`)).status, 203);
    await go(browser, '/history');
    await browser.click('Roll back to 1');
    await browser.shows('It differs in 1 place from');
    await browser.value(`[...document.querySelectorAll('dialog button')].find((one) => one.value === 'yes').click()`);
    await browser.shows('Generation 4 is in service.');
    assert.equal((await fetch(`${gateway}/fixed`)).status, 201);
    await picture(browser, 'history-after');
    browser.complaints = browser.complaints.filter((one) => !one.includes('422') && !one.includes('412'));
  },

  // What passes is on the tail, what is refused among the refusals, and a message that was asked for is there step by step.
  async exchanges(browser) {
    await signIn(browser, WRITER);
    await go(browser, '/tail');
    await browser.until(`performance.getEntriesByType('resource').some((one) => one.name.includes('/tail?after='))`, 'a look');
    await fetch(`${gateway}/fixed?password=hidden`);
    await browser.shows('/fixed?password=***');
    await fetch(`${gateway}/guarded`);
    await go(browser, '/refusals');
    await browser.shows('api_key');
    await go(browser, '/trace');
    await browser.fill('Route', 'all');
    await browser.value(`[...document.querySelectorAll('main button')].find((one) => one.innerText === 'Trace').click()`);
    await browser.shows('Waiting for 1 more message');
    await fetch(`${gateway}/in/traced`, { method: 'POST', body: 'traced body' });
    await browser.until(`document.querySelector('details.trace') !== null`);
    await browser.value(`document.querySelectorAll('details.trace, details.trace details').forEach((one) => { one.open = true; })`);
    await browser.shows('traced body');
    await picture(browser, 'traced');
    await go(browser, '/routes');
    await browser.shows('<script>alert(1)</script>');
    await browser.fill('Filter', 'guard');
    await browser.until(`document.querySelectorAll('tbody tr').length === 1`);
  },

  // All of it by keyboard.
  async keyboard(browser) {
    await signIn(browser, WRITER);
    await browser.open('about:blank');
    await browser.open(`${admin}/#/upstreams`);
    await browser.until(`document.querySelector('tbody tr') !== null`);
    await browser.key('Tab');
    assert.equal(await browser.value('document.activeElement.innerText'), 'Skip to the content');
    await browser.key('Enter');
    assert.equal(await browser.value('document.activeElement.id'), 'main');
    const reached = new Set();
    for (let at = 0; at < 60; at += 1) {
      await browser.key('Tab');
      reached.add(await browser.value('(document.activeElement.getAttribute("aria-label") || document.activeElement.innerText || document.activeElement.type).trim()'));
    }
    for (const name of ['Target', 'State']) assert.ok(reached.has(name), `${name} in ${[...reached]}`);
    assert.ok([...reached].some((one) => one.startsWith('Drain ')), [...reached].join());
  },

  // Prints how long the first paint of the routes takes.
  async paint(browser) {
    await signIn(browser, WRITER);
    await browser.open('about:blank');
    await browser.open(`${admin}/#/routes`);
    await browser.until(`document.querySelectorAll('tbody tr').length >= 500`);
    const told = await browser.value(`(async () => {
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      return { paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime, all: performance.now() };
    })()`);
    console.log(`first paint ${Math.round(told.paint)} ms, all routes at most ${Math.round(told.all)} ms`);
    assert.ok(await browser.value(`document.querySelectorAll('tbody tr').length`) >= 500);
  },
};

// Every control and picture has a name, there is one first heading, and no id is there twice.
async function named(browser, path) {
  const unnamed = await browser.value(`[...document.querySelectorAll('input, textarea, select, button, a, img, svg')].filter((one) => {
    const labels = one.labels && one.labels.length > 0;
    return !(labels || one.getAttribute('aria-label') || one.hasAttribute('alt') || one.innerText?.trim() || !one.checkVisibility());
  }).map((one) => one.outerHTML)`);
  assert.deepEqual(unnamed, [], path);
  assert.equal(await browser.value(`document.querySelectorAll('h1').length`), 1, path);
  const twice = await browser.value(`[...document.querySelectorAll('[id]')].map((one) => one.id).filter((id, at, all) => all.indexOf(id) !== at)`);
  assert.deepEqual(twice, [], path);
}

// Text is readable: at least 4.5 to 1 (WCAG 1.4.3).
async function contrast(browser, what) {
  const poor = await browser.value(`(() => {
    const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = (colour) => {
      const [r, g, b] = numbers(colour).map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (one) => {
      for (let at = one; at; at = at.parentElement) {
        const paper = getComputedStyle(at).backgroundColor;
        const alpha = numbers(paper)[3];
        if (alpha === undefined || alpha === 1) return paper;
      }
      return 'rgb(255, 255, 255)';
    };
    const texts = [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() && [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
    return texts.map((one) => {
      const [a, b] = [light(getComputedStyle(one)[one instanceof SVGElement ? 'fill' : 'color']), light(behind(one))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), one.textContent.slice(0, 40)];
    }).filter(([ratio]) => ratio < 4.5);
  })()`);
  assert.deepEqual(poor, [], what);
}

const browser = await Browser.start(chromium);
try {
  await browser.size(1280, 800);
  await CASES[process.argv[2]](browser);
  assert.deepEqual(browser.complaints, []);
} catch (error) {
  if (pictures) await browser.picture(`${pictures}/failed-${process.argv[2]}.png`).catch(() => {});
  console.error(error.message, browser.complaints.join('\n'));
  process.exitCode = 1;
} finally {
  await browser.end();
}
