import { bytes, cores, number, plural } from "./format";
import type { Fn, Size } from "./model";
import { hrefTo } from "./route";
import { replicasOf } from "./words";

/** More than that is in the table. */
const SHOWN = 60;

export function Functions({ functions }: { functions: ReadonlyMap<string, Fn> }) {
  const sorted = [...functions.values()].sort((a, b) => a.key.localeCompare(b.key));
  const more = sorted.length - SHOWN;
  return (
    <section aria-labelledby="functions-title">
      <h2 id="functions-title">
        Functions <small>{sorted.length === 0 ? "none" : plural(sorted.length, "function")}</small>
      </h2>
      <ul class="functions">
        {sorted.slice(0, SHOWN).map((fn) => (
          <Card key={fn.key} fn={fn} />
        ))}
      </ul>
      {more > 0 && <p class="soft">and {plural(more, "other")}, in the table</p>}
    </section>
  );
}

function Card({ fn }: { fn: Fn }) {
  const { ready, desired } = fn.replicas;
  const most = Math.max(desired ?? 0, ready ?? 0, 1);
  return (
    <li>
      <a class="card" href={hrefTo("function", fn.key)}>
        <span class="card-title">
          <bdi class="name">{fn.name}</bdi> <Mode mode={fn.mode} />
        </span>
        <span class="soft">
          {fn.kind} in <bdi>{fn.namespace}</bdi>
        </span>
        <span class="bar" aria-hidden="true">
          <i class="ready" style={{ width: `${(100 * (ready ?? 0)) / most}%` }} />
          {fn.knee !== null && fn.knee <= most && <i class="knee" style={{ left: `${(100 * fn.knee) / most}%` }} />}
        </span>
        <span class="facts">
          <span>{replicasOf(fn)}</span>
          {fn.knee !== null && <span>knee at {fn.knee}</span>}
          {fn.limits !== null && (
            <span>
              limits {cores(fn.limits.cpu)}, {bytes(fn.limits.memory)}
            </span>
          )}
          {fn.tracks !== null && (
            <span>
              in flight: {number(fn.tracks.regular)} regular, {number(fn.tracks.emergency)} emergency
            </span>
          )}
        </span>
        {fn.sizes.length > 0 && <Sizes sizes={fn.sizes} />}
      </a>
    </li>
  );
}

/** Each size as a shape, as in the nodes: across its CPU, upwards its memory. */
export function Sizes({ sizes }: { sizes: readonly Size[] }) {
  const mostCpu = Math.max(...sizes.map((size) => size.cpu), 1e-9);
  const mostMemory = Math.max(...sizes.map((size) => size.memory), 1);
  return (
    <span class="sizes">
      {sizes.map((size) => (
        <span key={`${size.cpu}/${size.memory}`} class="size">
          <i
            aria-hidden="true"
            style={{
              width: `${4 + 18 * Math.max(0, size.cpu / mostCpu)}px`,
              height: `${4 + 18 * Math.max(0, size.memory / mostMemory)}px`,
            }}
          />
          {size.count} × {cores(size.cpu)}, {bytes(size.memory)}
        </span>
      ))}
    </span>
  );
}

export function Mode({ mode }: { mode: string }) {
  return <span class={`mode ${mode === "shadow" ? "shadow" : mode === "off" ? "off" : ""}`}>{mode}</span>;
}
