// graphile-worker: node graphile-worker.mjs drain|start default|tuned COUNT URL
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { answer, ask, clock, drained, pause, waits } from "./measure.mjs";

const [, , task, settings, size, url] = process.argv;
const count = Number(size);
const logger = new Logger(() => () => {});
// Its defaults, with ten at once as we have; and what its page on performance recommends for throughput.
const CHOICES = {
  default: { concurrentJobs: 10, maxPoolSize: 12 },
  tuned: {
    concurrentJobs: 24,
    maxPoolSize: 26,
    localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};
const preset = { worker: { connectionString: url, logger, ...CHOICES[settings] } };
const utils = await makeWorkerUtils({ connectionString: url, logger });
await utils.migrate();

if (task === "drain") {
  for (let from = 0; from < count; from += 1000) {
    const size = Math.min(1000, count - from);
    await utils.addJobs(Array.from({ length: size }, (_, k) => ({ identifier: "noop", payload: { n: from + k } })));
  }
  await ask(url, "VACUUM ANALYZE");
  await ask(url, "CHECKPOINT");
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const begun = clock();
  await run({ preset, noHandleSignals: true, taskList: { noop: async () => void (++done === count && finish()) } });
  await finished;
  await drained(url, "SELECT count(*) AS open FROM (SELECT FROM graphile_worker._private_jobs LIMIT 1) AS one");
  answer({ rate: (count * 1000) / (clock() - begun) });
} else {
  const started = new Map();
  await run({ preset, noHandleSignals: true, taskList: { stamp: async ({ i }) => void started.set(i, clock()) } });
  await pause(2000);
  answer({ waits: await waits((i) => utils.addJob("stamp", { i }), started, count) });
}
