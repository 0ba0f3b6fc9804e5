/** Which nodes are shown, and in what order. Pure. */

import type { Cluster } from "./cluster";
import type { Node } from "./model";
import { free } from "./words";

export const ORDERS = {
  name: null,
  speed: (node: Node) => -(node.relative_speed ?? 0),
  price: (node: Node) => -(node.usd_per_hour ?? 0),
  "free CPU": (node: Node) => -free(node.cpu),
  "free memory": (node: Node) => -free(node.memory),
} as const;

export type Order = keyof typeof ORDERS;

const byName = new Intl.Collator("en", { numeric: true });

export function ordered(cluster: Cluster, order: Order, find: string): string[] {
  const sought = find.trim().toLowerCase();
  const nodes = [...cluster.nodes.values()].filter((node) => sought === "" || matches(cluster, node, sought));
  const rank = ORDERS[order];
  nodes.sort((a, b) => (rank === null ? 0 : rank(a) - rank(b)) || byName.compare(a.name, b.name));
  return nodes.map((node) => node.name);
}

function matches(cluster: Cluster, node: Node, sought: string): boolean {
  const texts = [node.name, node.instance_type, node.zone, node.rented_by];
  if (texts.some((text) => text?.toLowerCase().includes(sought))) return true;
  for (const pod of cluster.podsOn(node.name)) if (pod.key.toLowerCase().includes(sought)) return true;
  return false;
}
