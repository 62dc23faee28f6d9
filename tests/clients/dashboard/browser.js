// Chromium over its debugging protocol, as far as the cases need it.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import WebSocket from 'ws';

const PATIENCE = 20000;

const ARGUMENTS = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--no-proxy-server',
  '--disable-background-networking', '--hide-scrollbars', '--remote-debugging-port=0'];

export class Browser {
  // What the page complained of: exceptions, refused scripts and styles, requests that failed.
  complaints = [];

  static async start(program) {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), 'chromium-'));
    browser.process = spawn(program, [...ARGUMENTS, `--user-data-dir=${browser.profile}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'pipe'] });
    const address = await new Promise((resolve, reject) => {
      let said = '';
      browser.process.stderr.on('data', (data) => {
        said += data;
        const found = /DevTools listening on (ws:\S+)/.exec(said);
        if (found) resolve(found[1]);
      });
      browser.process.on('exit', () => reject(new Error(`Chromium ended: ${said}`)));
    });
    const list = await (await fetch(`http://${new URL(address).host}/json/list`)).json();
    await browser.connect(list.find((one) => one.type === 'page').webSocketDebuggerUrl);
    return browser;
  }

  async connect(address) {
    this.socket = new WebSocket(address, { maxPayload: 64 << 20 });
    this.waiting = new Map();
    this.last = 0;
    await new Promise((resolve) => this.socket.on('open', resolve));
    this.socket.on('message', (data) => this.hear(JSON.parse(data)));
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await this.command(`${domain}.enable`);
  }

  hear(message) {
    const { id, error, result, method, params } = message;
    if (id) {
      const { resolve, reject } = this.waiting.get(id);
      this.waiting.delete(id);
      if (error) reject(new Error(error.message));
      else resolve(result);
    } else if (method === 'Runtime.exceptionThrown') {
      this.complaints.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
    } else if (method === 'Log.entryAdded' && params.entry.level === 'error') {
      this.complaints.push(`${params.entry.text} ${params.entry.url || ''}`);
    }
  }

  command(method, params = {}) {
    this.last += 1;
    const id = this.last;
    this.socket.send(JSON.stringify({ id, method, params }));
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  // The value of an expression in the page.
  async value(expression) {
    const told = await this.command('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (told.exceptionDetails) throw new Error(`${expression}: ${told.exceptionDetails.exception?.description}`);
    return told.result.value;
  }

  // Waits until an expression in the page is true.
  async until(expression, what = expression) {
    const end = Date.now() + PATIENCE;
    for (;;) {
      const value = await this.value(expression).catch(() => null);
      if (value) return value;
      if (Date.now() > end) throw new Error(`not in time: ${what}\n${await this.value('document.body.innerText')}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  // Waits until the page shows a text.
  async shows(text) {
    await this.until(`document.body.innerText.includes(${JSON.stringify(text)})`, `the text ${text}`);
  }

  async open(url) {
    await this.command('Page.navigate', { url });
    await this.until('document.readyState === "complete"');
  }

  // Clicks the shown button, link or summary with this text or label.
  async click(name) {
    const found = `[...document.querySelectorAll('button, a, summary')].find((one) => one.checkVisibility()
      && (one.getAttribute('aria-label') || one.innerText).trim() === ${JSON.stringify(name)})`;
    await this.until(`Boolean(${found})`, `the button ${name}`);
    await this.value(`(${found}).click()`);
  }

  // Fills the control with this label.
  async fill(label, text) {
    const found = `[...document.querySelectorAll('label')].find((one) => one.innerText.trim() === ${JSON.stringify(label)})?.control`;
    await this.until(`Boolean(${found})`, `the field ${label}`);
    await this.value(`{ const control = ${found}; control.focus(); control.value = ${JSON.stringify(text)};
      control.dispatchEvent(new Event('input', { bubbles: true })); }`);
  }

  async key(key, code = key) {
    const params = { key, code, windowsVirtualKeyCode: { Tab: 9, Enter: 13, Escape: 27 }[key] };
    if (key === 'Enter') params.text = '\r';
    await this.command('Input.dispatchKeyEvent', { type: 'keyDown', ...params });
    await this.command('Input.dispatchKeyEvent', { type: 'keyUp', ...params });
  }

  async size(width, height, mobile = false) {
    await this.command('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile });
  }

  async colours(scheme) {
    await this.command('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
  }

  async picture(file) {
    const { data } = await this.command('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true });
    writeFileSync(file, Buffer.from(data, 'base64'));
  }

  async end() {
    const ended = new Promise((resolve) => this.process.on('exit', resolve));
    this.process.removeAllListeners('exit');
    this.process.on('exit', () => {});
    this.process.kill('SIGKILL');
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 2000))]);
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}
