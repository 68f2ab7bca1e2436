// A program in TypeScript that fills a corpus, asks it, and reads the run's events. Its types are generated from the
// description that the instance serves.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const [baseUrl, key] = process.argv.slice(2);
const sluice = createClient<paths>({ baseUrl, headers: key ? { Authorization: `Bearer ${key}` } : {} });

function need<T>(answer: { data?: T; error?: components["schemas"]["Problem"] }): T {
  if (answer.data === undefined) throw new Error(`${answer.error?.title}: ${answer.error?.detail}`);
  return answer.data;
}

const document = { id: "lease", text: "A lease is renewed by a heartbeat. One that runs out frees the event." };
const body = { corpus: "typescript", create_corpus: true, documents: [document] };
const added = need(await sluice.POST("/v1/documents", { body }));
const path = { run_id: added.run_id };
let seen = "0";
for (let ended = false; !ended; ) {
  const query = { format: "json", after: seen, wait: 30 } as const;
  const part = need(await sluice.GET("/v1/runs/{run_id}/events", { params: { path, query } }));
  if (typeof part === "string") throw new Error("this was to be JSON");
  [seen, ended] = [part.last_event_id, part.has_ended];
}
const run = need(await sluice.POST("/v1/gate", { body: { query: "How is a lease renewed?", corpus: "typescript", wait: true } }));
if (!("answer" in run)) throw new Error("the run has not ended");
const stats = need(await sluice.GET("/v1/stats", { params: { query: { corpus: "typescript" } } }));
const refused = await sluice.GET("/v1/runs/{run_id}", { params: { path: { run_id: "run_none" } } });
console.log(JSON.stringify({ cited: run.answer?.citations.map((one) => one.source), documents: stats.document_count, refused: refused.error?.code }));
