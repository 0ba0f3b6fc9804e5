/** Who lost by how much: the cost of each node, as a bar made of its terms. */

import { number, seconds } from "../format";
import type { ExplainedNode } from "../model";
import { hrefTo } from "../route";

const COLOURS = 6;

export function TermBars({ nodes, chosen }: { nodes: readonly ExplainedNode[]; chosen: string | null }) {
  const terms = [...new Set(nodes.flatMap((node) => Object.keys(node.terms)))];
  const most = Math.max(...nodes.map((node) => sum(node)), 1e-9);
  return (
    <>
      <ul class="legend" aria-hidden="true">
        {terms.map((term, index) => (
          <li key={term}>
            <i class={`term-${index % COLOURS}`} /> <bdi>{term}</bdi>
          </li>
        ))}
      </ul>
      <table class="bars">
        <caption class="unseen">Nodes by cost, the best first, and by how much the others lost</caption>
        <thead class="unseen">
          <tr>
            <th scope="col">node</th>
            <th scope="col">cost</th>
            <th scope="col">lost by</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <tr key={node.name} class={node.name === chosen ? "chosen" : undefined}>
              <th scope="row">
                <a href={hrefTo("node", node.name)}>
                  <bdi>{node.name}</bdi>
                </a>
                {node.name === chosen && <span class="tag">chosen</span>}
              </th>
              <td>
                <span class="stack" aria-hidden="true">
                  {terms.map((term, index) => (
                    <i
                      key={term}
                      class={`term-${index % COLOURS}`}
                      title={`${term}: ${number(node.terms[term] ?? 0)}`}
                      style={{ width: `${(100 * Math.max(0, node.terms[term] ?? 0)) / most}%` }}
                    />
                  ))}
                </span>
                <span class="unseen">
                  {seconds(node.cost)}: {terms.map((term) => `${term} ${number(node.terms[term] ?? 0)}`).join(", ")}
                </span>
              </td>
              <td class="numeric">{node.lost_by === 0 ? "best" : `+${seconds(node.lost_by)}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function sum(node: ExplainedNode): number {
  return Object.values(node.terms).reduce((total, value) => total + Math.max(0, value), 0);
}
