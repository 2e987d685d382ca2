/** Where the `amplint` is that is run. */

import { posix, win32 } from "node:path";

/** What the search needs to know of the machine and of the window. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folders of the workspace, in their order. */
  readonly folders: readonly string[];
  isExecutable(file: string): boolean;
  /** The interpreters that the Python extension has chosen. It may have to start, so it is asked only when they matter. */
  interpreters(): Promise<readonly string[]>;
}

export interface Found {
  readonly command: string;
  /** In words, for the status and the output. */
  readonly origin: string;
}

/** The `amplint` to run, or undefined if there is none. A setting that names one is not passed over. */
export async function find(setting: string, machine: Machine): Promise<Found | undefined> {
  if (setting.trim() !== "") return first(named(setting.trim(), machine), "the setting amplint.path", machine);
  return (
    first(inFolders(machine), "the environment of the workspace", machine) ??
    first(beside(await machine.interpreters(), machine), "the interpreter of the Python extension", machine) ??
    first(onPath(program(machine), machine), "PATH", machine)
  );
}

function first(files: readonly string[], origin: string, machine: Machine): Found | undefined {
  const command = files.find((file) => machine.isExecutable(file));
  return command === undefined ? undefined : { command, origin };
}

function named(setting: string, machine: Machine): string[] {
  const path = pathOf(machine);
  const name = expanded(setting, machine);
  if (!/[\\/]/.test(name)) return onPath(withSuffix(name, machine), machine);
  if (path.isAbsolute(name)) return [withSuffix(name, machine)];
  return machine.folders.map((folder) => withSuffix(path.join(folder, name), machine));
}

/** A setting without its variables. */
export function expanded(setting: string, machine: Machine): string {
  return setting
    .replace(/^~(?=[\\/])/, () => machine.home)
    .replace(/\$\{workspaceFolder\}/g, () => machine.folders[0] ?? "")
    .replace(/\$\{env:([^}]+)\}/g, (_, name: string) => machine.env[name] ?? "");
}

function inFolders(machine: Machine): string[] {
  const path = pathOf(machine);
  const scripts = isWindows(machine) ? "Scripts" : "bin";
  return machine.folders.flatMap((folder) =>
    [".venv", "venv"].map((name) => path.join(folder, name, scripts, program(machine))),
  );
}

/** Where pip puts a program: beside the interpreter; on Windows, that of conda is one folder above. */
function beside(interpreters: readonly string[], machine: Machine): string[] {
  const path = pathOf(machine);
  return interpreters.map(path.dirname).flatMap((folder) => {
    const folders = isWindows(machine) ? [folder, path.join(folder, "Scripts")] : [folder];
    return folders.map((each) => path.join(each, program(machine)));
  });
}

/** In the folders of PATH, but for those that depend on where a program is started. */
function onPath(name: string, machine: Machine): string[] {
  const path = pathOf(machine);
  const folders = (machine.env.PATH ?? machine.env.Path ?? "").split(path.delimiter);
  return folders.filter(path.isAbsolute).map((folder) => path.join(folder, name));
}

function program(machine: Machine): string {
  return withSuffix("amplint", machine);
}

function withSuffix(name: string, machine: Machine): string {
  return isWindows(machine) && !/\.\w+$/.test(name) ? `${name}.exe` : name;
}

function isWindows(machine: Machine): boolean {
  return machine.platform === "win32";
}

function pathOf(machine: Machine): typeof posix {
  return isWindows(machine) ? win32 : posix;
}
