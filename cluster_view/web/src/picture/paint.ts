/** Draws one tile. What a tile says in words, the table and the panel say, too. */

import { dollars, number } from "../format";
import type { Node, Pod } from "../model";
import type { Colours } from "./colours";
import { shapeOf, type Rect, type Shape } from "./shape";

/** From this size on a tile has text. */
const WITH_TEXT = 112;
const FONT = "ui-sans-serif, system-ui, sans-serif";

/** The box inside a tile in which pods stand. */
export function boxOf(tile: number): Rect {
  if (tile >= WITH_TEXT) return { x: 0, y: 20, width: tile, height: tile - 46 };
  return { x: 0, y: 0, width: tile, height: tile - (tile >= 44 ? 6 : 4) };
}

export function paintTile(
  context: CanvasRenderingContext2D,
  node: Node,
  pods: Iterable<Pod>,
  tile: number,
  colours: Colours,
): void {
  const shape = shapeOf(node, pods, boxOf(tile));
  paintShape(context, shape, colours, tile >= 44 ? 1 : 0.5);
  if (!node.ready || !node.schedulable) paintBlocked(context, shape.box, node.ready ? colours.soft : colours.failed);
  paintSpeed(context, node, tile, colours);
  if (tile >= WITH_TEXT) paintText(context, node, tile, colours);
}

export function paintShape(context: CanvasRenderingContext2D, shape: Shape, colours: Colours, gap: number): void {
  const { box, free } = shape;
  context.fillStyle = colours.taken;
  context.fillRect(box.x, box.y, box.width, box.height);
  if (free.width > 0 && free.height > 0) {
    context.fillStyle = colours.free;
    context.fillRect(free.x, free.y, free.width, free.height);
    if (free.width > 4 && free.height > 4) {
      context.strokeStyle = colours.freeLine;
      context.lineWidth = 1;
      context.strokeRect(free.x + 0.5, free.y + 0.5, free.width - 1, free.height - 1);
    }
  }
  for (const { pod, rect } of shape.pods) {
    context.fillStyle = colours.phase[pod.phase];
    const room = rect.width > 4 && rect.height > 4 ? gap : 0;
    context.fillRect(rect.x, rect.y + room, rect.width - room, rect.height - room);
  }
}

/** Hatched: nothing new comes here. */
function paintBlocked(context: CanvasRenderingContext2D, box: Rect, colour: string): void {
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.width, box.height);
  context.clip();
  context.strokeStyle = colour;
  context.globalAlpha = 0.55;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = -box.height; x < box.width; x += 6) {
    context.moveTo(box.x + x, box.y + box.height);
    context.lineTo(box.x + x + box.height, box.y);
  }
  context.stroke();
  context.restore();
}

/** A line as long as the node is fast: half is the median, all is twice as fast. */
function paintSpeed(context: CanvasRenderingContext2D, node: Node, tile: number, colours: Colours): void {
  const height = tile >= 44 ? 3 : 2;
  const y = tile >= WITH_TEXT ? tile - 22 : tile - height;
  context.fillStyle = colours.track;
  context.fillRect(0, y, tile, height);
  if (node.relative_speed === null) return;
  context.fillStyle = colours.fast;
  context.fillRect(0, y, (tile * Math.min(2, Math.max(0, node.relative_speed))) / 2, height);
}

function paintText(context: CanvasRenderingContext2D, node: Node, tile: number, colours: Colours): void {
  context.textBaseline = "alphabetic";
  const price = node.usd_per_hour === null ? "" : `${dollars(node.usd_per_hour)}/h`;
  const speed = node.relative_speed === null ? "" : `${number(node.relative_speed)}×`;
  context.font = `11px ${FONT}`;
  context.fillStyle = colours.soft;
  context.textAlign = "left";
  context.fillText(speed, 0, tile - 5);
  context.textAlign = "right";
  context.fillText(price, tile, tile - 5);
  const creating = node.creating > 0 ? `+${node.creating}` : "";
  context.fillStyle = colours.phase.Creating;
  context.font = `600 12px ${FONT}`;
  context.fillText(creating, tile, 13);
  const room = tile - (creating === "" ? 0 : context.measureText(creating).width + 6);
  context.fillStyle = colours.ink;
  context.font = `500 12px ${FONT}`;
  context.textAlign = "left";
  context.fillText(shortened(context, node.name, room), 0, 13);
}

/** The end of a node's name tells it from the others. */
function shortened(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let from = 1;
  while (from < text.length && context.measureText(`…${text.slice(from)}`).width > room) from += 1;
  return `…${text.slice(from)}`;
}
