/**
 * A node as a shape: across its CPU, upwards its memory. Pods stand corner to corner from the bottom left, so the
 * rectangle that is left at the top right is what one more pod can have. Pure.
 */

import type { Node, Pod, Room } from "../model";

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Shape {
  box: Rect;
  free: Rect;
  pods: { pod: Pod; rect: Rect }[];
}

/** A pod that asks for nothing is still seen and can be clicked. */
const SMALLEST = 2;

export function shapeOf(node: Node, pods: Iterable<Pod>, box: Rect): Shape {
  const usedCpu = share(node.cpu.requested, node.cpu) * box.width;
  const usedMemory = share(node.memory.requested, node.memory) * box.height;
  const free = { x: box.x + usedCpu, y: box.y, width: box.width - usedCpu, height: box.height - usedMemory };
  const placed: Shape["pods"] = [];
  let across = 0;
  let up = 0;
  for (const pod of pods) {
    const width = share(pod.cpu, node.cpu) * box.width;
    const height = share(pod.memory, node.memory) * box.height;
    const drawnWidth = Math.max(width, SMALLEST);
    const drawnHeight = Math.max(height, SMALLEST);
    placed.push({
      pod,
      rect: {
        x: box.x + clamp(across, box.width - drawnWidth),
        y: box.y + box.height - clamp(up, box.height - drawnHeight) - drawnHeight,
        width: drawnWidth,
        height: drawnHeight,
      },
    });
    across += width;
    up += height;
  }
  return { box, free, pods: placed };
}

/** The pod at a point, with a little room around small ones. */
export function podAt(shape: Shape, x: number, y: number): Pod | null {
  let nearest: Pod | null = null;
  let least = 3;
  for (const { pod, rect } of shape.pods) {
    const away = Math.max(rect.x - x, x - rect.x - rect.width, rect.y - y, y - rect.y - rect.height, 0);
    if (away < least) [nearest, least] = [pod, away];
  }
  return nearest;
}

function share(part: number, room: Room): number {
  return room.allocatable > 0 ? Math.min(1, Math.max(0, part / room.allocatable)) : Number(part > 0);
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(value, most));
}
