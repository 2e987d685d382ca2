import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ServerProcess } from "../../src/process";

const folder = mkdtempSync(join(tmpdir(), "amplint-vscode-"));

/** A program that says what it was started with, and does more. */
function program(name: string, more: string): string {
  const file = join(folder, name);
  const said = 'process.stderr.write(process.argv.slice(2).join(" ") + " " + process.env.AMPLINT_X + "\\n");';
  writeFileSync(file, `#!${process.execPath}\n${said}\n${more}\n`, { mode: 0o755 });
  return file;
}

const options = { skip: process.platform === "win32" ? "needs #!" : false, timeout: 20_000 };

test("arguments and environment are those of the settings, and its last words are kept", options, async () => {
  const server = new ServerProcess(program("ends", "process.exitCode = 2;"), ["--more"], { AMPLINT_X: "y" }, folder);
  assert.equal(await server.ended, 2);
  assert.equal(server.stderr, "server --more y\n");
});

test("a program that is not there ends at once", options, async () => {
  const server = new ServerProcess(join(folder, "none"), [], {}, folder);
  assert.equal(await server.ended, null);
  assert.match(server.stderr, /ENOENT/);
  await server.finish();
});

test("it may end by itself, and is ended if it does not", options, async () => {
  const polite = new ServerProcess(program("polite", "process.stdin.resume();"), [], {}, folder);
  await polite.finish();
  assert.equal(await polite.ended, 0);
  const stuck = new ServerProcess(program("stuck", "setInterval(() => {}, 1000);"), [], {}, folder);
  await stuck.finish();
  assert.equal(await stuck.ended, null);
});
