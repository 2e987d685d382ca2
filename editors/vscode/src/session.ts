/** From settings to a running server, and back. */

import { accessSync, constants, statSync } from "node:fs";
import { homedir } from "node:os";
import * as vscode from "vscode";
import { Client } from "./client";
import { type State, crashed, failed, missing, status } from "./messages";
import type { Python } from "./python";
import { MOST, Restarts } from "./restarts";
import { type Found, find } from "./search";

const HOW = "How to Install";
const AGAIN = "Try Again";
const OUTPUT = "Show Output";
const NEVER = "Not in This Workspace";
const SILENT = "isSilent"; // in the memory of the workspace

export class Session {
  client: Client | undefined;
  private queue: Promise<void> = Promise.resolve();
  private restarts = new Restarts();

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly output: vscode.OutputChannel,
    private readonly item: vscode.StatusBarItem,
    private readonly python: Python,
  ) {}

  /** Start the server anew, after whatever is under way. */
  restart(): Promise<void> {
    this.restarts = new Restarts();
    return this.again();
  }

  private again(): Promise<void> {
    this.queue = this.queue.then(async () => {
      await this.halt();
      await this.begin();
    });
    return this.queue;
  }

  stop(): Promise<void> {
    this.queue = this.queue.then(() => this.halt());
    return this.queue;
  }

  private async halt(): Promise<void> {
    const { client } = this;
    this.client = undefined;
    await client?.stop();
  }

  private async begin(): Promise<void> {
    const settings = vscode.workspace.getConfiguration("amplint");
    if (!settings.get("enable", true)) {
      this.item.hide();
      return;
    }
    this.show({ kind: "starting" });
    const path = settings.get("path", "");
    const found = await this.search(path);
    if (found === undefined) {
      this.show({ kind: "failed", reason: missing(path) });
      void this.offerInstall(missing(path));
      return;
    }
    const start = {
      command: found.command,
      args: settings.get<string[]>("arguments", []),
      environment: settings.get<Record<string, string>>("environment", {}),
      folder: folders()[0] ?? homedir(),
    };
    this.log(`Start ${found.command} server (${found.origin})`);
    const client = new Client(start, this.output);
    try {
      const version = await client.start();
      this.client = client;
      this.show({ kind: "ready", version, ...found });
      void client.server.ended.then((status) => this.ended(client, status));
    } catch {
      const status = await client.stop();
      this.fail(failed(found.command, status, client.server.stderr));
    }
  }

  /** A server has ended that was ready. */
  private async ended(client: Client, status: number | null): Promise<void> {
    if (this.client !== client) return; // it was stopped
    this.log(`amplint server has ended with status ${status ?? "unknown"}`);
    if (this.restarts.allow(Date.now())) return this.again();
    await this.stop();
    this.fail(crashed(MOST));
  }

  private search(path: string): Promise<Found | undefined> {
    return find(path, {
      platform: process.platform,
      home: homedir(),
      env: process.env,
      folders: folders(),
      isExecutable,
      interpreters: () => this.python.interpreters(),
    });
  }

  private async offerInstall(message: string): Promise<void> {
    // Not each project with Python files is one of torch.
    if (this.context.workspaceState.get(SILENT, false)) return;
    const chosen = await vscode.window.showWarningMessage(message, HOW, AGAIN, NEVER);
    if (chosen === AGAIN) void this.restart();
    if (chosen === NEVER) await this.context.workspaceState.update(SILENT, true);
    if (chosen === HOW) {
      // amplint's own pages are published nowhere yet, so it is the page that came with the extension.
      const page = vscode.Uri.joinPath(this.context.extensionUri, "dist", "install.md");
      await vscode.commands.executeCommand("markdown.showPreview", page);
    }
  }

  private fail(reason: string): void {
    this.show({ kind: "failed", reason });
    void vscode.window.showErrorMessage(reason, OUTPUT, AGAIN).then((chosen) => {
      if (chosen === OUTPUT) this.output.show();
      if (chosen === AGAIN) void this.restart();
    });
  }

  private show(state: State): void {
    const { text, tooltip, isError } = status(state);
    if (state.kind === "failed") this.log(state.reason);
    this.item.text = text;
    this.item.tooltip = tooltip;
    this.item.backgroundColor = isError ? new vscode.ThemeColor("statusBarItem.errorBackground") : undefined;
    this.item.show();
  }

  private log(line: string): void {
    this.output.appendLine(line);
  }
}

function folders(): string[] {
  const all = vscode.workspace.workspaceFolders ?? [];
  return all.filter((folder) => folder.uri.scheme === "file").map((folder) => folder.uri.fsPath);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
