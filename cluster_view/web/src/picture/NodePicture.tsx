/** All nodes as tiles. The keyboard moves over them as over a list; a screen reader hears the one it is at. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Cluster } from "../cluster";
import { go, readRoute, type Route } from "../route";
import { freeOf, nodeInWords, phaseOf, priceOf, speedOf } from "../words";
import { useColours } from "./colours";
import { fit, layOut, position, TILE_SIZES } from "./layout";
import { MARGIN, Painter } from "./painter";

interface Props {
  cluster: Cluster;
  names: readonly string[];
  selected: Route["selected"];
}

interface Hint {
  x: number;
  y: number;
  title: string;
  lines: string[];
}

export function NodePicture({ cluster, names, selected }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const tilesCanvas = useRef<HTMLCanvasElement>(null);
  const overCanvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<Painter | null>(null);
  const [width, room] = useRoom(scroller);
  const [chosen, choose] = useState<number | null>(null);
  const [active, setActive] = useState(0);
  const [focused, setFocused] = useState(false);
  const [hovered, setHovered] = useState<number | null>(null);
  const [hint, setHint] = useState<Hint | null>(null);
  const colours = useColours();

  const within = width - 2 * MARGIN;
  const least = chosen ?? fit(names.length, within, room - 2 * MARGIN);
  const grid = layOut(names.length, within, least);
  const { tile } = grid;
  const height = Math.min(room, grid.height + 2 * MARGIN);
  const at = Math.min(active, names.length - 1);
  const node = cluster.nodes.get(names[at] ?? "");

  useLayoutEffect(() => {
    painter.current = new Painter(cluster, scroller.current!, tilesCanvas.current!, overCanvas.current!);
    return cluster.subscribe((touched) => touched !== null && painter.current?.touch(touched));
  }, [cluster]);
  useLayoutEffect(() => {
    if (width > 0) painter.current?.show({ names, grid, colours, selected }, width, height);
  }, [names, grid.tile, grid.columns, colours, selected, width, height]);
  useLayoutEffect(() => {
    painter.current?.mark({ active: focused ? at : null, hovered });
  }, [focused, at, hovered]);

  const moveTo = (index: number) => {
    const next = Math.max(0, Math.min(names.length - 1, index));
    const { y } = position(grid, next);
    const view = scroller.current!;
    if (y < view.scrollTop) view.scrollTop = y;
    else if (y + tile + 2 * MARGIN > view.scrollTop + height) view.scrollTop = y + tile + 2 * MARGIN - height;
    setActive(next);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(height / (tile + grid.gap))) * grid.columns;
    const step: Record<string, number> = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at - grid.columns,
      ArrowDown: at + grid.columns,
      PageUp: at - page,
      PageDown: at + page,
      Home: 0,
      End: names.length - 1,
    };
    const next = step[event.key];
    if (next !== undefined) moveTo(next);
    else if (event.key === "Enter" || event.key === " ") open("node", names[at]);
    else return;
    event.preventDefault();
  };
  const pointed = (event: MouseEvent) => {
    const view = scroller.current!.getBoundingClientRect();
    const [x, y] = [event.clientX - view.left, event.clientY - view.top];
    return { x, y, found: painter.current?.at(x, y) ?? null };
  };
  const onMove = (event: MouseEvent) => {
    const { x, y, found } = pointed(event);
    setHovered(found?.index ?? null);
    if (found === null) return setHint(null);
    const { node, pod } = found;
    const lines =
      pod === null ? [freeOf(node), `${speedOf(node)}, ${priceOf(node)}`] : [phaseOf(pod), `on ${node.name}`];
    setHint({ x, y, title: pod?.key ?? node.name, lines });
  };
  const onClick = (event: MouseEvent) => {
    const { found } = pointed(event);
    if (found === null) return;
    setActive(found.index);
    if (found.pod === null) open("node", found.node.name);
    else open("pod", found.pod.key);
  };
  const zoom = (by: number) => {
    const next = TILE_SIZES[TILE_SIZES.findIndex((size) => size === least) + by];
    if (next !== undefined) choose(next);
  };

  return (
    <div class="picture">
      <div class="zoom" role="group" aria-label="Size of tiles">
        <button type="button" onClick={() => zoom(1)} disabled={least === TILE_SIZES.at(-1)} aria-label="Smaller tiles">
          −
        </button>
        <button type="button" onClick={() => choose(null)} disabled={chosen === null}>
          fit
        </button>
        <button type="button" onClick={() => zoom(-1)} disabled={least === TILE_SIZES[0]} aria-label="Larger tiles">
          +
        </button>
      </div>
      <div
        class="tiles"
        ref={scroller}
        role="listbox"
        aria-label="Nodes. Arrow keys move, Enter opens."
        tabIndex={0}
        aria-activedescendant={node === undefined ? undefined : "active-node"}
        style={{ height: `${height}px` }}
        onKeyDown={onKeyDown}
        onFocus={() => setFocused(true)}
        onBlur={() => setFocused(false)}
        onScroll={() => painter.current?.paint()}
        onMouseMove={onMove}
        onMouseLeave={() => (setHovered(null), setHint(null))}
        onClick={onClick}
      >
        {node !== undefined && (
          <div
            id="active-node"
            class="unseen"
            role="option"
            aria-selected={selected?.kind === "node" && selected.key === node.name}
            aria-posinset={at + 1}
            aria-setsize={names.length}
          >
            {node.name}: {nodeInWords(node)}
          </div>
        )}
        <div class="sheet" role="presentation" style={{ height: `${grid.height + 2 * MARGIN}px` }}>
          <div class="canvases" role="presentation">
            <canvas ref={tilesCanvas} role="presentation" />
            <canvas ref={overCanvas} role="presentation" />
          </div>
        </div>
      </div>
      {hint !== null && (
        <div
          class="hint"
          aria-hidden="true"
          style={{ [hint.x > width / 2 ? "right" : "left"]: `${hint.x > width / 2 ? width - hint.x + 12 : hint.x + 12}px`, top: `${hint.y + 16}px` }}
        >
          <strong>{hint.title}</strong>
          {hint.lines.map((line) => (
            <span key={line}>{line}</span>
          ))}
        </div>
      )}
    </div>
  );
}

function open(kind: "node" | "pod", key: string | undefined): void {
  if (key !== undefined) go({ ...readRoute(location.hash), selected: { kind, key } });
}

/** The width there is, and the height that tiles may take of the window. */
function useRoom(element: { current: HTMLElement | null }): [number, number] {
  const [size, setSize] = useState<[number, number]>([0, 0]);
  useEffect(() => {
    const measured = element.current!;
    const measure = () => setSize([measured.clientWidth, Math.round(innerHeight * 0.6)]);
    const observer = new ResizeObserver(measure);
    observer.observe(measured);
    addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      removeEventListener("resize", measure);
    };
  }, []);
  return size;
}
