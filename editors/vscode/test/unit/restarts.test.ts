import assert from "node:assert/strict";
import { test } from "node:test";
import { MOST, Restarts } from "../../src/restarts";

test("a server that ends again and again is given up", () => {
  const restarts = new Restarts();
  const allowed = Array.from({ length: MOST }, (_, number) => restarts.allow(number * 1000));
  assert.deepEqual(allowed, [true, true, true, true, false]);
});

test("a server that ends once in a while is not", () => {
  const restarts = new Restarts();
  assert.ok(Array.from({ length: 20 }, (_, number) => restarts.allow(number * 60_000)).every(Boolean));
});
