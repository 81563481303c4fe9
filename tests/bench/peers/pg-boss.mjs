// pg-boss: node pg-boss.mjs drain|start tuned|notify COUNT URL
import { PgBoss } from "pg-boss";
import { answer, ask, clock, drained, pause, waits } from "./measure.mjs";

const [, , task, settings, size, url] = process.argv;
const count = Number(size);
// Large batches fetched one after the other; and waking up by notification, as we do.
const CHOICES = {
  tuned: {
    boss: {},
    queue: {},
    work: { localConcurrency: 2, batchSize: 1000, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
  },
  notify: { boss: { useListenNotify: true }, queue: { notify: true }, work: { localConcurrency: 10 } },
};
const chosen = CHOICES[settings];
const boss = new PgBoss({ connectionString: url, schedule: false, ...chosen.boss });
boss.on("error", (error) => console.error(error.message));
await boss.start();
await boss.createQueue("noop", chosen.queue);

if (task === "drain") {
  for (let from = 0; from < count; from += 1000) {
    const size = Math.min(1000, count - from);
    await boss.insert("noop", Array.from({ length: size }, (_, k) => ({ data: { n: from + k } })));
  }
  await ask(url, "VACUUM ANALYZE");
  await ask(url, "CHECKPOINT");
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const begun = clock();
  await boss.work("noop", chosen.work, async (jobs) => {
    done += jobs.length;
    if (done >= count) finish();
  });
  await finished;
  await drained(
    url,
    "SELECT count(*) AS open FROM (SELECT FROM pgboss.job WHERE name = 'noop' AND state < 'completed' LIMIT 1) AS one",
  );
  answer({ rate: (count * 1000) / (clock() - begun) });
} else {
  const started = new Map();
  await boss.work("noop", chosen.work, async (jobs) => {
    for (const job of jobs) started.set(job.data.i, clock());
  });
  await pause(2000);
  answer({ waits: await waits((i) => boss.send("noop", { i }), started, count) });
}
