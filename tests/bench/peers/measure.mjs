// What the peers have in common: a clock, a wait, a look at the database, and the answer on standard output.
import pg from "pg";

export const clock = () => performance.now();
export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

export async function ask(url, statement) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(statement);
  await client.end();
  return rows;
}

// Resolves when the query's `open` is zero.
export async function drained(url, query) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  while (Number((await client.query(query)).rows[0].open) > 0) await pause(5);
  await client.end();
}

// 200 enqueues 50 ms apart, after five that do not count: milliseconds from the return of each call to the start of its handler.
export async function waits(enqueue, started, count) {
  const returned = new Map();
  for (let i = -5; i < count; i++) {
    await enqueue(i);
    returned.set(i, clock());
    await pause(50);
  }
  while (started.size < count + 5) await pause(50);
  return [...returned].filter(([i]) => i >= 0).map(([i, at]) => Math.max(0, started.get(i) - at));
}

export function answer(result) {
  process.stdout.write(JSON.stringify(result) + "\n", () => process.exit(0));
}
