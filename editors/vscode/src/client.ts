/** A client of one `amplint server`. */

import * as vscode from "vscode";
import { CloseAction, ErrorAction, LanguageClient } from "vscode-languageclient/node";
import { ServerProcess } from "./process";

// With no other scheme, such as that of an earlier version in git.
const SCHEMES = ["file", "untitled", "vscode-notebook-cell"];

export interface Start {
  readonly command: string;
  readonly args: readonly string[];
  readonly environment: Record<string, string>;
  readonly folder: string;
}

/** Its errors go to the output alone: the extension says once what they mean. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** A server that is started anew has a client of its own. */
export class Client {
  readonly language: LanguageClient;
  readonly server: ServerProcess;

  constructor(start: Start, output: vscode.OutputChannel) {
    this.server = new ServerProcess(start.command, start.args, start.environment, start.folder);
    this.language = new QuietClient("amplint", "amplint", async () => this.server.child, {
      documentSelector: SCHEMES.map((scheme) => ({ scheme, language: "python" })),
      outputChannel: output,
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue }),
        closed: () => ({ action: CloseAction.DoNotRestart, message: "amplint server has ended", handled: true }),
      },
    });
  }

  /** The version of the server, once it is ready. Throws if it ends before. */
  async start(): Promise<string> {
    const ended = this.server.ended.then(() => Promise.reject(new Error("ended")));
    await Promise.race([this.language.start(), ended]);
    return this.language.initializeResult?.serverInfo?.version ?? "";
  }

  has(command: string): boolean {
    return this.language.initializeResult?.capabilities.executeCommandProvider?.commands.includes(command) ?? false;
  }

  /** Its exit status. */
  async stop(): Promise<number | null> {
    try {
      await this.language.dispose();
    } catch {
      // It has not started, or has ended already.
    }
    return this.server.finish();
  }
}
