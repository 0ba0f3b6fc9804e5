import { useLayoutEffect, useRef } from "preact/hooks";
import type { Cluster } from "../cluster";
import { bytes, cores, count, dollars, number, plural, seconds, UNKNOWN } from "../format";
import type { Node, Pod, Room } from "../model";
import { useColours } from "../picture/colours";
import { paintShape } from "../picture/paint";
import { shapeOf } from "../picture/shape";
import { free, stateOf } from "../words";
import { Facts, PodList, Sentences } from "./parts";

const SIDE = 220;

export function NodePanel({ cluster, name }: { cluster: Cluster; name: string }) {
  const node = cluster.nodes.get(name);
  if (node === undefined) return <p class="soft">This node is not there.</p>;
  const pods = [...cluster.podsOn(name)];
  return (
    <>
      <div class="node-shape">
        <Large node={node} pods={pods} />
        <Facts
          facts={[
            ["costs", node.usd_per_hour === null ? UNKNOWN : `${dollars(node.usd_per_hour)} an hour`],
            ["rented by", node.rented_by],
            ["instance", [node.instance_type, node.zone].filter(Boolean).join(", ") || UNKNOWN],
            ["state", stateOf(node)],
            ["speed", node.relative_speed === null ? UNKNOWN : `${number(node.relative_speed)}× the median`],
            ["one creation", measured(node)],
          ]}
        />
      </div>
      <Meter title="CPU" room={node.cpu} show={cores} />
      <Meter title="memory" room={node.memory} show={bytes} />
      <Sentences title="Why it is there, and what it costs" sentences={node.why} />
      <h3>
        {plural(pods.length, "pod")}
        {node.creating > 0 && `, ${count(node.creating)} being created`}
      </h3>
      <PodList pods={pods} />
    </>
  );
}

function Large({ node, pods }: { node: Node; pods: Pod[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = useColours();
  useLayoutEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    canvas.current!.width = canvas.current!.height = SIDE * devicePixelRatio;
    context.scale(devicePixelRatio, devicePixelRatio);
    paintShape(context, shapeOf(node, pods, { x: 0, y: 0, width: SIDE, height: SIDE }), colours, 1);
  });
  return (
    <figure>
      <canvas ref={canvas} class="large" role="img" aria-label={`${cores(free(node.cpu))} and ${bytes(free(node.memory))} are free`} />
      <figcaption class="soft">CPU across, memory upwards. The light rectangle is free.</figcaption>
    </figure>
  );
}

function Meter({ title, room, show }: { title: string; room: Room; show(value: number): string }) {
  const percent = room.allocatable > 0 ? Math.min(100, (100 * room.requested) / room.allocatable) : 0;
  return (
    <div class="meter">
      <span>{title}</span>
      <span class="bar" aria-hidden="true">
        <i class="ready" style={{ width: `${percent}%` }} />
      </span>
      <span class="soft">
        {show(room.requested)} of {show(room.allocatable)} taken
      </span>
    </div>
  );
}

function measured(node: Node): string {
  if (node.creation_s === null) return UNKNOWN;
  const age = node.speed_age_s === null ? "" : `, measured ${seconds(node.speed_age_s)} ago`;
  return `${seconds(node.creation_s)}${age}`;
}
