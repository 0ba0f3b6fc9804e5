import { count, dollars, number, timeOfDay, UNKNOWN } from "./format";
import type { Head } from "./model";

interface Props {
  name: string;
  head: Head;
  at: string;
  connected: boolean;
}

export function HeadLine({ name, head, at, connected }: Props) {
  const figures: [string, string | null][] = [
    [head.nodes === 1 ? "node" : "nodes", count(head.nodes)],
    [head.pods === 1 ? "pod" : "pods", count(head.pods)],
    ["an hour", head.usd_per_hour === null ? null : dollars(head.usd_per_hour)],
    ["requests a second", head.requests_per_s === null ? null : number(head.requests_per_s)],
    ["cold starts in the last minute", head.cold_starts_last_minute === null ? null : number(head.cold_starts_last_minute)],
  ];
  return (
    <header>
      <div class="title">
        <h1>
          <span class="brand">surgekit</span> <bdi>{name}</bdi>
        </h1>
        <p class={connected ? "connection" : "connection lost"} role="status">
          {connected ? "live" : `Connection lost. This is the cluster as it was at ${timeOfDay(at)}; trying again.`}
        </p>
      </div>
      <dl class="figures">
        {figures.map(([what, value]) => (
          <div key={what}>
            <dt>{what}</dt>
            <dd class={value === null ? "unknown" : undefined}>{value ?? UNKNOWN}</dd>
          </div>
        ))}
      </dl>
    </header>
  );
}
