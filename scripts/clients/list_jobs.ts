// Lists jobs with the generated types, and compares them with the plain answer of the API.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string | undefined>; exitCode: number };

type Job = components["schemas"]["Job"];

const api = process.env.SCHED_API ?? "";
const headers = { Authorization: `Bearer ${process.env.SCHED_KEY}` };
const client = createClient<paths>({ baseUrl: api, headers });

async function all(): Promise<Job[]> {
  const jobs: Job[] = [];
  let cursor: string | null | undefined;
  do {
    const query = { limit: 3, include: "system" as const, ...(cursor ? { cursor } : {}) };
    const { data, error } = await client.GET("/api/v1/jobs", { params: { query } });
    if (error) throw new Error(`${error.code}: ${error.detail}`);
    jobs.push(...data.items);
    cursor = data.next_cursor;
  } while (cursor);
  return jobs;
}

const plain = await fetch(`${api}/api/v1/jobs?include=system&limit=200`, { headers });
const expected = ((await plain.json()) as { items: Job[] }).items.map((job) => `${job.name} ${job.job_type}`);
const found = (await all()).map((job) => `${job.name} ${job.job_type}`);
if (expected.length < 4 || found.join() !== expected.join()) {
  throw new Error(`the client lists ${found.join()}, and the API ${expected.join()}`);
}
// A wrong word does not compile.
const enabled = await client.GET("/api/v1/jobs", { params: { query: { status: "enabled" } } });
if (!enabled.data) throw new Error(`no list of enabled jobs: ${enabled.response.status}`);
console.log(`listed ${found.length} jobs in TypeScript`);
