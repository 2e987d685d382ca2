import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const manifest = JSON.parse(readFileSync("package.json", "utf8"));
const readme = readFileSync("README.md", "utf8");

test("an untrusted workspace starts nothing", () => {
  assert.equal(manifest.capabilities.untrustedWorkspaces.supported, false);
});

test("the page names each setting and each command", () => {
  for (const name of Object.keys(manifest.contributes.configuration.properties)) {
    assert.ok(readme.includes(`\`${name}\``), name);
  }
  for (const { title } of manifest.contributes.commands) assert.ok(readme.includes(`*amplint: ${title}*`), title);
});

test("each command is one that the extension has", () => {
  const source = readFileSync("src/extension.ts", "utf8");
  const known = [...source.matchAll(/registerCommand\("([\w.]+)"/g)].map((match) => match[1]);
  const named = manifest.contributes.commands.map((each: { command: string }) => each.command);
  assert.deepEqual(known.sort(), named.sort());
});

test("it is the version of amplint that it comes with", () => {
  const pyproject = readFileSync("../../pyproject.toml", "utf8");
  assert.ok(pyproject.includes(`\nversion = "${manifest.version}"\n`));
});
