/** The page's copy of the cluster: one snapshot, then changes, applied one object at a time. */

import type { Change, Decision, Fn, Head, Node, Pod, Snapshot } from "./model";

const DECISIONS_KEPT = 200;
const NO_HEAD: Head = { nodes: 0, pods: 0, usd_per_hour: null, requests_per_s: null, cold_starts_last_minute: null };

/** The nodes to draw again; null: all of them, because nodes came or went. */
export type Touched = ReadonlySet<string> | null;
type Listener = (touched: Touched) => void;

export class Cluster {
  name = "";
  at = "";
  loaded = false;
  head = NO_HEAD;
  decisions: Decision[] = [];
  readonly nodes = new Map<string, Node>();
  readonly pods = new Map<string, Pod>();
  readonly functions = new Map<string, Fn>();
  /** Pods that are not Ready yet, whether they have a node or not. */
  readonly starting = new Map<string, Pod>();
  private readonly byNode = new Map<string, Map<string, Pod>>();
  private readonly listeners = new Set<Listener>();

  /** In the order in which they came, so that a change of one pod moves no other. */
  podsOn(node: string): Iterable<Pod> {
    return this.byNode.get(node)?.values() ?? [];
  }

  podsOf(fn: string): Pod[] {
    return [...this.pods.values()].filter((pod) => pod.function === fn);
  }

  replace(snapshot: Snapshot): void {
    for (const map of [this.nodes, this.pods, this.functions, this.starting, this.byNode]) map.clear();
    this.name = snapshot.cluster;
    this.decisions = [];
    this.loaded = true;
    this.take(snapshot);
    this.tell(null);
  }

  apply(change: Change): void {
    this.tell(this.take(change));
  }

  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  private take(change: Change): Touched {
    const touched = new Set<string>();
    let nodesCameOrWent = false;
    this.at = change.at;
    this.head = change.head;
    for (const [name, node] of Object.entries(change.nodes)) {
      nodesCameOrWent ||= this.nodes.has(name) !== (node !== null);
      put(this.nodes, name, node);
      touched.add(name);
    }
    for (const [key, pod] of Object.entries(change.pods)) this.takePod(key, pod, touched);
    for (const [key, fn] of Object.entries(change.functions)) put(this.functions, key, fn);
    if (change.decisions.length > 0) {
      this.decisions = [...change.decisions, ...this.decisions].slice(0, DECISIONS_KEPT);
    }
    return nodesCameOrWent ? null : touched;
  }

  private takePod(key: string, pod: Pod | null, touched: Set<string>): void {
    const before = this.pods.get(key)?.node ?? null;
    const now = pod?.node ?? null;
    if (before !== null && before !== now) {
      this.byNode.get(before)?.delete(key);
      touched.add(before);
    }
    if (pod !== null && now !== null) {
      let there = this.byNode.get(now);
      if (there === undefined) this.byNode.set(now, (there = new Map()));
      there.set(key, pod);
      touched.add(now);
    }
    put(this.pods, key, pod);
    put(this.starting, key, pod !== null && (pod.phase === "Pending" || pod.phase === "Creating") ? pod : null);
  }

  private tell(touched: Touched): void {
    for (const listener of this.listeners) listener(touched);
  }
}

function put<V>(map: Map<string, V>, key: string, value: V | null): void {
  if (value === null) map.delete(key);
  else map.set(key, value);
}
