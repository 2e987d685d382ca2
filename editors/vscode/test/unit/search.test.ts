import assert from "node:assert/strict";
import { test } from "node:test";
import { type Machine, find } from "../../src/search";

interface Given {
  files?: string[];
  folders?: string[];
  interpreters?: string[];
  env?: Record<string, string>;
  platform?: NodeJS.Platform;
}

function machine(given: Given): Machine & { asked: number } {
  const files = new Set(given.files);
  return {
    platform: given.platform ?? "linux",
    home: "/home/me",
    env: given.env ?? { PATH: "/usr/bin:/bin" },
    folders: given.folders ?? ["/projects/a"],
    isExecutable: (file) => files.has(file),
    asked: 0,
    async interpreters() {
      this.asked += 1;
      return given.interpreters ?? [];
    },
  };
}

async function command(setting: string, given: Given): Promise<string | undefined> {
  return (await find(setting, machine(given)))?.command;
}

const ALL = {
  files: ["/projects/a/.venv/bin/amplint", "/projects/a/venv/bin/amplint", "/opt/py/bin/amplint", "/usr/bin/amplint", "/my/amplint"],
  interpreters: ["/opt/py/bin/python"],
};

test("the setting comes first, then .venv, venv, the interpreter that is chosen, and PATH", async () => {
  assert.equal(await command("/my/amplint", ALL), "/my/amplint");
  const found = [];
  for (let files = ALL.files; files.length > 1; files = files.slice(1)) found.push(await command("", { ...ALL, files }));
  assert.deepEqual(found, ALL.files.slice(0, -1));
});

test("the Python extension is asked only where the workspace has no environment", async () => {
  const here = machine(ALL);
  await find("", here);
  assert.equal(here.asked, 0);
});

test("a setting that names nothing is not passed over", async () => {
  assert.equal(await command("/not/there", ALL), undefined);
  assert.equal(await command("  ", ALL), "/projects/a/.venv/bin/amplint");
});

test("a setting may have variables, be relative, or be a name", async () => {
  const given = {
    files: ["/home/me/bin/amplint", "/projects/a/tools/amplint", "/projects/b/other/amplint", "/usr/bin/my-amplint"],
    folders: ["/projects/a", "/projects/b"],
    env: { PATH: "/usr/bin", TOOLS: "/projects/a/tools" },
  };
  assert.equal(await command("~/bin/amplint", given), "/home/me/bin/amplint");
  assert.equal(await command("${workspaceFolder}/tools/amplint", given), "/projects/a/tools/amplint");
  assert.equal(await command("${env:TOOLS}/amplint", given), "/projects/a/tools/amplint");
  assert.equal(await command("other/amplint", given), "/projects/b/other/amplint");
  assert.equal(await command("my-amplint", given), "/usr/bin/my-amplint");
});

test("each folder of the workspace is looked into", async () => {
  const given = { files: ["/projects/b/venv/bin/amplint", "/usr/bin/amplint"], folders: ["/projects/a", "/projects/b"] };
  assert.equal(await command("", given), "/projects/b/venv/bin/amplint");
});

test("without a folder, there are the interpreter and PATH", async () => {
  assert.equal(await command("", { ...ALL, folders: [] }), "/opt/py/bin/amplint");
  assert.equal(await command("", { files: ["/bin/amplint"], folders: [] }), "/bin/amplint");
});

test("folders of PATH that depend on where one is are left out", async () => {
  const given = { files: ["amplint", "bin/amplint", "/bin/amplint"], env: { PATH: ".::bin:/bin" } };
  assert.equal(await command("", given), "/bin/amplint");
  assert.equal(await command("", { files: [], env: {} }), undefined);
});

test("Windows has Scripts and .exe, and conda's interpreter is above them", async () => {
  const on = (files: string[], more: Given = {}): Given => ({
    platform: "win32",
    folders: ["C:\\a"],
    files,
    env: { Path: "D:\\tools;C:\\bin" },
    ...more,
  });
  assert.equal(await command("", on(["C:\\a\\.venv\\Scripts\\amplint.exe"])), "C:\\a\\.venv\\Scripts\\amplint.exe");
  const conda = on(["C:\\conda\\Scripts\\amplint.exe"], { interpreters: ["C:\\conda\\python.exe"] });
  assert.equal(await command("", conda), "C:\\conda\\Scripts\\amplint.exe");
  assert.equal(await command("", on(["C:\\bin\\amplint.exe"])), "C:\\bin\\amplint.exe");
  assert.equal(await command("D:\\x\\amplint", on(["D:\\x\\amplint.exe"])), "D:\\x\\amplint.exe");
});

test("what is found says where it is from", async () => {
  assert.equal((await find("", machine(ALL)))?.origin, "the environment of the workspace");
});
