/** amplint in VS Code: starts the installed `amplint server`. What it finds and offers comes from there. */

import * as vscode from "vscode";
import { ExecuteCommandRequest } from "vscode-languageclient/node";
import { NOT_A_FILE_OF_PYTHON, NOT_RUNNING, NO_EXPLANATION } from "./messages";
import { Python } from "./python";
import { Session } from "./session";

const EXPLAIN = "amplint.explainLine"; // of the server; the client registers it under this name
const FIX_ALL = "source.fixAll.amplint";
const RESTARTS = ["enable", "path", "arguments", "environment"];

let session: Session | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const output = vscode.window.createOutputChannel("amplint");
  const item = vscode.window.createStatusBarItem("amplint.status", vscode.StatusBarAlignment.Left);
  item.name = "amplint";
  item.command = "amplint.showOutput";
  const python = new Python(
    () => void current.restart(),
    (line) => output.appendLine(line),
  );
  const current = new Session(context, output, item, python);
  session = current;
  context.subscriptions.push(
    output,
    item,
    python,
    vscode.commands.registerCommand("amplint.restart", () => current.restart()),
    vscode.commands.registerCommand("amplint.showOutput", () => output.show()),
    vscode.commands.registerCommand("amplint.fixAll", () => fixAll(current)),
    vscode.commands.registerCommand("amplint.explainCurrentLine", () => explainLine(current)),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (RESTARTS.some((name) => change.affectsConfiguration(`amplint.${name}`))) void current.restart();
    }),
    vscode.workspace.onDidChangeWorkspaceFolders(() => {
      if (current.client === undefined) void current.restart(); // a folder may have brought one
    }),
  );
  void current.restart();
}

export async function deactivate(): Promise<void> {
  await session?.stop();
}

async function fixAll(session: Session): Promise<void> {
  if (session.client === undefined) {
    void vscode.window.showWarningMessage(NOT_RUNNING);
    return;
  }
  await vscode.commands.executeCommand("editor.action.codeAction", { kind: FIX_ALL, apply: "first" });
}

async function explainLine(session: Session): Promise<void> {
  const { client } = session;
  const editor = vscode.window.activeTextEditor;
  if (client === undefined) void vscode.window.showWarningMessage(NOT_RUNNING);
  else if (!client.has(EXPLAIN)) void vscode.window.showWarningMessage(NO_EXPLANATION);
  else if (editor?.document.languageId !== "python") void vscode.window.showWarningMessage(NOT_A_FILE_OF_PYTHON);
  else {
    const uri = client.language.code2ProtocolConverter.asUri(editor.document.uri);
    await client.language.sendRequest(ExecuteCommandRequest.type, {
      command: EXPLAIN,
      arguments: [uri, editor.selection.active.line],
    });
  }
}
