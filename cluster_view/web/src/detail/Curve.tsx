/** The measured points of a function, by its replicas; the knee where more replicas stop being worth their cost. */

import { number } from "../format";
import type { CurvePoint } from "../model";

const WIDTH = 380;
const HEIGHT = 170;
const LEFT = 44;
const RIGHT = 12;
const TOP = 18;
const BOTTOM = 30;

interface Props {
  curve: readonly CurvePoint[];
  knee: number | null;
  replicas: number | null;
}

export function Curve({ curve, knee, replicas }: Props) {
  const points = [...curve].sort((a, b) => a.replicas - b.replicas);
  const mostReplicas = Math.max(...points.map((point) => point.replicas), knee ?? 0, replicas ?? 0, 1);
  const mostScore = Math.max(...points.map((point) => point.score), 1e-9);
  const x = (value: number) => LEFT + (value / mostReplicas) * (WIDTH - LEFT - RIGHT);
  const y = (score: number) => HEIGHT - BOTTOM - (Math.max(0, score) / mostScore) * (HEIGHT - TOP - BOTTOM);
  return (
    <figure class="curve">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`Score by replicas${knee === null ? "" : `, with the knee at ${knee}`}; the same as a table below`}>
        <line class="axis" x1={LEFT} x2={WIDTH - RIGHT} y1={y(0)} y2={y(0)} />
        <text x={LEFT - 6} y={y(mostScore) + 4} text-anchor="end">{number(mostScore)}</text>
        <text x={LEFT - 6} y={y(0) + 4} text-anchor="end">0</text>
        <text x={WIDTH - RIGHT} y={HEIGHT - 8} text-anchor="end">{mostReplicas} replicas</text>
        {replicas !== null && <line class="now" x1={x(replicas)} x2={x(replicas)} y1={TOP} y2={y(0)} />}
        {knee !== null && (
          <>
            <line class="knee" x1={x(knee)} x2={x(knee)} y1={TOP} y2={y(0)} />
            <text class="knee" x={x(knee)} y={TOP - 6} text-anchor="middle">knee {knee}</text>
          </>
        )}
        <polyline points={points.map((point) => `${x(point.replicas)},${y(point.score)}`).join(" ")} />
        {points.map((point) => (
          <circle key={point.replicas} cx={x(point.replicas)} cy={y(point.score)} r="3.5" />
        ))}
      </svg>
      <details>
        <summary>As a table</summary>
        <table>
          <thead>
            <tr>
              <th scope="col" class="numeric">replicas</th>
              <th scope="col" class="numeric">score</th>
            </tr>
          </thead>
          <tbody>
            {points.map((point) => (
              <tr key={point.replicas}>
                <td class="numeric">{point.replicas}</td>
                <td class="numeric">{number(point.score)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </figure>
  );
}
