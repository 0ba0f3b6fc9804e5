/** Where the tiles are: a grid that scrolls. Pure. */

export interface Grid {
  /** Side of a tile and the gap after it, in CSS pixels. */
  tile: number;
  gap: number;
  columns: number;
  rows: number;
  height: number;
}

/** Least sides: from tiles with text to tiles that are only a shape. */
export const TILE_SIZES = [148, 112, 84, 60, 44, 32, 24] as const;

/** Tiles of at least this size, a little larger where that fills the width. */
export function layOut(count: number, width: number, least: number): Grid {
  const gap = least >= 84 ? 10 : least >= 44 ? 6 : 3;
  const columns = Math.max(1, Math.floor((width + gap) / (least + gap)));
  const tile = Math.max(least, Math.floor((width + gap) / columns) - gap);
  const rows = Math.ceil(count / columns);
  return { tile, gap, columns, rows, height: Math.max(0, rows * (tile + gap) - gap) };
}

/** The largest tiles with which everything is seen at once, else the smallest. */
export function fit(count: number, width: number, height: number): number {
  const fits = TILE_SIZES.find((least) => layOut(count, width, least).height <= height);
  return fits ?? TILE_SIZES[TILE_SIZES.length - 1]!;
}

export function position(grid: Grid, index: number): { x: number; y: number } {
  const step = grid.tile + grid.gap;
  return { x: (index % grid.columns) * step, y: Math.floor(index / grid.columns) * step };
}

/** The tiles of [from, to) can be seen. */
export function visible(grid: Grid, count: number, top: number, height: number): { from: number; to: number } {
  const step = grid.tile + grid.gap;
  const firstRow = Math.max(0, Math.floor(top / step));
  const lastRow = Math.floor((top + height) / step);
  return { from: Math.min(count, firstRow * grid.columns), to: Math.min(count, (lastRow + 1) * grid.columns) };
}

/** The tile at a point; null between tiles. */
export function tileAt(grid: Grid, count: number, x: number, y: number): number | null {
  const step = grid.tile + grid.gap;
  const column = Math.floor(x / step);
  const row = Math.floor(y / step);
  if (x < 0 || y < 0 || column >= grid.columns || x % step > grid.tile || y % step > grid.tile) return null;
  const index = row * grid.columns + column;
  return index < count ? index : null;
}
