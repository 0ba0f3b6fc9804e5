/** The same data as tables: for screen readers, for sorting, and for copying. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Cluster } from "./cluster";
import { bytes, cores, count, dollars, number, plural, seconds, UNKNOWN } from "./format";
import type { Fn, Node, Pod } from "./model";
import { href, hrefTo, readRoute, type Kind, type TableOf } from "./route";
import { free, replicasOf, stateOf } from "./words";

const ROWS_A_PAGE = 100;

type Cell = string | number | null;

interface Column<Row> {
  title: string;
  /** What it sorts by; null comes last. */
  value(row: Row): Cell;
  show?(row: Row): ComponentChildren;
  numeric?: boolean;
}

const NODES: Column<Node>[] = [
  { title: "node", value: (n) => n.name, show: (n) => <Link kind="node" to={n.name} /> },
  { title: "state", value: stateOf },
  { title: "instance", value: (n) => n.instance_type, show: (n) => orUnknown(n.instance_type) },
  { title: "zone", value: (n) => n.zone, show: (n) => orUnknown(n.zone) },
  { title: "$/h", value: (n) => n.usd_per_hour, show: (n) => orUnknown(n.usd_per_hour, dollars), numeric: true },
  { title: "speed", value: (n) => n.relative_speed, show: (n) => orUnknown(n.relative_speed, (v) => `${number(v)}×`), numeric: true },
  { title: "creation", value: (n) => n.creation_s, show: (n) => orUnknown(n.creation_s, seconds), numeric: true },
  { title: "free CPU", value: (n) => free(n.cpu), show: (n) => `${number(free(n.cpu))} of ${cores(n.cpu.allocatable)}`, numeric: true },
  { title: "free memory", value: (n) => free(n.memory), show: (n) => `${bytes(free(n.memory))} of ${bytes(n.memory.allocatable)}`, numeric: true },
  { title: "pods", value: (n) => n.pods, numeric: true },
  { title: "being created", value: (n) => n.creating, numeric: true },
];

const PODS: Column<Pod>[] = [
  { title: "pod", value: (p) => p.key, show: (p) => <Link kind="pod" to={p.key} /> },
  { title: "phase", value: (p) => p.phase },
  { title: "node", value: (p) => p.node, show: (p) => (p.node === null ? "none yet" : <Link kind="node" to={p.node} />) },
  { title: "function", value: (p) => p.function, show: (p) => p.function && <Link kind="function" to={p.function} /> },
  { title: "CPU", value: (p) => p.cpu, show: (p) => cores(p.cpu), numeric: true },
  { title: "memory", value: (p) => p.memory, show: (p) => bytes(p.memory), numeric: true },
  { title: "Ready after", value: (p) => p.ready_after_s, show: (p) => (p.ready_after_s === null ? "" : seconds(p.ready_after_s)), numeric: true },
];

const FUNCTIONS: Column<Fn>[] = [
  { title: "function", value: (f) => f.key, show: (f) => <Link kind="function" to={f.key} /> },
  { title: "mode", value: (f) => f.mode },
  { title: "replicas", value: (f) => f.replicas.ready, show: replicasOf, numeric: true },
  { title: "sizes", value: (f) => f.sizes.length, show: (f) => f.sizes.map((s) => `${s.count} × ${cores(s.cpu)}, ${bytes(s.memory)}`).join("; ") },
  { title: "knee", value: (f) => f.knee, numeric: true },
  { title: "CPU limit", value: (f) => f.limits?.cpu ?? null, show: (f) => f.limits && cores(f.limits.cpu), numeric: true },
  { title: "memory limit", value: (f) => f.limits?.memory ?? null, show: (f) => f.limits && bytes(f.limits.memory), numeric: true },
  { title: "regular", value: (f) => f.tracks?.regular ?? null, numeric: true },
  { title: "emergency", value: (f) => f.tracks?.emergency ?? null, numeric: true },
];

export function Tables({ cluster, of, find }: { cluster: Cluster; of: TableOf; find: string }) {
  const { selected } = readRoute(location.hash);
  return (
    <div class="tables">
      <nav class="choice" aria-label="Which table">
        {(["nodes", "pods", "functions"] as const).map((name) => (
          <a key={name} href={href({ table: name, selected })} aria-current={name === of ? "true" : undefined}>
            {name} {count(cluster[name].size)}
          </a>
        ))}
      </nav>
      {of === "nodes" && <Sorted key="nodes" caption="Nodes" columns={NODES} rows={[...cluster.nodes.values()]} find={find} keyOf={(n) => n.name} />}
      {of === "pods" && <Sorted key="pods" caption="Pods" columns={PODS} rows={[...cluster.pods.values()]} find={find} keyOf={(p) => p.key} />}
      {of === "functions" && <Sorted key="functions" caption="Functions" columns={FUNCTIONS} rows={[...cluster.functions.values()]} find={find} keyOf={(f) => f.key} />}
    </div>
  );
}

interface SortedProps<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  find: string;
  keyOf(row: Row): string;
}

function Sorted<Row>({ caption, columns, rows, find, keyOf }: SortedProps<Row>) {
  const [by, setBy] = useState({ column: 0, ascending: true });
  const [page, setPage] = useState(0);
  const sought = find.toLowerCase();
  const found = sought === "" ? rows : rows.filter((row) => columns.some((c) => String(c.value(row) ?? "").toLowerCase().includes(sought)));
  const { value } = columns[by.column]!;
  found.sort((a, b) => compare(value(a), value(b)) * (by.ascending ? 1 : -1));
  const pages = Math.max(1, Math.ceil(found.length / ROWS_A_PAGE));
  const at = Math.min(page, pages - 1);
  const seen = found.slice(at * ROWS_A_PAGE, (at + 1) * ROWS_A_PAGE);
  return (
    <>
      <div class="table-room" tabIndex={0} role="region" aria-label={caption}>
        <table aria-rowcount={found.length + 1}>
          <caption class="unseen">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column, index) => (
                <th key={column.title} scope="col" class={column.numeric ? "numeric" : undefined} aria-sort={index !== by.column ? "none" : by.ascending ? "ascending" : "descending"}>
                  <button type="button" onClick={() => setBy({ column: index, ascending: index !== by.column || !by.ascending })}>
                    {column.title}
                    <span aria-hidden="true">{index !== by.column ? "" : by.ascending ? " ↑" : " ↓"}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {seen.map((row, index) => (
              <tr key={keyOf(row)} aria-rowindex={at * ROWS_A_PAGE + index + 2}>
                {columns.map((column) => (
                  <td key={column.title} class={column.numeric ? "numeric" : undefined}>
                    {column.show === undefined ? column.value(row) : column.show(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="pages">
        <span>{plural(found.length, "row")}</span>
        {pages > 1 && (
          <>
            <button type="button" disabled={at === 0} onClick={() => setPage(at - 1)}>
              previous
            </button>
            <span>
              page {at + 1} of {pages}
            </span>
            <button type="button" disabled={at === pages - 1} onClick={() => setPage(at + 1)}>
              next
            </button>
          </>
        )}
      </div>
    </>
  );
}

function Link({ kind, to }: { kind: Kind; to: string }) {
  return (
    <a href={hrefTo(kind, to)}>
      <bdi>{to}</bdi>
    </a>
  );
}

function orUnknown<V>(value: V | null, show: (value: V) => string = String): ComponentChildren {
  return value === null ? <span class="soft">{UNKNOWN}</span> : show(value);
}

function compare(a: Cell, b: Cell): number {
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? 1 : -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}
