// VS Code in a browser (code-server), as a user has it: keys, clicks and what is on the screen.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const PATIENCE = 60_000; // milliseconds
const LINE = ".editor-group-container .view-line"; // of a text, not of the input of a chat

/** Wait until something is found on the screen, and return it. */
export async function until(what, look, patience = PATIENCE) {
  for (const end = Date.now() + patience; ; ) {
    const found = await look().catch(() => undefined); // the page may be moving
    if (found !== undefined && found !== false) return found;
    if (Date.now() > end) throw new Error(`not seen in ${patience / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

export class CodeServer {
  constructor(entry, home) {
    this.entry = entry;
    this.folders = ["--user-data-dir", join(home, "data"), "--extensions-dir", join(home, "extensions")];
    this.settings = join(home, "data", "User", "settings.json");
    mkdirSync(join(home, "data", "User"), { recursive: true });
  }

  install(vsix) {
    const done = this.once("--install-extension", vsix);
    if (done.status !== 0) throw new Error(done.stdout + done.stderr);
  }

  version() {
    return this.once("--version").stdout.trim().split("\n").at(-1);
  }

  once(...args) {
    return spawnSync(process.execPath, [this.entry, ...this.folders, ...args], { encoding: "utf8" });
  }

  /** Start it with the settings of a user. */
  async start(settings, env) {
    writeFileSync(this.settings, JSON.stringify(settings));
    const port = await freePort();
    const args = ["--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry", "--disable-update-check"];
    this.child = spawn(process.execPath, [this.entry, ...this.folders, ...args], { env, stdio: "ignore" });
    this.address = `http://127.0.0.1:${port}`;
    await until("code-server", async () => (await fetch(`${this.address}/healthz`)).ok);
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill();
    await ended;
  }
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Chromium, of a folder in which puppeteer-core and @sparticuz/chromium are installed. */
export async function launch(tools) {
  const load = async (name) => {
    const file = createRequire(join(tools, "package.json")).resolve(name);
    return (await import(pathToFileURL(file).href)).default;
  };
  const [puppeteer, chromium] = [await load("puppeteer-core"), await load("@sparticuz/chromium")];
  const args = [...chromium.args, "--no-sandbox"];
  return puppeteer.launch({ args, executablePath: await chromium.executablePath(), headless: "shell" });
}

export class Window {
  constructor(page) {
    this.page = page;
  }

  static async open(browser, address, folder, file) {
    const page = await browser.newPage();
    await page.setViewport({ width: 1280, height: 800 });
    const opened = encodeURIComponent(JSON.stringify([["openFile", `vscode-remote://${new URL(address).host}${file}`]]));
    await page.goto(`${address}/?folder=${encodeURIComponent(folder)}&payload=${opened}`, { waitUntil: "load" });
    const window = new Window(page);
    await window.seen(LINE);
    return window;
  }

  /** The texts of what a selector finds. */
  texts(selector) {
    return this.page.$$eval(selector, (all) => all.map((each) => each.textContent.replace(/\u00a0/g, " ")));
  }

  /** Wait for something with a text in it. */
  seen(selector, text = "", patience = PATIENCE) {
    const find = async () => (await this.texts(selector)).find((each) => each.includes(text));
    return until(`${selector} with "${text}"`, find, patience);
  }

  /** Wait for a text in a view that is a page of its own. */
  seenInFrame(text) {
    const find = async () => {
      const inner = this.page.frames().filter((frame) => frame !== this.page.mainFrame());
      const texts = await Promise.all(inner.map((frame) => frame.evaluate(() => document.body.innerText)));
      return texts.some((each) => each.includes(text));
    };
    return until(`a view with "${text}"`, find);
  }

  /** Wait for something with a text in it, and click it. */
  async click(selector, text) {
    await this.seen(selector, text);
    for (const each of await this.page.$$(selector)) {
      if ((await each.evaluate((node) => node.textContent.replace(/\u00a0/g, " "))).includes(text)) return each.click();
    }
  }

  async press(...keys) {
    for (const key of keys) await this.page.keyboard.down(key);
    for (const key of keys.reverse()) await this.page.keyboard.up(key);
  }

  /** Run a command of the palette by its title. */
  async run(title) {
    await this.press("F1");
    await this.seen(".quick-input-widget:not([style*='none']) input");
    await this.page.keyboard.type(title);
    await this.click(".quick-input-list .monaco-list-row", title);
  }

  /** Put the cursor of the editor into a line. */
  async goTo(line) {
    await this.click(LINE, "");
    await this.press("Control", "g");
    await this.seen(".quick-input-widget:not([style*='none']) input");
    await this.page.keyboard.type(String(line));
    await this.press("Enter");
  }

  /** The lines of the editor that are on the screen. */
  async lines() {
    const read = (all) => all.map((each) => [Number.parseInt(each.style.top, 10), each.textContent.replace(/\u00a0/g, " ")]);
    const lines = await this.page.$$eval(LINE, read);
    return lines.sort(([one], [other]) => one - other).map(([, text]) => text);
  }

  async shot(folder, name) {
    if (folder) await this.page.screenshot({ path: join(folder, `${name}.png`) });
  }
}
