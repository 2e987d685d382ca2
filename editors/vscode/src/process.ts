/** The process of `amplint server`. */

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";

const KEPT = 4000; // characters of what it has said
const PATIENCE = 2000; // milliseconds, in which it may end by itself

export class ServerProcess {
  readonly child: ChildProcessWithoutNullStreams;
  /** Its exit status, once it has ended and all that it has said is here. */
  readonly ended: Promise<number | null>;
  stderr = "";

  /**
   * @param command a program, not a module for `python -m`: that would import from the folder it starts in.
   * @param environment variables besides those of this process.
   */
  constructor(command: string, args: readonly string[], environment: Record<string, string>, folder: string) {
    const env = { ...process.env, ...environment };
    this.child = spawn(command, ["server", ...args], { cwd: folder, env, windowsHide: true });
    this.child.stderr.setEncoding("utf8");
    this.child.stderr.on("data", (text: string) => {
      this.stderr = (this.stderr + text).slice(-KEPT);
    });
    this.ended = new Promise((resolve) => {
      this.child.on("error", (error) => {
        this.stderr += `\n${error.message}`;
        resolve(null);
      });
      this.child.on("close", resolve);
    });
    // A process that has gone takes no more input; `ended` tells of it.
    this.child.stdin.on("error", () => undefined);
  }

  /** Wait for it to end, which it does once nobody talks to it, or end it. */
  async finish(): Promise<number | null> {
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill(), PATIENCE);
    const status = await this.ended;
    clearTimeout(timer);
    return status;
  }
}
