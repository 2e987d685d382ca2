// Bundles the extension into dist/extension.js, with the licences of what is in it; or, with --tests, the unit tests.
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const common = { bundle: true, platform: "node", target: "node20", format: "cjs", logLevel: "warning" };

if (process.argv.includes("--tests")) {
  rmSync("dist/test", { recursive: true, force: true });
  const entryPoints = readdirSync("test/unit").map((name) => join("test/unit", name));
  await build({ ...common, entryPoints, outdir: "dist/test" });
} else {
  const { metafile } = await build({
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    external: ["vscode"],
    minify: true,
    metafile: true,
  });
  writeFileSync("dist/notices.txt", notices(Object.keys(metafile.inputs)));
  copyFileSync("../../LICENSE", "LICENSE");
  copyFileSync("README.md", "dist/install.md"); // vsce gives README.md another name
}

/** The licences of the packages that files belong to: those ask to be copied with the code. */
function notices(files) {
  const folders = files.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]);
  return [...new Set(folders.filter(Boolean))].sort().map(notice).join(`\n${"-".repeat(72)}\n\n`);
}

function notice(folder) {
  const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const license = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
  if (license === undefined) throw new Error(`${folder} has no licence`);
  return `${name} ${version}\n\n${readFileSync(join(folder, license), "utf8")}`;
}
