import type { Cluster } from "../cluster";
import { bytes, cores, number, plural } from "../format";
import { Mode, Sizes } from "../Functions";
import { replicasOf } from "../words";
import { Curve } from "./Curve";
import { Facts, PodList, Timeline } from "./parts";

export function FunctionPanel({ cluster, fnKey }: { cluster: Cluster; fnKey: string }) {
  const fn = cluster.functions.get(fnKey);
  if (fn === undefined) return <p class="soft">This function is not there.</p>;
  const pods = cluster.podsOf(fnKey);
  return (
    <>
      <Facts
        facts={[
          ["mode", <Mode mode={fn.mode} />],
          ["replicas", replicasOf(fn)],
          ["knee", fn.knee],
          ["limits in force", fn.limits && `${cores(fn.limits.cpu)}, ${bytes(fn.limits.memory)}`],
          ["requests in flight", fn.tracks && `${number(fn.tracks.regular)} in regular, ${number(fn.tracks.emergency)} in emergency instances`],
          ["sizes", fn.sizes.length === 0 ? null : <Sizes sizes={fn.sizes} />],
        ]}
      />
      {fn.curve !== null && fn.curve.length > 0 && (
        <>
          <h3>Its curve</h3>
          <Curve curve={fn.curve} knee={fn.knee} replicas={fn.replicas.ready} />
        </>
      )}
      <h3>Last decisions</h3>
      {fn.decisions.length === 0 ? <p class="soft">None yet.</p> : <Timeline entries={fn.decisions} />}
      {fn.conditions.length > 0 && (
        <>
          <h3>Conditions</h3>
          <ul class="sentences">
            {fn.conditions.map((condition) => (
              <li key={condition.type}>
                <bdi>
                  <strong>
                    {condition.type}: {condition.status}
                  </strong>{" "}
                  {condition.reason}
                  {condition.message === "" ? "" : `: ${condition.message}`}
                </bdi>
              </li>
            ))}
          </ul>
        </>
      )}
      <h3>{plural(pods.length, "pod")}</h3>
      <PodList pods={pods} />
    </>
  );
}
