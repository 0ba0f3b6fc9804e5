/** What is looked at stands in the URL, so that it can be shared, and the browser's Back works. */

import { useEffect, useState } from "preact/hooks";

export type Kind = "node" | "pod" | "function";
export type TableOf = "nodes" | "pods" | "functions";

export interface Route {
  table: TableOf | null;
  selected: { kind: Kind; key: string } | null;
}

const KINDS: readonly Kind[] = ["node", "pod", "function"];
const TABLES: readonly TableOf[] = ["nodes", "pods", "functions"];

export function readRoute(hash: string): Route {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const table = TABLES.find((name) => name === parameters.get("table")) ?? null;
  for (const kind of KINDS) {
    const key = parameters.get(kind);
    if (key !== null) return { table, selected: { kind, key } };
  }
  return { table, selected: null };
}

export function href(route: Route): string {
  const parameters = new URLSearchParams();
  if (route.table !== null) parameters.set("table", route.table);
  if (route.selected !== null) parameters.set(route.selected.kind, route.selected.key);
  return `#${parameters}`;
}

/** Keeps the view, changes what is selected. */
export function hrefTo(kind: Kind, key: string): string {
  return href({ ...readRoute(location.hash), selected: { kind, key } });
}

export function go(route: Route): void {
  location.hash = href(route);
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => readRoute(location.hash));
  useEffect(() => {
    const changed = () => setRoute(readRoute(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
