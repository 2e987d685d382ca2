/** The interpreters that the Python extension has chosen, if it is installed. */

import * as vscode from "vscode";

const PATIENCE = 10_000; // milliseconds, in which it may start

/** What is used of its API (https://www.npmjs.com/package/@vscode/python-extension). */
interface PythonApi {
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(environment: { readonly path: string }): Promise<
      { readonly executable: { readonly uri?: vscode.Uri } } | undefined
    >;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

export class Python implements vscode.Disposable {
  private listener: vscode.Disposable | undefined;

  /** @param changed is called when another interpreter is chosen, after these have been asked for. */
  constructor(
    private readonly changed: () => void,
    private readonly log: (line: string) => void,
  ) {}

  async interpreters(): Promise<readonly string[]> {
    const extension = vscode.extensions.getExtension<PythonApi>("ms-python.python");
    if (extension === undefined) return [];
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error("it does not answer")), PATIENCE);
    });
    try {
      return await Promise.race([this.ask(extension), late]);
    } catch (error) {
      this.log(`The Python extension names no interpreter: ${String(error)}`);
      return [];
    } finally {
      clearTimeout(timer);
    }
  }

  private async ask(extension: vscode.Extension<PythonApi>): Promise<string[]> {
    const { environments } = await extension.activate();
    if (environments === undefined) return [];
    this.listener ??= environments.onDidChangeActiveEnvironmentPath(this.changed);
    const folders = vscode.workspace.workspaceFolders?.map((folder) => folder.uri) ?? [undefined];
    const found = folders.map(async (folder) => {
      const environment = environments.getActiveEnvironmentPath(folder);
      return (await environments.resolveEnvironment(environment))?.executable.uri?.fsPath;
    });
    return (await Promise.all(found)).filter((path) => path !== undefined);
  }

  dispose(): void {
    this.listener?.dispose();
  }
}
