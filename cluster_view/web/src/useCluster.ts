import { useEffect, useReducer } from "preact/hooks";
import type { Cluster } from "./cluster";

/** Renders again after each change, at most twice a second. */
export function useCluster(cluster: Cluster): void {
  const [, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => cluster.subscribe(() => again(undefined)), [cluster]);
}
