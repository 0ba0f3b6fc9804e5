/** Decisions as they happen. A shadow decision stands beside what really happened. */

import { useState } from "preact/hooks";
import type { Cluster } from "./cluster";
import { timeOfDay } from "./format";
import { Mode } from "./Functions";
import type { Decision } from "./model";
import { hrefTo } from "./route";
import { differenceInWords } from "./words";

type Shown = "all" | "enforce" | "shadow";
const CHOICES: [Shown, string][] = [
  ["all", "all"],
  ["enforce", "carried out"],
  ["shadow", "in shadow"],
];

export function Decisions({ cluster }: { cluster: Cluster }) {
  const [shown, show] = useState<Shown>("all");
  const decisions = cluster.decisions.filter((decision) => shown === "all" || decision.mode === shown);
  return (
    <section class="right" aria-labelledby="decisions-title">
      <div class="section-head">
        <h2 id="decisions-title">Decisions</h2>
        <div class="choice" role="group" aria-label="Which decisions">
          {CHOICES.map(([choice, words]) => (
            <button key={choice} type="button" aria-pressed={shown === choice} onClick={() => show(choice)}>
              {words}
            </button>
          ))}
        </div>
      </div>
      {decisions.length === 0 && <p class="soft">None yet.</p>}
      <ol class="feed">
        {decisions.map((decision) => (
          <Entry key={`${decision.at} ${decision.part} ${objectKey(decision)} ${decision.sentence}`} decision={decision} cluster={cluster} />
        ))}
      </ol>
    </section>
  );
}

function Entry({ decision, cluster }: { decision: Decision; cluster: Cluster }) {
  const target = targetOf(decision, cluster);
  const difference = decision.would_differ === null ? null : differenceInWords(decision.would_differ);
  return (
    <li class={decision.mode === "shadow" ? "in-shadow" : undefined}>
      <div class="entry-head">
        <time dateTime={decision.at}>{timeOfDay(decision.at)}</time>
        <span class="part">{decision.part.replaceAll("_", " ")}</span>
        {decision.mode !== "enforce" && <Mode mode={decision.mode} />}
      </div>
      <p>
        <bdi>{decision.sentence}</bdi>
      </p>
      {difference !== null && (
        <p class={`difference ${betterOrWorse(decision)}`}>
          {difference === "the same" ? "In force, it would have been the same." : <>In force: {difference}</>}
        </p>
      )}
      {target !== null && (
        <a class="object" href={target}>
          <bdi>{objectKey(decision)}</bdi>
        </a>
      )}
    </li>
  );
}

function objectKey({ object }: Decision): string {
  return object.namespace === "" ? object.name : `${object.namespace}/${object.name}`;
}

/** null: the object is no longer there, or nothing that has a panel. */
function targetOf(decision: Decision, cluster: Cluster): string | null {
  const { kind, name } = decision.object;
  const key = objectKey(decision);
  if (kind === "Pod" && cluster.pods.has(key)) return hrefTo("pod", key);
  if (kind === "Node" && cluster.nodes.has(name)) return hrefTo("node", name);
  return cluster.functions.has(`${kind}/${key}`) ? hrefTo("function", `${kind}/${key}`) : null;
}

function betterOrWorse({ would_differ: difference }: Decision): string {
  const sum = [difference?.seconds ?? 0, difference?.usd_per_hour ?? 0];
  if (sum.every((value) => value <= 0) && sum.some((value) => value < 0)) return "better";
  return sum.every((value) => value >= 0) && sum.some((value) => value > 0) ? "worse" : "";
}
