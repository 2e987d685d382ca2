import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { INSTALL, crashed, failed, missing, status } from "../../src/messages";

test("a message says how to install it, and the page that its button opens says the same", () => {
  assert.match(missing(""), /pip install 'amplint\[server\]'/);
  assert.ok(readFileSync("README.md", "utf8").includes(INSTALL));
});

test("a setting that names nothing is what is wrong", () => {
  assert.equal(missing(" /x "), 'amplint.path is "/x", and there is no program of that name.');
});

test("why a server did not start is the last that it said", () => {
  const stderr = "Usage: amplint server\n\nError: server needs pygls: pip install 'amplint[server]'\r\n\n";
  assert.equal(
    failed("/x/amplint", 2, stderr),
    "amplint server did not start (/x/amplint): Error: server needs pygls: pip install 'amplint[server]'",
  );
  assert.match(failed("/x/amplint", 3, " \n"), /it ended with status 3$/);
  assert.match(failed("/x/amplint", null, ""), /it ended with status unknown$/);
});

test("the status bar tells starting, ready and failed apart, and says what a click does", () => {
  const starting = status({ kind: "starting" });
  const ready = status({ kind: "ready", version: "0.1.0", command: "/x/amplint", origin: "PATH" });
  const wrong = status({ kind: "failed", reason: crashed(5) });
  assert.equal(new Set([starting.text, ready.text, wrong.text]).size, 3);
  assert.deepEqual([starting.isError, ready.isError, wrong.isError], [false, false, true]);
  for (const each of [starting, ready, wrong]) assert.match(each.tooltip, /Click: show the output$/);
  assert.match(ready.tooltip, /0\.1\.0 is ready\n\/x\/amplint \(PATH\)/);
  assert.match(wrong.tooltip, /5 times/);
});
