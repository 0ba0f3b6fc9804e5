/** Keeps two canvases as the cluster is: one for tiles, one over it for what is marked. */

import type { Cluster, Touched } from "../cluster";
import type { Node, Pod } from "../model";
import type { Route } from "../route";
import type { Colours } from "./colours";
import { position, tileAt, visible, type Grid } from "./layout";
import { boxOf, paintTile } from "./paint";
import { podAt, shapeOf } from "./shape";

/** A pod drawn smaller than this is marked whole, not by a ring. */
const SMALL = 6;
/** Around the grid, for rings around tiles at its edges. */
export const MARGIN = 4;

export interface Scene {
  names: readonly string[];
  grid: Grid;
  colours: Colours;
  selected: Route["selected"];
}

export interface Marks {
  /** Index of the tile that the keyboard is at. */
  active: number | null;
  hovered: number | null;
}

export class Painter {
  private scene: Scene | null = null;
  private index = new Map<string, number>();
  private marks: Marks = { active: null, hovered: null };
  private width = 0;
  private height = 0;
  private readonly tiles: CanvasRenderingContext2D;
  private readonly over: CanvasRenderingContext2D;

  constructor(
    private readonly cluster: Cluster,
    private readonly scroller: HTMLElement,
    tiles: HTMLCanvasElement,
    over: HTMLCanvasElement,
  ) {
    this.tiles = tiles.getContext("2d")!;
    this.over = over.getContext("2d")!;
  }

  show(scene: Scene, width: number, height: number): void {
    if (scene.names !== this.scene?.names) this.index = new Map(scene.names.map((name, at) => [name, at]));
    this.scene = scene;
    this.resize(width, height);
    this.paint();
  }

  mark(marks: Marks): void {
    this.marks = marks;
    this.paintMarks();
  }

  paint(): void {
    if (this.scene === null) return;
    this.tiles.clearRect(0, 0, this.width, this.height);
    const { from, to } = this.inSight(this.scene);
    for (let at = from; at < to; at += 1) this.paintAt(this.scene, at);
    this.paintMarks();
    if (this.scene.names.length > 0) firstPicture();
  }

  /** Only the tiles in sight that changed. */
  touch(touched: NonNullable<Touched>): void {
    if (this.scene === null) return;
    const { from, to } = this.inSight(this.scene);
    for (const name of touched) {
      const at = this.index.get(name);
      if (at !== undefined && at >= from && at < to) this.paintAt(this.scene, at);
    }
    this.paintMarks();
  }

  /** What is at a point of the scroller. */
  at(x: number, y: number): { index: number; node: Node; pod: Pod | null } | null {
    if (this.scene === null) return null;
    const { grid, names } = this.scene;
    const [left, top] = [x - MARGIN, y + this.scroller.scrollTop - MARGIN];
    const index = tileAt(grid, names.length, left, top);
    const node = index === null ? undefined : this.cluster.nodes.get(names[index]!);
    if (index === null || node === undefined) return null;
    const corner = position(grid, index);
    const shape = shapeOf(node, this.cluster.podsOn(node.name), boxOf(grid.tile));
    return { index, node, pod: podAt(shape, left - corner.x, top - corner.y) };
  }

  private inSight(scene: Scene): { from: number; to: number } {
    return visible(scene.grid, scene.names.length, this.scroller.scrollTop - MARGIN, this.height);
  }

  private paintAt(scene: Scene, at: number): void {
    const node = this.cluster.nodes.get(scene.names[at]!);
    this.inTile(this.tiles, scene.grid, at, () => {
      this.tiles.clearRect(-1, -1, scene.grid.tile + 2, scene.grid.tile + 2);
      if (node === undefined) return;
      paintTile(this.tiles, node, this.cluster.podsOn(node.name), scene.grid.tile, scene.colours);
    });
  }

  private paintMarks(): void {
    const scene = this.scene;
    if (scene === null) return;
    this.over.clearRect(0, 0, this.width, this.height);
    const { colours, selected } = scene;
    const { from, to } = this.inSight(scene);
    if (selected !== null && selected.kind !== "node") {
      for (let at = from; at < to; at += 1) this.markPods(scene, at, (pod) => isMeant(pod, selected));
    }
    if (selected?.kind === "node") this.ring(scene, this.index.get(selected.key) ?? null, colours.ink, 2);
    this.ring(scene, this.marks.hovered, colours.soft, 1);
    this.ring(scene, this.marks.active, colours.focus, 2);
  }

  private markPods(scene: Scene, at: number, meant: (pod: Pod) => boolean): void {
    const node = this.cluster.nodes.get(scene.names[at]!);
    if (node === undefined) return;
    const shape = shapeOf(node, this.cluster.podsOn(node.name), boxOf(scene.grid.tile));
    this.inTile(this.over, scene.grid, at, () => {
      this.over.strokeStyle = this.over.fillStyle = scene.colours.ink;
      this.over.lineWidth = 1.5;
      for (const { pod, rect } of shape.pods) {
        if (!meant(pod)) continue;
        if (rect.width < SMALL || rect.height < SMALL) this.over.fillRect(rect.x, rect.y, rect.width, rect.height);
        else this.over.strokeRect(rect.x + 1, rect.y + 1, rect.width - 2, rect.height - 2);
      }
    });
  }

  private ring(scene: Scene, at: number | null, colour: string, width: number): void {
    if (at === null || at >= scene.names.length) return;
    this.inTile(this.over, scene.grid, at, () => {
      this.over.strokeStyle = colour;
      this.over.lineWidth = width;
      this.over.strokeRect(-2, -2, scene.grid.tile + 4, scene.grid.tile + 4);
    });
  }

  private inTile(context: CanvasRenderingContext2D, grid: Grid, at: number, draw: () => void): void {
    const { x, y } = position(grid, at);
    context.save();
    context.translate(MARGIN + x, MARGIN + y - this.scroller.scrollTop);
    draw();
    context.restore();
  }

  private resize(width: number, height: number): void {
    if (width === this.width && height === this.height) return;
    [this.width, this.height] = [width, height];
    const ratio = devicePixelRatio;
    for (const context of [this.tiles, this.over]) {
      const { canvas } = context;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
    }
  }
}

function isMeant(pod: Pod, selected: NonNullable<Scene["selected"]>): boolean {
  return selected.kind === "pod" ? pod.key === selected.key : pod.function === selected.key;
}

/** For `surgekit bench ui`: when there was something to see. */
function firstPicture(): void {
  if (performance.getEntriesByName("first-picture").length === 0) performance.mark("first-picture");
}
