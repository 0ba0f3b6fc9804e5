/** Pods on their way: those that wait for a node, and those being created. */

import type { Cluster } from "./cluster";
import { elapsed, plural, secondsBetween } from "./format";
import type { Pod } from "./model";
import { hrefTo } from "./route";

const SHOWN = 24;

export function Starting({ cluster }: { cluster: Cluster }) {
  const oldestFirst = [...cluster.starting.values()].sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
  const waiting = oldestFirst.filter((pod) => pod.node === null).length;
  const more = oldestFirst.length - SHOWN;
  return (
    <section aria-labelledby="starting-title">
      <h2 id="starting-title">
        Pods on their way <small>{summary(oldestFirst.length - waiting, waiting)}</small>
      </h2>
      {oldestFirst.length > 0 && (
        <ul class="pods">
          {oldestFirst.slice(0, SHOWN).map((pod) => (
            <Row key={pod.key} pod={pod} now={cluster.at} />
          ))}
          {more > 0 && <li class="more">and {plural(more, "other")}</li>}
        </ul>
      )}
    </section>
  );
}

function Row({ pod, now }: { pod: Pod; now: string }) {
  return (
    <li>
      <a href={hrefTo("pod", pod.key)}>
        <i class={`dot ${pod.phase}`} aria-hidden="true" />
        <bdi class="name">{pod.key}</bdi>
        <span class="soft">{pod.node === null ? "waits for a node" : <>on {pod.node}</>}</span>
        <span class="figure">{elapsed(secondsBetween(pod.created_at, now))}</span>
      </a>
    </li>
  );
}

function summary(creating: number, waiting: number): string {
  if (creating + waiting === 0) return "none";
  const parts = [];
  if (creating > 0) parts.push(`${plural(creating, "pod")} being created`);
  if (waiting > 0) parts.push(`${plural(waiting, "pod")} without a node`);
  return parts.join(", ");
}
