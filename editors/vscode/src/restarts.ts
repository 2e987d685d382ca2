/** How often a server that ends by itself is started again. */

const PERIOD = 3 * 60 * 1000; // milliseconds
export const MOST = 5; // in one period

export class Restarts {
  private ends: number[] = [];

  /** Whether to start it again, after it has ended at a time. */
  allow(now: number): boolean {
    this.ends = [...this.ends.filter((end) => now - end < PERIOD), now];
    return this.ends.length < MOST;
  }
}
