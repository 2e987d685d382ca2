/** What the extension says. */

export const INSTALL = "pip install 'amplint[server]'";

/** That there is no `amplint` to run, and what to do. */
export function missing(setting: string): string {
  if (setting.trim() !== "") return `amplint.path is "${setting.trim()}", and there is no program of that name.`;
  return `amplint is neither in the Python environment of this workspace nor on PATH. Install it there: ${INSTALL}`;
}

/** That `amplint server` has ended before it was ready. Its last line says why, as for a lack of pygls. */
export function failed(command: string, status: number | null, stderr: string): string {
  const lines = stderr.split(/\r?\n/).filter((line) => line.trim() !== "");
  const reason = lines.at(-1)?.trim() ?? `it ended with status ${status ?? "unknown"}`;
  return `amplint server did not start (${command}): ${reason}`;
}

export function crashed(times: number): string {
  return `amplint server has ended ${times} times in three minutes, and is not started again. The output says more.`;
}

export const NOT_RUNNING = "amplint is not running. Its output says why.";
export const NO_EXPLANATION = "This amplint cannot explain a line in the editor. A later version can.";
export const NOT_A_FILE_OF_PYTHON = "Put the cursor into a line of a Python file first.";

export type State =
  | { readonly kind: "starting" }
  | { readonly kind: "ready"; readonly version: string; readonly command: string; readonly origin: string }
  | { readonly kind: "failed"; readonly reason: string };

export interface Status {
  readonly text: string;
  readonly tooltip: string;
  readonly isError: boolean;
}

/** A state, as the status bar shows it. */
export function status(state: State): Status {
  const click = "Click: show the output";
  switch (state.kind) {
    case "starting":
      return { text: "$(sync~spin) amplint", tooltip: `amplint is starting\n${click}`, isError: false };
    case "ready":
      return {
        text: "$(check) amplint",
        tooltip: `amplint ${state.version} is ready\n${state.command} (${state.origin})\n${click}`,
        isError: false,
      };
    case "failed":
      return { text: "$(error) amplint", tooltip: `${state.reason}\n${click}`, isError: true };
  }
}
