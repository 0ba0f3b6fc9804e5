import { useEffect, useState } from "preact/hooks";
import type { Cluster } from "../cluster";
import { bytes, cores, timeOfDay } from "../format";
import { Mode } from "../Functions";
import type { Explanation } from "../model";
import { hrefTo } from "../route";
import { phaseOf } from "../words";
import { Facts, Sentences } from "./parts";
import { TermBars } from "./TermBars";

export function PodPanel({ cluster, podKey }: { cluster: Cluster; podKey: string }) {
  const pod = cluster.pods.get(podKey);
  const explained = useExplanation(podKey, pod?.node ?? null);
  if (pod === undefined) return <p class="soft">This pod is not there.</p>;
  return (
    <>
      <Facts
        facts={[
          ["phase", phaseOf(pod)],
          ["node", pod.node === null ? "none yet" : <a href={hrefTo("node", pod.node)}><bdi>{pod.node}</bdi></a>],
          ["asks for", `${cores(pod.cpu)}, ${bytes(pod.memory)}`],
          ["function", pod.function === null ? null : <a href={hrefTo("function", pod.function)}><bdi>{pod.function}</bdi></a>],
          ["created", timeOfDay(pod.created_at)],
        ]}
      />
      <Sentences title="Why it is where it is" sentences={pod.why} />
      <h3>Who lost, by how much</h3>
      {explained === "waiting" && <p class="soft">No node was chosen yet.</p>}
      {explained === "asking" && <p class="soft">Asking the extender…</p>}
      {explained instanceof Error && <p class="soft">{explained.message}</p>}
      {isExplanation(explained) && (
        <>
          <p class="soft">
            Decided at {timeOfDay(explained.decided_at)} <Mode mode={explained.mode} />
          </p>
          <Sentences sentences={explained.reasons} />
          {explained.nodes.length > 0 && <TermBars nodes={explained.nodes} chosen={pod.node} />}
        </>
      )}
    </>
  );
}

type Asked = "waiting" | "asking" | Explanation | Error;

function isExplanation(asked: Asked): asked is Explanation {
  return typeof asked === "object" && !(asked instanceof Error);
}

/** Asked when the pod has a node: the decision came before. */
function useExplanation(key: string, node: string | null): Asked {
  const [asked, set] = useState<Asked>("waiting");
  useEffect(() => {
    if (node === null) return set("waiting");
    const abort = new AbortController();
    set("asking");
    explain(key, abort.signal).then(set, (error: unknown) => {
      if (!abort.signal.aborted) set(error instanceof Error ? error : new Error(String(error)));
    });
    return () => abort.abort();
  }, [key, node]);
  return asked;
}

async function explain(key: string, signal: AbortSignal): Promise<Explanation> {
  const slash = key.indexOf("/");
  const [namespace, name] = [key.slice(0, slash), key.slice(slash + 1)].map(encodeURIComponent);
  const answer = await fetch(`explain/pod/${namespace}/${name}`, { signal });
  const said = (await answer.json().catch(() => null)) as (Explanation & { error?: string }) | null;
  if (answer.ok && said !== null) return said;
  throw new Error(said?.error ?? "The extender has no decision about this pod.");
}
