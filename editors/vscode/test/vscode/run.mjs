// A test in a real VS Code. README.md says how it is run.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CodeServer, Window, launch, until } from "./driver.mjs";

const { values } = parseArgs({
  options: {
    "code-server": { type: "string" }, // its out/node/entry.js
    browser: { type: "string" }, // a folder with puppeteer-core and @sparticuz/chromium
    amplint: { type: "string" },
    vsix: { type: "string" },
    pictures: { type: "string" }, // a folder for them
  },
});
const PROGRAM = `import torch

scaler = torch.cuda.amp.GradScaler()


def train(model, optimizer, loader):
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        with torch.cuda.amp.autocast():
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(loss.item())
`;
const QUIET = { "workbench.startupEditor": "none", "workbench.secondarySideBar.defaultVisibility": "hidden" };
const TRUSTED = { ...QUIET, "security.workspace.trust.enabled": false };
const UNTRUSTED = { ...QUIET, "security.workspace.trust.startupPrompt": "never" };
const STATUS = ".statusbar-item[id='amplint.amplint.amplint.status']";

const home = mkdtempSync(join(tmpdir(), "amplint-code-"));
const server = new CodeServer(values["code-server"], home);
const browser = await launch(values.browser);
const env = { ...process.env, PATH: "/usr/bin:/bin" };

/** A folder with a program, and with an environment where amplint is installed, or not. */
function project(name, isInstalled) {
  const folder = join(home, name);
  mkdirSync(join(folder, ".venv", "bin"), { recursive: true });
  writeFileSync(join(folder, "train.py"), PROGRAM);
  if (isInstalled) symlinkSync(values.amplint, join(folder, ".venv", "bin", "amplint"));
  return folder;
}

/** A folder with an amplint that is a script of the shell. */
function scripted(name, script) {
  const folder = project(name, false);
  writeFileSync(join(folder, ".venv", "bin", "amplint"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return folder;
}

/** It says what amplint says without pygls. */
function broken(name) {
  return scripted(name, "echo \"Error: server needs pygls: pip install 'amplint[server]'\" >&2; exit 2");
}

/** It is ended five seconds after each start. */
function crashing(name) {
  return scripted(name, `exec timeout 5 "${values.amplint}" "$@"`);
}

/** A folder with a notebook of one cell. */
function notebook(name) {
  const folder = project(name, true);
  const cell = { cell_type: "code", execution_count: null, metadata: {}, outputs: [], source: PROGRAM };
  const language = { language_info: { name: "python" } };
  const text = JSON.stringify({ cells: [cell], metadata: language, nbformat: 4, nbformat_minor: 4 });
  writeFileSync(join(folder, "train.ipynb"), text);
  return folder;
}

async function check(name, settings, folder, steps) {
  await server.start(settings, env);
  const window = await Window.open(browser, server.address, folder, join(folder, "train.py"));
  try {
    await steps(window);
    console.log(`ok: ${name}`);
  } catch (error) {
    await window.shot(values.pictures, "failed");
    throw error;
  } finally {
    await window.page.close();
    await server.stop();
  }
}

try {
  server.install(values.vsix);
  console.log(server.version());

  await check("findings, fixes and explanations", TRUSTED, project("with", true), async (window) => {
    await window.seen(`${STATUS}:has(.codicon-check)`, "amplint");
    await window.seen(".squiggly-warning, .squiggly-error");
    await window.run("Problems: Focus on Problems View");
    const rows = ".markers-panel .monaco-list-row";
    for (const code of ["AMP101", "AMP701", "AMP702"]) await window.seen(rows, code);
    await window.shot(values.pictures, "problems");

    await window.goTo(3);
    await window.press("Control", ".");
    const title = "(AMP702, safe)";
    await window.seen(".action-widget .monaco-list-row", title);
    await window.shot(values.pictures, "quick-fix");
    await window.click(".action-widget .monaco-list-row", title);
    await until("the fix", async () => (await window.lines())[2] === 'scaler = torch.amp.GradScaler("cuda")');

    await window.run("amplint: Fix All Safe Problems");
    const fixed = 'with torch.amp.autocast("cuda"):';
    await until("all fixes", async () => (await window.lines())[8]?.trim() === fixed);

    await window.goTo(13);
    await window.run("amplint: Explain Line");
    await window.seen(".tab.active", "explained.txt");
    await window.seen(".view-line", "scaler.update()");
    await window.shot(values.pictures, "explained");

    await window.click(STATUS, "amplint");
    const started = `Start ${home}`;
    await window.seen(".view-line", started);
    await window.seen(".view-line", "of the workspace)");
    await window.run("amplint: Restart Server");
    await until("a second start", async () => (await window.texts(".view-line")).filter((line) => line.includes(started)).length === 2);
    await window.seen(`${STATUS}:has(.codicon-check)`, "amplint");
  });

  await check("the source action", { ...TRUSTED, "amplint.trace.server": "messages" }, project("source", true), async (window) => {
    await window.seen(".squiggly-warning");
    await window.goTo(14);
    await window.run("Source Action...");
    await window.seen(".action-widget .monaco-list-row", "Fix all safe amplint problems");
    await window.shot(values.pictures, "source-action");
    await window.click(".action-widget .monaco-list-row", "Explain line 14");
    await window.seen(".tab.active", "explained.txt");
    await window.seen(".view-line", "AMP101");
    await window.run("amplint: Show Output");
    await window.seen(".view-line", "[Trace");
  });

  await check("a notebook", TRUSTED, notebook("notebook"), async (window) => {
    // The address of the page opens files as texts.
    await window.click(".explorer-folders-view .monaco-list-row", "train.ipynb");
    await window.seen(".notebookOverlay .squiggly-warning");
    await window.shot(values.pictures, "notebook");
  });

  await check("a server that ends", TRUSTED, crashing("ends"), async (window) => {
    await window.seen(".notification-list-item", "has ended 5 times");
    await window.seen(`${STATUS}:has(.codicon-error)`, "amplint");
    assert.equal((await window.texts(".notification-list-item")).length, 1);
    await window.shot(values.pictures, "ends");
  });

  await check("amplint without its server", TRUSTED, broken("broken"), async (window) => {
    await window.seen(".notification-list-item", "did not start");
    await window.seen(".notification-list-item", "server needs pygls: pip install 'amplint[server]'");
    assert.equal((await window.texts(".notification-list-item")).length, 1);
    await window.shot(values.pictures, "broken");
    await window.click(".notification-list-item .monaco-button", "Show Output");
    await window.seen(".view-line", "server needs pygls");
  });

  await check("no amplint", TRUSTED, project("without", false), async (window) => {
    await window.seen(".notification-list-item", "pip install 'amplint[server]'");
    await window.seen(`${STATUS}:has(.codicon-error)`, "amplint");
    assert.equal((await window.texts(".notification-list-item")).length, 1);
    await window.shot(values.pictures, "missing");
    await window.click(".notification-list-item .monaco-button", "How to Install");
    await window.seenInFrame("pip install 'amplint[server]'");
    await window.shot(values.pictures, "how-to-install");
  });

  await check("a workspace that is not trusted", UNTRUSTED, project("untrusted", true), async (window) => {
    await window.seen(".statusbar-item", "Restricted Mode");
    await new Promise((resolve) => setTimeout(resolve, 10_000));
    assert.deepEqual(await window.texts(STATUS), []);
    await window.shot(values.pictures, "untrusted");
  });
} finally {
  await browser.close();
  rmSync(home, { recursive: true, force: true });
}
