/** What was clicked, in full. The focus goes to it and back. */

import { useEffect, useRef } from "preact/hooks";
import type { Cluster } from "../cluster";
import { go, readRoute, type Route } from "../route";
import { nameOf } from "../words";
import { FunctionPanel } from "./FunctionPanel";
import { NodePanel } from "./NodePanel";
import { PodPanel } from "./PodPanel";

interface Props {
  cluster: Cluster;
  selected: NonNullable<Route["selected"]>;
}

export function Panel({ cluster, selected: { kind, key } }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  const before = useRef<Element | null>(null);
  useEffect(() => {
    before.current = document.activeElement;
    return () => {
      if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus();
    };
  }, []);
  useEffect(() => heading.current?.focus(), [kind, key]);
  return (
    <aside class="right panel" aria-labelledby="panel-title" onKeyDown={(event) => event.key === "Escape" && close()}>
      <div class="panel-head">
        <h2 id="panel-title" ref={heading} tabIndex={-1}>
          <small>{kind}</small>
          <bdi>{kind === "node" ? key : nameOf(key)}</bdi>
          {kind !== "node" && <small class="whole"><bdi>{key}</bdi></small>}
        </h2>
        <button type="button" class="close" onClick={close} aria-label="Close">
          ×
        </button>
      </div>
      {kind === "node" && <NodePanel cluster={cluster} name={key} />}
      {kind === "pod" && <PodPanel cluster={cluster} podKey={key} />}
      {kind === "function" && <FunctionPanel cluster={cluster} fnKey={key} />}
    </aside>
  );
}

function close(): void {
  go({ ...readRoute(location.hash), selected: null });
}
