/** A client of one `amplint server`. */

import * as vscode from "vscode";
import { CloseAction, ErrorAction, LanguageClient } from "vscode-languageclient/node";
import { ServerProcess } from "./process";
import { Restarts } from "./restarts";

// With no other scheme, such as that of an earlier version in git.
const SCHEMES = ["file", "untitled", "vscode-notebook-cell"];

export interface Start {
  readonly command: string;
  readonly args: readonly string[];
  readonly environment: Record<string, string>;
  readonly folder: string;
}

/** Its errors go to the output alone: the session says once what they mean. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

export class Client {
  readonly language: LanguageClient;
  private server: ServerProcess | undefined;
  private wasReady = false;

  /** @param gaveUp is called when the server has ended too often. */
  constructor(start: Start, output: vscode.OutputChannel, gaveUp: () => void) {
    const restarts = new Restarts();
    const serve = async () => {
      this.server = new ServerProcess(start.command, start.args, start.environment, start.folder);
      return this.server.child;
    };
    this.language = new QuietClient("amplint", "amplint", serve, {
      documentSelector: SCHEMES.map((scheme) => ({ scheme, language: "python" })),
      outputChannel: output,
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue }),
        closed: () => {
          if (this.wasReady && restarts.allow(Date.now())) return { action: CloseAction.Restart, handled: true };
          if (this.wasReady) gaveUp();
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
    });
  }

  /** Its version. Throws what `failure` explains. */
  async start(): Promise<string> {
    await this.language.start();
    this.wasReady = true;
    return this.language.initializeResult?.serverInfo?.version ?? "";
  }

  /** The exit status of a server that did not start, and what it has said. */
  async failure(): Promise<{ status: number | null; stderr: string }> {
    await this.server?.finish();
    return { status: (await this.server?.ended) ?? null, stderr: this.server?.stderr ?? "" };
  }

  has(command: string): boolean {
    return this.language.initializeResult?.capabilities.executeCommandProvider?.commands.includes(command) ?? false;
  }

  async stop(): Promise<void> {
    try {
      await this.language.dispose();
    } catch {
      // It has not started, or has ended already.
    }
    await this.server?.finish();
  }
}
