/** Rows of the cluster, said in a sentence: for tooltips and for screen readers. */

import { bytes, cores, dollars, number, plural, seconds } from "./format";
import type { Fn, Node, Pod, Room, WouldDiffer } from "./model";

export function free(room: Room): number {
  return Math.max(0, room.allocatable - room.requested);
}

export function freeOf(node: Node): string {
  return `${cores(free(node.cpu))} and ${bytes(free(node.memory))} free`;
}

export function speedOf(node: Node): string {
  return node.relative_speed === null ? "speed unknown" : `${number(node.relative_speed)}× the median speed`;
}

export function priceOf(node: Node): string {
  return node.usd_per_hour === null ? "price unknown" : `${dollars(node.usd_per_hour)} an hour`;
}

export function stateOf(node: Node): string {
  if (!node.ready) return "not ready";
  return node.schedulable ? "ready" : "takes no new pods";
}

export function nodeInWords(node: Node): string {
  const creating = node.creating > 0 ? `, ${number(node.creating)} being created` : "";
  const parts = [`${plural(node.pods, "pod")}${creating}`, freeOf(node), speedOf(node), priceOf(node)];
  return `${stateOf(node) === "ready" ? "" : `${stateOf(node)}; `}${parts.join("; ")}`;
}

export function phaseOf(pod: Pod): string {
  const words = { Pending: "waits for a node", Creating: "being created", Terminating: "ends", Failed: "failed" };
  if (pod.phase !== "Ready") return words[pod.phase] ?? pod.phase;
  return pod.ready_after_s === null ? "Ready" : `Ready after ${seconds(pod.ready_after_s)}`;
}

export function replicasOf(fn: Fn): string {
  const { ready, desired } = fn.replicas;
  return `${ready ?? "unknown"} of ${desired ?? "unknown"} ready`;
}

export function nameOf(key: string): string {
  return key.slice(key.lastIndexOf("/") + 1);
}

/** null: nothing to compare with. */
export function differenceInWords(difference: WouldDiffer): string | null {
  const { seconds: s, usd_per_hour: usd } = difference;
  const parts: string[] = [];
  if (s !== null && s !== 0) parts.push(`${seconds(Math.abs(s))} ${s < 0 ? "sooner" : "later"}`);
  if (usd !== null && usd !== 0) parts.push(`${dollars(Math.abs(usd))} an hour ${usd < 0 ? "cheaper" : "dearer"}`);
  if (parts.length > 0) return parts.join(", ");
  return s === null && usd === null ? null : "the same";
}
