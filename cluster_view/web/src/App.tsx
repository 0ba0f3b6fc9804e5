import { useEffect, useState } from "preact/hooks";
import type { Cluster } from "./cluster";
import { Decisions } from "./Decisions";
import { Panel } from "./detail/Panel";
import { Functions } from "./Functions";
import { HeadLine } from "./HeadLine";
import { ordered, ORDERS, type Order } from "./order";
import { NodePicture } from "./picture/NodePicture";
import { href, useRoute } from "./route";
import { Starting } from "./Starting";
import { listen } from "./stream";
import { Tables } from "./Tables";
import { useCluster } from "./useCluster";

const LEGEND = [
  ["Ready", "Ready"],
  ["Creating", "being created"],
  ["Terminating", "ends"],
  ["Failed", "failed"],
] as const;

export function App({ cluster }: { cluster: Cluster }) {
  const [connected, setConnected] = useState(true);
  const [find, setFind] = useState("");
  const [order, setOrder] = useState<Order>("name");
  const route = useRoute();
  const names = useOrder(cluster, order, find);
  useCluster(cluster);
  useEffect(
    () =>
      listen("events", {
        onState: (snapshot) => cluster.replace(snapshot),
        onChange: (change) => cluster.apply(change),
        onConnection: setConnected,
      }),
    [cluster],
  );
  useEffect(() => {
    document.title = cluster.name === "" ? "surgekit" : `${cluster.name} · surgekit`;
  }, [cluster.name]);

  return (
    <div class={connected ? "page" : "page stale"}>
      <a class="skip" href="#right" onClick={skip}>
        Skip to decisions
      </a>
      <HeadLine name={cluster.name} head={cluster.head} at={cluster.at} connected={connected} />
      <main aria-busy={!cluster.loaded}>
        <div class="left">
          <section aria-labelledby="nodes-title">
            <div class="section-head">
              <h2 id="nodes-title">{route.table === null ? "Nodes" : "Tables"}</h2>
              <nav class="choice" aria-label="How it is shown">
                <a href={href({ ...route, table: null })} aria-current={route.table === null ? "true" : undefined}>
                  picture
                </a>
                <a href={href({ ...route, table: route.table ?? "nodes" })} aria-current={route.table === null ? undefined : "true"}>
                  tables
                </a>
              </nav>
              {route.table === null && (
                <label>
                  by{" "}
                  <select value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
                    {Object.keys(ORDERS).map((name) => (
                      <option key={name}>{name}</option>
                    ))}
                  </select>
                </label>
              )}
              <label>
                find{" "}
                <input type="search" value={find} onInput={(event) => setFind(event.currentTarget.value)} placeholder="node, zone, pod" />
              </label>
            </div>
            {route.table === null ? (
              <>
                <NodePicture cluster={cluster} names={names} selected={route.selected} />
                <Legend />
              </>
            ) : (
              <Tables cluster={cluster} of={route.table} find={find} />
            )}
          </section>
          <Functions functions={cluster.functions} />
          <Starting cluster={cluster} />
        </div>
        {route.selected === null ? (
          <Decisions cluster={cluster} />
        ) : (
          <Panel cluster={cluster} selected={route.selected} />
        )}
      </main>
    </div>
  );
}

function Legend() {
  return (
    <ul class="legend">
      {LEGEND.map(([phase, words]) => (
        <li key={phase}>
          <i class={`dot ${phase}`} /> {words}
        </li>
      ))}
      <li>
        <i class="free-mark" /> free: CPU across, memory upwards
      </li>
      <li>
        <i class="speed-mark" /> speed: half is the median
      </li>
    </ul>
  );
}

/** A new list only when nodes come or go, so that tiles stay where they are. */
function useOrder(cluster: Cluster, order: Order, find: string): readonly string[] {
  const [names, setNames] = useState<readonly string[]>([]);
  useEffect(() => {
    const renew = () => setNames(ordered(cluster, order, find));
    renew();
    return cluster.subscribe((touched) => touched === null && renew());
  }, [cluster, order, find]);
  return names;
}

/** The hash is the view's: move the focus instead. */
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.querySelector<HTMLElement>(".right button")?.focus();
}
